/** Loaded into each test process before its test file. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';

/**
 * Node 20 can spin for ever while it frees the handles of sockets that were reset in mid-flight, after everything is done. A test process
 * that has had nothing to do several times in a row therefore leaves by `process.exit`, which frees nothing one by one.
 */
const QUIET_TURNS = 4;
const TURN_MS = 10;
let turns = 0;
process.on('beforeExit', () => {
  turns += 1;
  if (turns > QUIET_TURNS) process.exit();
  setTimeout(() => {}, TURN_MS);
});

/** How long the process took, for the list at the end of the run. */
const times = process.env.PARHELION_TEST_TIMES;
const file = process.argv[1] ?? '';
if (isMainThread && times !== undefined && /\.test\.|unit-\d+\.mjs$/.test(file)) {
  process.once('exit', () => {
    const { user, system } = process.cpuUsage();
    const cpu = (user + system) / 1e6 + childSeconds();
    appendFileSync(times, `${JSON.stringify({ file, seconds: process.uptime(), cpu })}\n`);
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
hooks.createHook = (callbacks) => {
  if (!new Error('asked').stack.includes('node:internal/test_runner/')) return createHook(callbacks);
  tellRunner = callbacks.init;
  return createHook({});
};
hooks.AsyncResource = class extends AsyncResource {
  constructor(type, options) {
    super(type, options);
    if (type === 'Test') tellRunner?.(this.asyncId(), type, this.triggerAsyncId(), this);
  }
};
