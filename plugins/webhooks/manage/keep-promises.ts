import { codeOf } from '../../../src/lib/coded-error.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Following } from '../../../src/ports/following.ts';
import type { Log } from '../../../src/ports/log.ts';

/**
 * Before the first start of whoever follows a chain, a webhook would get nothing of what happens until then: so its beginning is fixed
 * first. While no upstream answers there is no slot to begin at, and the chain begins with the first one that does. Errors: those of the
 * store.
 */
export function createKeepPromises(following: Following | null, log: Log): (chain: ChainId) => Promise<void> {
  return async (chain) => {
    try {
      await following?.begin(chain);
    } catch (error) {
      if (codeOf(error)?.startsWith('CHAIN_') !== true) throw error;
      log.warn({ chain, err: error }, 'a webhook is made before its chain is followed, and no upstream tells the slot');
    }
  };
}
