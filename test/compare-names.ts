/**
 * Compares the tests of two states of the tree by what their runs printed: `npm run test:names -- BEFORE AFTER...`, each a file with the
 * output of `npm test`, `npm run test:all` or `.ci/run`. BEFORE may be several files with commas between them. Prints the tests that only
 * the runs before had, and ends with 1 if there are any. Tests count by their own title, as often as it stands there: suites and files
 * around them may have moved. A name that a table below gives is another title of the same test.
 */
import { readFileSync } from 'node:fs';

/** Titles that were changed on purpose, as they were and as they are. */
const RENAMED: Readonly<Record<string, string>> = {
  'a violation of the layout is refused with the rule as the reason':
    'a transaction that breaks the layout is opaque, with the rule as the reason',
  'as JSON, values that do not fit are refused, and a fee beyond 2^53 is read approximately':
    'as JSON, values that do not fit make a transaction opaque, and a fee beyond 2^53 that was rounded is the largest',
  'a transaction with unusable meta makes the block bad':
    'what cannot be used of a meta counts as absent, and is named',
  'inner instructions whose data is not base58 fail with a code when they are read':
    'inner instructions whose data is not base58 count as absent',
  'transactions in an unknown encoding are refused': 'transactions in an unknown encoding are opaque',
  'base64 with an invalid or a missing character is refused':
    'a transaction in base64 with an invalid or a missing character is opaque',
  'blocks in other encodings are left to the parser': 'entries in other encodings are left to the parser',
  'jsonParsed is refused, because instructions cannot be restored from it':
    'transactions as jsonParsed are opaque, because instructions cannot be restored from it',
  'recorded getTransaction answers decode, and those with instructions parsed by the node are refused':
    'recorded getTransaction answers decode, and those with instructions parsed by the node are opaque',
  'unknown versions are refused as bytes, with the reason':
    'a transaction of an unknown version is opaque as bytes, with the reason',
  'a vote is exactly one instruction of the Vote program':
    'a vote has one or two signatures, a legacy message and exactly one instruction, of the Vote program',
  'an index beyond static and loaded keys is refused':
    'a transaction with an index beyond static and loaded keys is opaque',
  'plain lists of numbers are counted like other lists':
    'lists of integers are counted, and refused with anything else in them',
  'a transaction is repeated until it is seen': 'a transaction is repeated until it is final',
  'no seen or expired transaction is sent again, and all repetitions end':
    'what is in a block is not sent again, what a fork dropped is, and all repetitions end',
  'blocks wait for a board in their order; a fork takes out what waits, and one that falls behind ends its subscriptions':
    'blocks wait for a board in their order; a fork takes out what waits; one that falls behind leaves out the oldest and ends nothing',
  'the lock file names no download address': 'the lock files name no download address',
  'the lock file holds the binaries of every platform: npm refuses it otherwise':
    'the lock files hold the binaries of every platform: npm refuses it otherwise',
  'without trees the methods are left to the upstream':
    'without trees the methods are left to the upstream, and say why when it has none of them',
  'the sender repeats until the chain has the transaction, then rests':
    'the sender repeats until the transaction is final, then rests',
  'what is not final, not kept, unknown or wrong is asked of the node':
    'what is not kept, unknown or wrong is asked of the node',
  'error names are those of the installed release':
    'names of errors are those that this release of the engine declares',
  'a memo shows in the signature list':
    'a memo of each memo program shows in the signature list and in the parsed transaction',
  'a real node with slots of 200 ms, followed on SQLite':
    'Agave 4.4 with Alpenglow and slots of 200 ms, followed on SQLite',
  'a real node with slots of 400 ms, followed on PostgreSQL':
    'Agave 4.2 with TowerBFT and slots of 400 ms, followed on PostgreSQL',
  'sending is repeated only when the connection could not be opened':
    'sending is repeated only when nothing can have been sent',
  'batches: request order, mixed failures, big integers, no batch to the upstream':
    'batches: request order, mixed failures, big integers',
  'random runs with forks, seed 16': 'random runs with forks, seed 16, 40 steps',
  'random runs with forks, seed 203': 'random runs with forks, seed 203, 40 steps',
};

/** `  ✔ title (12.3ms)`, with a reason behind it where it was skipped. A suite begins with ▶ and ends with ✔ at the same depth. */
const LINE = /^(\s*)([✔✖﹣⚠▶]) (.*?)(?: \(\d+(?:\.\d+)?ms\))?(?: # .*)?$/u;

interface Test {
  readonly title: string;
  readonly path: string;
}

/** The tests in an output, without suites, each once for each time that it ran. */
function testsIn(output: string): readonly Test[] {
  const found: Test[] = [];
  const open: { readonly depth: number; readonly title: string; hasTests: boolean }[] = [];
  // What failed is printed again at the end.
  const [results = ''] = output.split(/^✖ failing tests:$/m);
  for (const line of results.split('\n')) {
    const [, space, sign, title] = LINE.exec(line) ?? [];
    if (space === undefined || title === undefined) continue;
    const depth = space.length;
    while ((open.at(-1)?.depth ?? -1) > depth) open.pop();
    if (sign === '▶') {
      open.push({ depth, title, hasTests: false });
      continue;
    }
    const last = open.at(-1);
    if (last?.depth === depth && last.title === title) {
      open.pop();
      continue;
    }
    found.push({ title: RENAMED[title] ?? title, path: [...open.map((suite) => suite.title), title].join(' › ') });
  }
  return found;
}

/** How often each title stands there, with the places. */
function countTitles(outputs: readonly string[]): Map<string, readonly string[]> {
  const titles = new Map<string, string[]>();
  for (const { title, path } of outputs.flatMap(testsIn)) titles.set(title, [...(titles.get(title) ?? []), path]);
  return titles;
}

const [before, ...after] = process.argv.slice(2);
if (before === undefined || after.length === 0) {
  console.error('usage: npm run test:names -- BEFORE[,BEFORE] AFTER...');
  process.exitCode = 64;
} else {
  // Several runs of the same test after `.ci/run` has cut it in parts are more, never fewer.
  const read = (path: string) => readFileSync(path, 'utf8');
  const [old, now] = [countTitles(before.split(',').map(read)), countTitles(after.map(read))];
  const sum = (titles: Map<string, readonly string[]>) =>
    [...titles.values()].reduce((all, { length }) => all + length, 0);
  const gone = [...old].filter(([title, paths]) => (now.get(title)?.length ?? 0) < paths.length);
  console.log(
    `${sum(old)} tests before, ${sum(now)} after; ${[...now.keys()].filter((title) => !old.has(title)).length} new titles`,
  );
  for (const [title, paths] of gone)
    console.log(`GONE (${paths.length} before, ${now.get(title)?.length ?? 0} after): ${paths.join('; ')}`);
  if (gone.length > 0) process.exitCode = 1;
}
