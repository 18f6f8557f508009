/** Loaded into each test process before its test file. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { isMainThread } from 'node:worker_threads';

const file = process.argv[1] ?? '';
const isTestFile = isMainThread && /\.test\.|\.group\.mjs$/.test(file);

/** For the tests of one file, however many share the process. A machine that others use needs much longer than the minute that most take. */
export const FILE_TIMEOUT_MS = 600_000;
const timeoutMs = Number(process.env.PARHELION_TEST_TIMEOUT_MS ?? FILE_TIMEOUT_MS);

/** `gate.ts` says when this process may begin. What the test starts itself asks nobody. */
const gate = process.env.PARHELION_TEST_GATE;
delete process.env.PARHELION_TEST_GATE;
if (isTestFile && gate !== undefined) {
  const socket = connect(gate);
  await new Promise((resolve, reject) => socket.once('data', resolve).once('error', reject));
  socket.unref();
}
const began = performance.now();

/**
 * Node 20 can spin for ever while it frees the handles of sockets that were reset in mid-flight, after everything is done. A test process
 * that has had nothing to do several times in a row therefore leaves by `process.exit`, which frees nothing one by one.
 */
const QUIET_TURNS = 4;
const TURN_MS = 10;
let turns = 0;
let lastQuiet = 0;
process.on('beforeExit', () => {
  const now = performance.now();
  // Whatever took longer than the timer below was work.
  turns = now - lastQuiet < 3 * TURN_MS ? turns + 1 : 1;
  lastQuiet = now;
  if (turns > QUIET_TURNS) process.exit();
  setTimeout(() => {}, TURN_MS);
});

/**
 * How long the process took, for the list at the end of the run, and how many tests each file declared: the runner compares them with those
 * that were reported.
 */
const times = process.env.PARHELION_TEST_TIMES;
let waitedFor;
let exitedAt;
if (isTestFile && times !== undefined) {
  process.once('exit', () => {
    const { seconds, cpu } = spent();
    const row = {
      file,
      seconds,
      cpu,
      costs: Object.fromEntries(costs),
      members,
      waitedFor,
      tests: declaredTests(),
      exitedAt,
    };
    appendFileSync(times, `${JSON.stringify(row)}\n`);
  });
  const exit = process.exit;
  // Without an argument it keeps `process.exitCode`, which an error outside of a test has set.
  process.exit = (...code) => {
    exitedAt ??= new Error('process.exit').stack;
    exit(...code);
  };
  const giveUp = () => {
    waitedFor = [...unfinishedTests(), ...activeHandles()];
    process.exit(143);
  };
  // The runner ends a process that takes too long by this signal.
  process.once('SIGTERM', giveUp);
  // Files that share a process are bound one by one.
  if (!/\.group\.mjs$/.test(file)) setTimeout(giveUp, timeoutMs).unref();
}

/** For a shared process: seconds by the clock and of CPU, by file. */
const costs = new Map();
/** Files that share the process, and how many tests and suites each has at its top. */
export const members = [];
let counted = { seconds: 0, cpu: 0 };

/** What the process has spent since the last call, its start included, goes to the account of this file. */
export function countCost(url) {
  const now = spent();
  const { seconds, cpu } = costs.get(url) ?? { seconds: 0, cpu: 0 };
  costs.set(url, { seconds: seconds + now.seconds - counted.seconds, cpu: cpu + now.cpu - counted.cpu });
  counted = now;
}

function spent() {
  const { user, system } = process.cpuUsage();
  return { seconds: (performance.now() - began) / 1000, cpu: (user + system) / 1e6 + childSeconds() };
}

/** Number of suites and tests by file, nested ones included. */
function declaredTests() {
  const counts = {};
  for (const { parent, hookType, loc } of tests)
    if (parent !== null && hookType === undefined && loc?.file !== undefined)
      counts[loc.file] = (counts[loc.file] ?? 0) + 1;
  return counts;
}

function unfinishedTests() {
  return tests
    .filter(({ startTime, endTime }) => startTime !== null && endTime === null)
    .map(({ name }) => `test: ${name}`);
}

/** What keeps this process alive: sockets with their other end, children, timers. */
function activeHandles() {
  const handles = process.report.getReport().libuv.filter((handle) => handle.is_active && handle.is_referenced);
  return handles.map(({ type, remoteEndpoint, localEndpoint, pid, firesInMsFromNow }) => {
    const place = remoteEndpoint ?? localEndpoint;
    const where = place ? ` ${place.ip4 ?? place.ip6 ?? place}:${place.port ?? ''}` : '';
    return `${type}${where}${pid ? ` ${pid}` : ''}${firesInMsFromNow ? ` in ${firesInMsFromNow} ms` : ''}`;
  });
}

/** CPU time of the children that have ended: fields 16 and 17 of the line, in hundredths. */
function childSeconds() {
  if (!existsSync('/proc/self/stat')) return 0;
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

/**
 * Node 20's test runner watches every promise and timer, to name the test that a stray error belongs to. In tests that run a whole daemon
 * this takes a quarter of the CPU time. Here it hears of its own tests alone, so that nested ones find their suite; a stray error fails
 * the file instead of one test of it.
 */
const hooks = createRequire(import.meta.url)('node:async_hooks');
const { AsyncResource, createHook } = hooks;
let tellRunner = null;
/** Tests, suites and hooks, in the order of their declaration. */
export const tests = [];
hooks.createHook = (callbacks) => {
  if (!new Error('asked').stack.includes('node:internal/test_runner/')) return createHook(callbacks);
  tellRunner = callbacks.init;
  return createHook({});
};
hooks.AsyncResource = class extends AsyncResource {
  constructor(type, options) {
    super(type, options);
    if (type !== 'Test') return;
    tests.push(this);
    tellRunner?.(this.asyncId(), type, this.triggerAsyncId(), this);
  }
};
