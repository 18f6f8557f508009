/**
 * Runs files of tests, or of groups of them, in the order given, each in a process of its own: `node FLAGS run-files.mjs GATE MOST
 * TIMEOUT_MS FILE...`. The files inherit the flags. `node --test` would sort them by name. Exit code 1 when a test failed, or when a process knew a test
 * that it did not report.
 *
 * MOST processes are there at once. `gate.ts`, at the path GATE, says which of them work.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { inspect } from 'node:util';
import summary from './summary-reporter.mjs';

const MAX_FAILURE_CHARS = 1_500;
/** Of what is known of a process that died outside of its tests: the end. */
const MAX_LAST_CHARS = 2_000;

const [gate, mostText, timeoutText, ...files] = process.argv.slice(2);
process.env.PARHELION_TEST_GATE = gate;
const events = run({ files, concurrency: Number(mostText), timeout: Number(timeoutText) });
/** By file: the end of its stderr, and the errors outside of a test, which the runner reports as diagnostics; under Node 20 without their file. */
const lastWords = new Map();
const keep = ({ file, message }) =>
  lastWords.set(file, `${lastWords.get(file) ?? ''}${message.trimEnd()}\n`.slice(-MAX_LAST_CHARS));
events.on('test:stderr', keep);
events.on('test:diagnostic', (event) => {
  if (event.message.includes('caught by the test runner')) keep(event);
});
events.on('test:fail', ({ name, file, todo, details: { error } }) => {
  if (todo !== undefined && todo !== false) return;
  process.exitCode = 1;
  if (error.failureType === 'subtestsFailed') return;
  // A process that died outside of its tests.
  if (error.exitCode !== undefined) {
    const how = error.signal === null ? `exit code ${error.exitCode}` : error.signal;
    return tell(
      file,
      name,
      `outside of its tests the process ended by ${how}\n${[file, undefined].map((of) => lastWords.get(of) ?? '').join('')}`,
    );
  }
  const thrown = error.cause ?? error;
  const whole = inspect(thrown, { depth: 1 });
  // The cause of a property that failed says more than its counterexample.
  const cause =
    thrown?.cause === undefined ? '' : `${inspect(thrown.cause, { depth: 1 }).slice(0, MAX_FAILURE_CHARS)}\n`;
  const why = `${cause}${whole.slice(0, MAX_FAILURE_CHARS)}`;
  tell(file, name, why);
});

/** The end of an output is what people are shown first: `run.ts` prints these after all else. */
function tell(file, name, why) {
  appendFileSync(`${process.env.PARHELION_TEST_TIMES}.failed`, `${relative('', file ?? '')} › ${name}\n  ${why}\n`);
}
/** Reports of each file: tests and suites. */
const reported = new Map();
for (const type of ['test:pass', 'test:fail'])
  events.on(type, ({ file }) => reported.set(file, (reported.get(file) ?? 0) + 1));
events.once('end', () => findLostTests(process.env.PARHELION_TEST_TIMES));
const reporters = [spec, summary].map((reporter) => events.compose(reporter));
reporters[0].pipe(process.stdout, { end: false });
// The list of skipped tests comes after all else.
reporters[0].once('end', () => reporters[1].pipe(process.stdout));

/** A test that did not run looks like one that passed, so each process writes at its end what it knew (`test-process.mjs`). */
function findLostTests(path) {
  if (path === undefined) return;
  const rows = existsSync(path)
    ? readFileSync(path, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
        // Files that ran before these, under another version of Node, stand there too.
        .filter(({ file }) => files.includes(file))
    : [];
  const ended = new Set(rows.map(({ file }) => file));
  const lost = files.filter((file) => !ended.has(file)).map((file) => `${file}: its process left no record`);
  for (const { tests, members, exitedAt } of rows) {
    for (const member of members) if (member.tests === 0) lost.push(`${member.file}: it declares no test`);
    for (const [file, count] of Object.entries(tests)) {
      const seen = reported.get(file) ?? 0;
      if (seen < count)
        lost.push(`${file}: ${count} tests and suites, ${seen} reported; ${exitedAt ?? 'no call of process.exit'}`);
    }
  }
  if (lost.length === 0) return;
  process.exitCode = 1;
  console.log(`\nLOST TESTS:\n${lost.join('\n')}`);
}
