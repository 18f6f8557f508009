/** The wall clock of a process under test, which a test can step while it runs. */
import { renameSync, writeFileSync } from 'node:fs';

const PRELOAD = new URL('stepped-clock.mjs', import.meta.url).href;

export interface SteppedClock {
  /** Environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** From now on, for every thread, this far ahead of the machine's clock; less than 0: behind it. */
  set(aheadMs: number): void;
  /** What the process prints when its main thread has taken it. */
  said(aheadMs: number): string;
}

export function createSteppedClock(file: string): SteppedClock {
  const given = process.env['NODE_OPTIONS'] ?? '';
  return {
    env: { NODE_OPTIONS: `${given} --import=${PRELOAD}`.trim(), STEPPED_CLOCK: file },
    set(aheadMs) {
      // A reader sees the old text or the new one, never half of it.
      writeFileSync(`${file}.new`, String(aheadMs));
      renameSync(`${file}.new`, file);
    },
    said: (aheadMs) => `clock of thread 0 is ahead by ${aheadMs} ms\n`,
  };
}
