/**
 * Runs test files in the order given, each in a process of its own: `node FLAGS run-files.mjs CONCURRENCY TIMEOUT_MS FILE...`. The files
 * inherit the flags. `node --test` would sort them by name. Exit code 1 when a test failed.
 */
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import summary from './summary-reporter.mjs';

const [concurrency, timeout, ...files] = process.argv.slice(2);
const events = run({ files, concurrency: Number(concurrency), timeout: Number(timeout) });
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
const reporters = [spec, summary].map((reporter) => events.compose(reporter));
reporters[0].pipe(process.stdout, { end: false });
// The list of skipped tests comes after all else.
reporters[0].once('end', () => reporters[1].pipe(process.stdout));
