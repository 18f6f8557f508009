/**
 * Preloaded into every thread of a process (`NODE_OPTIONS=--import=…`): its wall clock is ahead of the machine's by as many
 * milliseconds as the file says that STEPPED_CLOCK names. The monotonic clock and timers stay as they are.
 */
import { readFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';

const LOOK_MS = 20;
const path = process.env['STEPPED_CLOCK'];
const machine = Date.now;
let aheadMs = 0;

function look() {
  let now = 0;
  try {
    now = Number(readFileSync(path, 'utf8'));
  } catch {
    // Not stepped yet.
  }
  if (now === aheadMs) return;
  aheadMs = now;
  process.stderr.write(`clock of thread ${threadId} is ahead by ${aheadMs} ms\n`);
}

Date.now = () => machine() + aheadMs;
globalThis.Date = new Proxy(Date, {
  apply: () => new Date().toString(),
  construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [Date.now()] : given, made),
});
look();
setInterval(look, LOOK_MS).unref();
