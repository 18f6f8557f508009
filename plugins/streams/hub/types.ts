/** What the hub takes and gives. */

import type { BlockListener } from '../../../src/plugin/host.ts';
import type { BlockHeader, ChainBlock, Log, Metrics } from '../../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../../src/ports/access.ts';
import type { BankLevel } from '../../../src/ports/chain.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import type { GrpcError } from '../grpc-server.ts';

/** Messages that are written together. */
export interface UpdateBatch {
  readonly bytes: Buffer;
  readonly updates: number;
  /** Size of the messages before compression: what is charged. */
  readonly messageBytes: number;
  /** Where each message ends, for consumers that need single messages. */
  readonly ends?: Uint32Array;
}

/** The content that a subscription gets of each block, in the form in which it is sent. */
export interface Feed {
  readonly level: BankLevel;
  /** What a block gives it. Kept with the block, so that equal content is made once. A replay waits for a promise. */
  content(block: ChainBlock): readonly UpdateBatch[] | Promise<readonly UpdateBatch[]>;
  /** What it gets for the status of a slot. */
  slot(header: BlockHeader, status: number): readonly UpdateBatch[];
  /** The board of a feed returns its content of live blocks, in place of `content`. A feed with a board gets no status of slots. */
  readonly board?: Board;
}

/** Compares blocks with many feeds at once; it may need something for it that is read first. Blocks wait for it in their order. */
export interface Board {
  add(feed: Feed): void;
  remove(feed: Feed): void;
  /** What a block gives the feeds that it concerns. Errors: that cannot be known now, and all subscriptions of the board end. */
  content(block: ChainBlock): Promise<ReadonlyMap<Feed, BoardContent>>;
}

export interface BoardContent {
  readonly batches: readonly UpdateBatch[];
  /** Transactions that were decoded and not wanted. */
  readonly searched: number;
  /** Why the feed cannot go on; null: it can. */
  readonly problem: GrpcError | null;
}

export interface Reader {
  readonly tenant: Tenant;
  send(batch: UpdateBatch): void;
  /** Charges a block of a replay. Throws GrpcError without credits. */
  payForBlock(): Promise<void>;
  /** Charges transactions that were decoded for it and not wanted; without credits the subscription ends. */
  payForSearch?(transactions: number): void;
  /** It cannot go on now, because the daemon is behind, or its tenant may hold no more; `reason` is for its client. */
  lagged(reason: string): void;
  /** The replay cannot go on. */
  refused(error: GrpcError): void;
  /** Resolves when it takes more of a replay, or has ended. */
  ready(): Promise<void>;
}

export interface HubOptions {
  readonly metrics: Metrics;
  readonly log: Log;
  /** The ledger; null: there is none. */
  readonly blocks: () => LedgerReader | null;
  /** Bytes of updates that one group may hold until their blocks are final. */
  readonly limits: { readonly maxPendingBytes: number };
}

export interface HubSubscription {
  /** The name under which equal subscriptions are shared; null: never shared. */
  readonly key: string | null;
  readonly feed: Feed;
  /** The first slot of a replay; null: from the next block on, at `finalized` from the next block on that becomes final. */
  readonly from: number | null;
}

/** Ends a subscription. Returns the slot at which its replay was, null where it had caught up. */
export type Leave = () => number | null;

export interface StreamHub extends Omit<BlockListener, 'chain'> {
  /** The returned function ends it. Throws GrpcError if the subscription cannot have all that it asks for. */
  join(subscription: HubSubscription, reader: Reader): Leave;
  /** The first slot from which a replay is possible; null without a ledger. */
  firstAvailable(): number | null;
  /** The newest final slot that is known here; 0 without one. */
  finalSlot(): number;
}

/** Updates of a block that wait for its finality. */
export interface PendingContent {
  readonly slot: number;
  readonly batches: readonly UpdateBatch[];
  readonly bytes: number;
}

export const TOO_MUCH_PENDING = 'too much waits for blocks to become final, try again later';

/** False when the tenant may hold no more. */
export function mayHold(lease: Lease, bytes: number): boolean {
  try {
    lease.set(bytes);
    return true;
  } catch {
    return false;
  }
}

export const bytesOfBatches = (batches: readonly UpdateBatch[]): number =>
  batches.reduce((sum, { bytes }) => sum + bytes.length, 0);

export const sizeOfPending = (pending: readonly PendingContent[]): number =>
  pending.reduce((sum, { bytes }) => sum + bytes, 0);

/** What of a block is kept until it is final. */
export const headerOf = ({
  slot,
  parentSlot,
  blockhash,
  previousBlockhash,
  blockHeight,
  blockTime,
}: BlockHeader): BlockHeader => ({ slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime });
