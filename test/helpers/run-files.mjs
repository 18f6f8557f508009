/**
 * Runs test files in the order given, each in a process of its own: `node FLAGS run-files.mjs LEAST TIMEOUT_MS FILE...`. The files inherit
 * the flags. `node --test` would sort them by name. Exit code 1 when a test failed.
 *
 * LEAST files run at once. Many tests wait for a lease or a poll, so another one starts whenever the machine has had time to spare, up to
 * twice as many.
 */
import { cpus } from 'node:os';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import summary from './summary-reporter.mjs';

const SAMPLE_MS = 2_000;
/** Share of the time of all cores. */
const TO_SPARE = 0.2;

const [leastText, timeoutText, ...files] = process.argv.slice(2);
const least = Number(leastText);
const timeout = Number(timeoutText);
const counts = { tests: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
const started = performance.now();
let running = 0;

// The reporters share one stream of events, in which those of a file stand together.
const events = new Readable({ objectMode: true, read() {} });
const reporters = [spec, summary].map((reporter) => events.compose(reporter));
reporters[0].pipe(process.stdout, { end: false });
// The list of skipped tests comes after all else.
reporters[0].once('end', () => reporters[1].pipe(process.stdout));

const sampling = setInterval(startIfIdle, SAMPLE_MS);
let sampled = coreTimes();
for (let count = 0; count < least; count++) void startNext();

function startIfIdle() {
  const now = coreTimes();
  const share = (now.idle - sampled.idle) / (now.all - sampled.all);
  sampled = now;
  if (share >= TO_SPARE && running < 2 * least) void startNext();
}

async function startNext() {
  const file = files.shift();
  if (file === undefined) return;
  running += 1;
  const told = [];
  for await (const event of run({ files: [file], concurrency: 1, timeout })) told.push(event);
  running -= 1;
  for (const event of told) tell(event);
  if (running < least) void startNext();
  if (running === 0 && files.length === 0) end();
}

/** @param {{ type: string, data: any }} event */
function tell(event) {
  const { type, data } = event;
  // What a run says of itself as a whole: its counts.
  if (type === 'test:diagnostic' && data.nesting === 0 && data.file === undefined) return;
  if ((type === 'test:pass' || type === 'test:fail') && data.details?.type !== 'suite') count(type, data);
  if (type === 'test:fail' && !isTodo(data)) process.exitCode = 1;
  events.push(event);
}

const isTodo = ({ todo }) => todo !== undefined && todo !== false;

function count(type, data) {
  counts.tests += 1;
  if (data.skip !== undefined && data.skip !== false) counts.skipped += 1;
  else if (isTodo(data)) counts.todo += 1;
  else if (data.details?.error?.failureType === 'cancelledByParent') counts.cancelled += 1;
  else counts[type === 'test:pass' ? 'pass' : 'fail'] += 1;
}

function end() {
  clearInterval(sampling);
  const facts = { ...counts, duration_ms: performance.now() - started };
  for (const [name, value] of Object.entries(facts))
    events.push({ type: 'test:diagnostic', data: { nesting: 0, message: `${name} ${value}` } });
  events.push(null);
}

function coreTimes() {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle;
    all += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, all };
}
