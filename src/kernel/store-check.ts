import { codeOf } from '../lib/coded-error.ts';
import { ERRORS } from './errors.ts';
import type { HealthCheck } from './plugin.ts';

/**
 * Whether the store takes a write: a daemon on a full or read-only disk answers reads, and must not get traffic all the same.
 * The words are those of the table: a message may name a path or an address.
 */
export function createStoreCheck(probe: () => Promise<void>): HealthCheck {
  return {
    name: 'store',
    async run() {
      try {
        await probe();
        return { ok: true, detail: 'takes writes' };
      } catch (error) {
        const code = codeOf(error);
        const words = Object.entries(ERRORS).find(([known]) => known === code);
        if (words === undefined) throw error;
        return { ok: false, detail: words.join(': ') };
      }
    },
  };
}
