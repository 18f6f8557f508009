import type { ChainId } from './chain-id.ts';
import { type ServiceToken, serviceToken } from './service.ts';
import type { StoreTx } from './store.ts';

/**
 * `pruned`: no upstream had the blocks; `too_old`: farther back than is caught up; `hole`: given up by `follow.holePolicy`;
 * `manual`: an operator wants the range to be read (again); `skipped`: the processor failed, and catches up once it works.
 */
export type GapReason = 'pruned' | 'too_old' | 'hole' | 'manual' | 'skipped';

/** `abandoned`: an operator gave it up. */
export type GapStatus = 'open' | 'filling' | 'filled' | 'abandoned';

/** A range of slots that was passed over, or that an operator asked for. */
export interface ChainGap {
  readonly id: number;
  readonly chain: ChainId;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly reason: GapReason;
  /** Unix milliseconds. */
  readonly detectedAt: number;
  readonly status: GapStatus;
  /** Names of the processors that missed it. */
  readonly processors: readonly string[];
  /** Up to this slot all of them have seen its blocks; null before the first one. */
  readonly filledTo: number | null;
  /** Why it is not being filled, in words; null when nothing is in the way. */
  readonly trouble: string | null;
}

export interface GapFilter {
  readonly chain?: ChainId;
  /** Only those that this processor missed. */
  readonly processor?: string;
  /** Only open and filling ones. */
  readonly isOpen?: boolean;
  /** Default 100, no more than 1,000. */
  readonly limit?: number;
  /** Continues a list. */
  readonly beforeId?: number;
}

/** What a plugin wants to be read, perhaps again. */
export interface GapWish {
  readonly chain: ChainId;
  /** Name and version of the processor that gets it. */
  readonly processor: { readonly name: string; readonly version: number };
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** base58; null for all transactions of the blocks. The processor needs `addresses` for the former. */
  readonly addresses: readonly string[] | null;
}

/** The gap records of the store, for plugins. */
export interface GapBook {
  /** Newest first. */
  list(filter?: GapFilter): Promise<readonly ChainGap[]>;
  /**
   * Asks for a range of blocks, or for the transactions of some addresses in it, for a processor that takes blocks out of order. It is
   * read beside the following, once its last slot is final, whatever the configuration says of gaps; progress survives a restart. The
   * same wish that is still open is only taken up at once. Returns the id.
   */
  request(tx: StoreTx, wish: GapWish): Promise<number>;
}

export const kernelGaps: ServiceToken<GapBook> = serviceToken('kernel.gaps');
