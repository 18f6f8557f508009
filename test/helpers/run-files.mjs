/**
 * Runs files of tests, or of groups of them, in the order given, each in a process of its own: `node FLAGS run-files.mjs LEAST TIMEOUT_MS
 * FILE...`. The files inherit the flags. `node --test` would sort them by name. Exit code 1 when a test failed, or when a process knew a test
 * that it did not report.
 *
 * LEAST files work at once. Many tests wait for a lease or a poll, so one more begins whenever the machine has had time to spare, up to
 * twice as many: the runner starts all of these processes, and `test-process.mjs` waits at the gate for its turn.
 */
import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { inspect } from 'node:util';
import summary from './summary-reporter.mjs';

const SAMPLE_MS = 1_000;
/** Tests often wait for each other: a core without work for one second says little of the next. */
const IDLE_SAMPLES = 3;
/** Share of the time of all cores. */
const TO_SPARE = 0.1;
const MAX_FAILURE_CHARS = 1_500;

const [leastText, timeoutText, ...files] = process.argv.slice(2);
const least = Number(leastText);
const timeout = Number(timeoutText);

const gate = openGate();
const events = run({ files, concurrency: 2 * least, timeout });
events.on('test:fail', ({ name, file, todo, details: { error } }) => {
  if (todo !== undefined && todo !== false) return;
  process.exitCode = 1;
  if (error.failureType === 'subtestsFailed') return;
  const thrown = error.cause ?? error;
  const whole = inspect(thrown, { depth: 1 });
  // The cause of a property that failed says more than its counterexample.
  const cause =
    thrown?.cause === undefined ? '' : `${inspect(thrown.cause, { depth: 1 }).slice(0, MAX_FAILURE_CHARS)}\n`;
  const why = `${cause}${whole.slice(0, MAX_FAILURE_CHARS)}`;
  // The end of an output is what people are shown first: `run.ts` prints these after all else.
  appendFileSync(`${process.env.PARHELION_TEST_TIMES}.failed`, `${relative('', file ?? '')} › ${name}\n  ${why}\n`);
});
/** Reports of each file: tests and suites. */
const reported = new Map();
for (const type of ['test:pass', 'test:fail'])
  events.on(type, ({ file }) => reported.set(file, (reported.get(file) ?? 0) + 1));
events.once('end', () => {
  gate.close();
  findLostTests(process.env.PARHELION_TEST_TIMES);
});
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

/** A process asks by connecting, begins with the first byte, and has ended when its connection has. */
function openGate() {
  const path = join(tmpdir(), `gate-${process.pid}.sock`);
  const waiting = new Set();
  let working = 0;
  const letIn = () => {
    const [socket] = waiting;
    if (socket === undefined) return;
    waiting.delete(socket);
    working += 1;
    socket.write('1');
  };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('close', () => {
      if (!waiting.delete(socket)) working -= 1;
      if (working < least) letIn();
    });
    socket.resume();
    waiting.add(socket);
    if (working < least) letIn();
  }).listen(path);
  process.env.PARHELION_TEST_GATE = path;
  let sampled = coreTimes();
  let idleFor = 0;
  const sampling = setInterval(() => {
    const now = coreTimes();
    const idle = (now.idle - sampled.idle) / (now.all - sampled.all);
    sampled = now;
    idleFor = idle >= TO_SPARE ? idleFor + 1 : 0;
    if (idleFor < IDLE_SAMPLES) return;
    idleFor = 0;
    letIn();
  }, SAMPLE_MS);
  return {
    close() {
      clearInterval(sampling);
      server.close();
      rmSync(path, { force: true });
    },
  };
}

/** What runs at a lower priority gives way: the thread of an Agave node that spins (`agave.ts`) takes nothing from a test. */
function coreTimes() {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle + times.nice;
    all += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, all };
}
