import type { ChainId } from './chain-id.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** From where on chains are followed, as the store knows it: whichever process follows them. */
export interface Following {
  /**
   * Fixes where a first start begins, unless that is done: at the newest slot, or where the configuration says. What happens on the chain
   * after it has resolved will be seen, also when nobody follows the chain yet. Errors: those of `ChainReader.call`.
   */
  begin(chain: ChainId, signal?: AbortSignal): Promise<void>;
  /** Length of a slot in ms, by the times of the stored blocks; null while there are too few. Errors: those of the store. */
  slotMs(chain: ChainId): Promise<number | null>;
}

export const kernelFollowing: ServiceToken<Following> = serviceToken('kernel.following');
