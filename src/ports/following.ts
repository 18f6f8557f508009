import type { ChainId } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** The stored start of the followers; valid for all processes on the store. */
export interface Following {
  /**
   * Stores the first slot to follow unless one is stored: the newest slot, or the configured one. All blocks after it resolved will be
   * processed, even if no follower runs yet. Errors: those of `ChainReader.call`.
   */
  begin(chain: ChainId, signal?: AbortSignal): Promise<void>;
  /** Slot length in ms, from the times of the stored blocks; null while there are too few. Errors: those of the store. */
  slotMs(chain: ChainId): Promise<number | null>;
}

export const kernelFollowing: ServiceToken<Following> = serviceToken('kernel.following');
