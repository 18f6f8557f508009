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
  'a transaction with unusable meta makes the block bad': 'unusable members of a meta count as absent, and are named',
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
    'a transaction in a block is not sent again, one that a fork dropped is, and all repetitions end',
  'blocks wait for a board in their order; a fork takes out what waits, and one that falls behind ends its subscriptions':
    'blocks wait for a board in their order; a fork takes out what waits; one that falls behind leaves out the oldest, says so, and ends nothing',
  'a list that is gone is made again, and pages go on where they were':
    'a list that is gone is made again at its price, and pages go on where they were',
  'compose: the daemon waits for its database, has the rights it needs, and time to drain':
    'compose in production: the daemon waits for its database, has the rights it needs, and time to drain',
  'the lock file names no download address': 'the lock files name no download address',
  'the lock file holds the binaries of every platform: npm refuses it otherwise':
    'the lock files hold the binaries of every platform: npm refuses it otherwise',
  'without trees the methods are left to the upstream':
    'without trees the methods are left to the upstream, and say why when it has none of them',
  'the sender repeats until the chain has the transaction, then rests':
    'the sender repeats until the transaction is final, then rests',
  'what is not final, not kept, unknown or wrong is asked of the node':
    'calls that the ledger cannot answer, and invalid ones, go to the node',
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
  'errors of the file are told with their places, all at once, with exit code 78':
    'all errors of the file are reported at once with their places, and exit code 78',
  'who leaves loses the keys, and nobody else does': 'a member who leaves loses their keys, and no other member does',
  'what is no wallet or no project is refused': 'an invalid wallet and an unknown project are refused',
  'the newest final slot never goes back when the follower catches up with less than the upstream told':
    'the newest final slot never goes back when the follower knows less than the upstream reported',
  'what another process has stored is read again when a followed block has written the account since':
    'a version stored by another process is read again when a followed block has written the account since',
  'who only names the account of an interface does not move the slot from which it is valid':
    'a transaction that only names the account of an interface does not move the slot from which it is valid',
  'what was replaced before the first look is read back once, when a transaction needs it, and kept':
    'an interface that was replaced before the first read is recovered once, when a transaction needs it, and stored',
  'a look-back that takes long goes on: calls that come meanwhile are told to try again, and one later finds it':
    'a slow look-back continues: calls during it get an error to try again, and a later call finds the result',
  'what Program Metadata wrote is what its account showed, whatever way was taken':
    'a replay of Program Metadata instructions equals the account, whatever instructions wrote it',
  'what an upstream has pruned or lost is unknown, not absent':
    'data that an upstream has pruned or lost is unknown, not absent',
  'what an author can write into a transaction costs a bounded number of calls and bytes':
    'hostile transactions cost a bounded number of calls and bytes',
  'nobody waits longer than allowed; what comes later is there for the next, and is asked for once':
    'no caller waits longer than allowed; a late result serves the next caller and is requested once',
  'a file of prices is read again when it changes; what is no price is left out':
    'a price file is read again when it changes; invalid entries are skipped',
  'a fork that is cut off the ledger before the hub is told holds replays up, and ends none':
    'a fork that is removed from the ledger before the hub hears of it delays replays and ends none',
  'facts are read once, kept for all processes, and null for what is no mint':
    'facts are read once, stored for all processes, and null for an account that is no mint',
  'what cannot be read is an error and not an absence; too much is refused; who goes away is not kept':
    'unreadable data is an error, not an absence; too much is refused; a caller that leaves is forgotten',
  'what is asked for in one turn goes together, what is under way is shared, and then it is kept':
    'requests of one turn are batched, running ones are shared, and results are cached',
  'who wants it fresh shares no call that has gone out':
    'a caller that wants fresh data shares no call that is already running',
  'nobody waits longer than the deadline, and no more wait than may':
    'no caller waits longer than the deadline, and the number of waiting callers is limited',
  'what would send no span is refused; what has no effect is ignored with a warning':
    'settings with which no span is sent are refused; settings without effect are ignored with a warning',
  'what the ledger has of the upper part of a range is not listed again, and nothing is missing below it':
    'the part of a range that the ledger has is not listed again, and nothing is missing below it',
  'a plugin that returns something is refused, and told how parts are registered':
    'a plugin that returns a value is refused, and the error says how to register parts',
  'in fine weather a sign of life comes every half time-out, the first one at once; after the stop none':
    'a healthy process sends the watchdog signal at once and then every half timeout; none after the stop',
  'a spell that is longer than the time-out starves the watchdog, whatever it is; each reason is in the log':
    'a failure longer than the watchdog timeout stops its signal, whatever the failure; the log has each reason',
  'a role that is silent is no sign of life either, and is named':
    'a silent role also stops the watchdog signal, and the log names it',
  'no sign of life in bad weather; a spell of a few seconds does not end the process':
    'an unhealthy process sends no watchdog signal; a failure of a few seconds does not end it',
  'absent members are told apart from null': 'absent members differ from null',
  'what matches is what Ajv accepts': 'it accepts exactly what Ajv accepts',
  'what contains itself without an end is not decoded': 'a type that contains itself without an end is not decoded',
  'nothing that is called an interface makes a decoder throw':
    'no input in the form of an interface makes a decoder throw',
  'nothing that is called a tree of Codama makes a decoder throw':
    'no input in the form of a Codama tree makes a decoder throw',
  'what is not UTF-8 is no text': 'bytes that are not UTF-8 are no text',
  'what a program calls liquidity is told only where the fee payer gave or got something in that instruction':
    'a liquidity summary appears only if the fee payer gave or got something in that instruction',
  'who reads slowly, but not too slowly, gets everything': 'a slow reader above the minimum rate gets everything',
  'what a project holds is told to operators': 'operators see what a project holds of the shared limits',
  'what the gate refuses for another reason takes a token as well':
    'a call that the gate refuses for another reason also takes a token',
  'wrong method, unknown path and trailing slash are told before and after the key as ever':
    'wrong method, unknown path and trailing slash give the same errors before and after the key check',
  'what is no question is refused with a reason': 'invalid params are refused with a reason',
  'what the ledger never had is a hole between two ranges':
    'slots that the ledger does not have are a hole between two ranges, until it has them',
  'what cannot be answered says why': 'an error says why there is no answer',
  'what is followed is filled by a job and kept current by the blocks, in every order and with every paging':
    'followed keys are filled by a job and kept current by blocks, in every order and with every paging',
  'nobody gets anywhere without logging in': 'all pages need a login',
  'what changes something needs the token of the session, and comes from the same origin':
    'changes need the token of the session and the same origin',
  'what operators see of the daemon holds no secret': "the operators' view of the daemon contains no secret",
  'nothing that is given becomes a header of an answer': 'no input becomes a header of an answer',
  'a renewed secret of a project ends its sessions and its live page, and those of nobody else':
    'renewing the secret of a project ends its sessions and its live page, and no others',
  'what is no list of transactions is refused with a reason': 'invalid lists of transactions are refused with a reason',
  'what is at hand is taken from there': 'a call with a known answer is looked up first',
  'what was not asked for, or not text, or encoded already, or events, is not compressed':
    'answers that are not text, already encoded, or event streams, or that no client wants compressed, are not compressed',
  'a method is told by its signal that nobody waits for it any more':
    'the signal of a method aborts when no caller waits for it',
  'a limit of the plan is told to every item; an item that the plan lacks fails alone':
    'a batch over a limit of the plan fails for every item; an item that the plan excludes fails alone',
  'a refused key is told before the body is looked at': 'a key is refused before the body is read',
  'what the header leaves out counts as nothing': 'limits that the header omits are zero',
  'what a scan must not have is refused with the reason': 'invalid scans are refused with the reason',
  'of a program without an interface no version is known; what is no program is refused':
    'a program without an interface has no versions; an account that is no program is refused',
  'what the body must not have is refused with the reason': 'invalid bodies are refused with the reason',
  'what is refused costs a token; strangers are told that they need a key':
    'a refused call costs a token; callers without a key are told to use one',
  'what is wrong is refused by its name, and limits have codes of their own':
    'errors name the wrong member, and limits have codes of their own',
  'describeProgram tells what filters may name; ping answers the slot; what is no program is refused':
    'describeProgram lists what filters may name; ping answers the slot; an account that is no program is refused',
  'what was read without a cache is in the cache': 'a read that bypasses the cache fills it',
  'a mint is told as it is now, also when more was minted':
    'a mint is reported with its current supply, also after more was minted',
  'what a document may say, and what is made of it': 'accepted forms of a document and their results',
  'what the upstream has lost is never left out silently': 'data that the upstream has lost is never omitted silently',
  'what is neither address nor name': 'inputs that are neither address nor name',
  'what went in a batch is not given free by a fork': 'a fork does not release a delivery that was sent in a batch',
  'a disabled project: its deliveries wait, and the operator is told why':
    'deliveries of a disabled project wait, and the operator sees the reason',
  'what was sent in a batch is sent again with it, under the id that its receiver knows':
    'a delivery of a batch is resent with its batch, under the id that its receiver knows',
  'who guesses keys has to wait for the answers; a right key has its answer, also from the same address':
    'guesses of keys are answered late; a valid key is answered at once, also from the same address',
  'what runs is set aside: calls beside each other never spend more than there is; a batch goes as a whole or not at all':
    'running calls reserve credits: concurrent calls never spend more than is left; a batch is admitted whole or not at all',
  'who drops an answer frees its place; a connection that we end is no break of the upstream':
    'dropping an answer frees its place; a connection that we close is no failure of the upstream',
  'nothing is proved of a tree that is in doubt, and everything of the others':
    'a doubtful tree gives no proofs; all other trees do',
  'who created an account, then who spent it': 'the transaction that created an account, then the one that spent it',
  'what was applied is taken back exactly, and another branch may follow':
    'a revert restores the exact state, and another branch may follow',
  'what is to be appended and to be nullified, in whole batches': 'elements to append and to nullify, in whole batches',
  'who has passed a slot has to have come as far as the chain had there':
    'an index past the slot of the tree account must have reached its sequence number',
  'what the prover is asked, and what the client gets': 'request to the prover, and answer to the client',
  'what is proved by its index, or is nothing, needs no prover':
    'accounts that are proved by index, and empty requests, need no prover',
  'what cannot be written down is not done': 'an operation that cannot be recorded is not done',
  'are loaded anew when they have waited, so that a change in between counts':
    'are loaded again after a wait, so that a change in between counts',
  'what is taken counts as begun, unless it is given back': 'a taken job counts as begun, unless it is given back',
  'what a process of this machine held that has ended runs again at once; what lives, is paused or runs elsewhere keeps its lease':
    'jobs of an ended process of this machine run again at once; a living, paused or remote process keeps its lease',
  'what a process left behind is soon taken up by another': 'jobs of an ended process are soon claimed by another one',
  'what a process with a clock ahead made, planned and leased is done soon after it':
    'jobs made, planned and leased by a process with a fast clock are done soon after it ends',
  'what a process with a clock ahead makes, while both run, is late by two sweeps at most':
    'jobs of a running process with a fast clock are late by at most two sweeps',
  'what a release had is still there, and this version is listed as it is':
    'all migration steps of the release still exist, and the steps of this version are listed',
  'what the target would not have is refused before anything is written':
    'rows that the target cannot hold are refused before anything is written',
  'who resigns is replaced without a wait': 'a leader that resigns is replaced without a wait',
  'what the server says when it ends such a transaction is temporary, and no bug of ours':
    'the error of a transaction that the server ended is temporary, not a bug',
  'what is no database, or no place for one, is refused with a code':
    'a file that is no database, or a path where none can be, is refused with a code',
  'a writer that waits too long behind another is told so':
    'a writer that waits too long for another one gets an error that says so',
  'who waits too long is told so and is not in the way; the lock goes on':
    'a caller that waits too long gets an error and blocks nobody; the lock continues',
  'facts come back as they were, and a mint that was written to is forgotten and told':
    'stored facts are unchanged when read; a written mint is dropped and reported',
  'what it cannot go on with is told, and it answers on': 'it reports what stops it, and continues to answer',
  'what cannot be had ends with 75 and stays open; given up, it is left alone':
    'a gap that no upstream can fill ends with 75 and stays open; one that was given up is skipped',
  'what was too old after a long stop is filled beside the following; each delivery comes once':
    'slots that are too old after a long stop are filled while the chain is followed; each delivery is sent once',
  'what does not fit is 64, says what would, and changes nothing':
    'an invalid value exits with 64, names the valid ones and changes nothing',
  'bad addresses, networks, store and plugins are told together, each with its place':
    'errors in addresses, networks, store and plugins are reported together, each with its place',
  'what root restores belongs to the owner of the data folder':
    'files restored by root belong to the owner of the data folder',
  'ports of another process fail, those of the running daemon do not; its readiness is told':
    'ports of another process fail, those of the running daemon do not; its readiness is reported',
  'what happened to a tree before the daemon came is fetched': 'changes of a tree before the first start are fetched',
  'who begins with `latest` is asked before anything is fetched':
    'with `latest`, the past of a tree is fetched only on request',
  'what a receiver answers is shown as text, and what failed is recovered':
    'the answer of a receiver is shown as text, and failed deliveries are sent again',
  'what is not run is no way around the tests': 'blocks that are not run cannot hide an error from the tests',
  'what is no database, or damaged, is neither backed up nor restored':
    'a damaged file or one that is no database is neither backed up nor restored',
  'what a process of the same role has not written may be lost; a call without an answer may count':
    'unwritten usage of another process may be lost; a call without an answer may count',
  'what cannot be copied is said plainly': 'the error names what cannot be copied',
  'what one API process changes counts in the other, and two deliverers deliver each thing once':
    'changes in one API process apply in the other, and two deliverers send each delivery once',
  'what happens between a webhook and the first start of the indexer is delivered':
    'events between the creation of a webhook and the first start of the indexer are delivered',
  'what is no key stays readable': 'text that is no key stays readable',
  'what is no payment of this wallet gives nothing': 'a transaction that is no payment of this wallet gives nothing',
  'watchdog: a process whose event loop stands still gives no sign of life':
    'watchdog: a process with a blocked event loop sends no signal',
  'nobody to tell, or no program to tell with: the daemon runs as ever, and says so once':
    'without a service manager or the program to notify it, the daemon runs normally and logs that once',
  'plain HTTP on its ports is told so, and nothing else':
    'plain HTTP on TLS ports gets an error that says so, and nothing else',
  'what waits is sent when the daemon stops': 'waiting transactions are sent when the daemon stops',
  'what comes over the wire is OTLP JSON with the headers of the configuration, and holds no secret':
    'exports are OTLP JSON with the configured headers and contain no secret',
  'nothing is left of it: no request under way, no memory': 'it leaves nothing behind: no running request, no memory',
  'bodies that never end keep nobody else out, whether a key comes with them or not':
    'bodies that never end do not block other clients, with or without a key',
  'answers that nobody reads keep nobody else out': 'unread answers do not block other clients',
  'what every upstream has pruned is filled once an upstream gains it':
    'a range that every upstream has pruned is filled once an upstream has it',
  'a fork of the very first block begins anew': 'a fork of the first block starts the chain again',
  'what a processor has not reverted comes before anything else: after a restart at the ancestor, and with forks below':
    'missing reverts of a processor come first: after a restart at the ancestor, and with forks below',
  'what a wallet does not have is remembered until a block brings it':
    '"no such data" of a wallet is cached until a block brings it',
  'concurrent callers get the outcome of one run': 'abortable: concurrent callers get the outcome of one run',
  'a failure goes to all callers and is not cached': 'abortable: a failure goes to all callers and is not cached',
  'the work is aborted exactly when all callers have left':
    'abortable: the work is aborted exactly when all callers have left',
  'an aborted caller starts nothing': 'abortable: an aborted caller starts nothing',
  'what Anchor encodes and decodes of public interfaces is decoded the same':
    'data of public interfaces decodes as Anchor encodes and decodes it',
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
