import type { MessagePort } from 'node:worker_threads';
import type { Ask, Taken, Told } from './wire.ts';

/** Characters of lines that the main thread has not written yet; more are dropped while it does not come to it. */
const MAX_WAITING = 4_194_304;

/**
 * Where the log of a worker goes: to the main thread, which alone writes to the output, so that lines of several threads never mix. Lines of
 * one turn of the event loop go together.
 */
export function createLogRelay(port: MessagePort): { write(line: string): void } {
  let lines = '';
  let waiting = 0;
  let isScheduled = false;
  let dropped = 0;

  const flush = () => {
    isScheduled = false;
    if (lines === '') return;
    waiting += lines.length;
    port.postMessage({ kind: 'log', lines } satisfies Told);
    lines = '';
  };
  port.on('message', (message: Ask | Taken) => {
    if ('taken' in message) waiting -= message.taken;
  });
  return {
    write(line) {
      if (waiting + lines.length > MAX_WAITING) {
        dropped += 1;
        return;
      }
      if (dropped > 0) {
        lines += `${JSON.stringify({ level: 'warn', msg: `${dropped} lines of the log were dropped` })}\n`;
        dropped = 0;
      }
      lines += line;
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(flush);
    },
  };
}
