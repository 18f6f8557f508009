import type { ChainId } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';
import type { Queries, StoreTx } from './store.ts';

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

/**
 * `pruned`: no upstream had the blocks; `too_old`: older than the catch-up limit; `hole`: given up by `follow.holePolicy`;
 * `manual`: requested by an operator; `skipped`: the processor failed, and catches up once it works again.
 */
export type GapReason = 'pruned' | 'too_old' | 'hole' | 'manual' | 'skipped';

/** `abandoned`: an operator gave up the gap. */
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
  /** Names of the processors that missed it; `kernel.ledger` is the ledger. */
  readonly processors: readonly string[];
  /** All processors have the blocks up to this slot; null before the first block. */
  readonly filledTo: number | null;
  /** Text that says why filling is blocked; null if it is not blocked. */
  readonly trouble: string | null;
}

export interface GapFilter {
  readonly chain?: ChainId;
  /** Only gaps that this processor missed. */
  readonly processor?: string;
  /** Only gaps with the status open or filling. */
  readonly isOpen?: boolean;
  /** Default 100, maximum 1,000. */
  readonly limit?: number;
  /** Continues a list below this id. */
  readonly beforeId?: number;
}

/** A range that a plugin wants to read, possibly again. */
export interface GapRequest {
  readonly chain: ChainId;
  /** Name and version of the processor that receives the blocks. */
  readonly processor: { readonly name: string; readonly version: number };
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** base58; the processor must then implement `addresses`. Null: all transactions of the blocks. */
  readonly addresses: readonly string[] | null;
}

/** The gap records of the store, for plugins. */
export interface GapRecords {
  /** Newest first. */
  list(filter?: GapFilter): Promise<readonly ChainGap[]>;
  /**
   * The newest slot of a range that the chain passed over and whose blocks the processor still lacks, also for good; null: none. `db` may be
   * a snapshot of the reader, so that it fits its rows. Ranges that were only requested again do not count.
   */
  missingTo(db: Queries, chain: ChainId, processor: string): Promise<number | null>;
  /**
   * Requests a range of blocks, or the transactions of some addresses in it, for a processor that accepts blocks out of order. The range is
   * read concurrently with the follower once its last slot is final, whatever the configuration says about gaps; progress survives a
   * restart. If the same request is still open, it is only resumed at once. Returns the id.
   */
  request(tx: StoreTx, request: GapRequest): Promise<number>;
}

export const kernelGaps: ServiceToken<GapRecords> = serviceToken('kernel.gaps');
