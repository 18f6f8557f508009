import type { HealthCheck } from '../plugin/plugin.ts';
import { wordsOf } from '../runtime/errors.ts';

/**
 * Whether the store takes a write: a daemon on a full or read-only disk answers reads, and must not get traffic all the same.
 */
export function createStoreCheck(probe: () => Promise<void>): HealthCheck {
  return {
    name: 'store',
    async run() {
      try {
        await probe();
        return { ok: true, detail: 'takes writes' };
      } catch (error) {
        const words = wordsOf(error);
        if (words === null) throw error;
        return { ok: false, detail: words };
      }
    },
  };
}
