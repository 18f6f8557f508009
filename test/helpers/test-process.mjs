/** Loaded into each test process before its test file. */
import { createRequire } from 'node:module';

/**
 * Node 20 can spin for ever while it frees the handles of sockets that were reset in mid-flight, after everything is done. A test process
 * that has had nothing to do several times in a row therefore leaves by `process.exit`, which frees nothing one by one.
 */
const QUIET_TURNS = 4;
let turns = 0;
process.on('beforeExit', () => {
  turns += 1;
  if (turns > QUIET_TURNS) process.exit();
  setTimeout(() => {}, 30);
});

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
