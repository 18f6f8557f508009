import { type ServiceToken, serviceToken } from './service.ts';
import type { StoreTx } from './store.ts';

/** `pending` waits for `runAt`, `running` has a lease, `held` waits until its owner releases it; the others are final. See src/jobs/README.md. */
export type JobState = 'pending' | 'running' | 'done' | 'failed' | 'discarded' | 'held';

/** A job as it stands in the store. */
export interface OutboxRow {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly group: string;
  /** Parsed JSON. */
  readonly payload: unknown;
  readonly slot: number | null;
  readonly position: number | null;
  readonly state: JobState;
  /** Attempts that were finished and counted. */
  readonly attempts: number;
  /** Unix milliseconds: when it is due, or was last due. */
  readonly runAt: number;
  readonly createdAt: number;
  /** When it came to `done`, `failed` or `discarded`. */
  readonly finishedAt: number | null;
  /** Of the last attempt, or why it was discarded: a text for people. */
  readonly error: string | null;
  /** Why it is held, one of the reasons of its kind; null in every other state. */
  readonly holdReason: string | null;
}

/** Which rows; all given conditions hold. Times are unix milliseconds. */
export interface OutboxFilter {
  readonly kind: string;
  readonly group?: string;
  readonly ids?: readonly number[];
  readonly keys?: readonly string[];
  readonly states?: readonly JobState[];
  /** Held rows with this `holdReason`. */
  readonly reason?: string;
  readonly createdFrom?: number;
  /** Exclusive. */
  readonly createdBefore?: number;
}

/** What a change of states takes: never more than `limit` rows, oldest first (default 10,000). */
export interface OutboxChange extends OutboxFilter {
  readonly limit?: number;
}

/**
 * The rows of the outbox for their owners. A running job is out of reach: it finishes first. Changes happen in the caller's
 * transaction and return how many rows they changed; rows that become pending are looked at when it commits.
 */
export interface Outbox {
  /**
   * Newest first, and `beforeId` continues a list; or with `afterId` the oldest of those behind it first. At most `limit` rows
   * (default 50, no more than 1,000). With `tx` it reads inside that transaction.
   */
  list(
    filter: OutboxFilter,
    page?: { readonly beforeId?: number; readonly afterId?: number; readonly limit?: number; readonly tx?: StoreTx },
  ): Promise<OutboxRow[]>;
  get(kind: string, key: string): Promise<OutboxRow | null>;
  /** Counts up to `atMost` rows, default 1,000,000. With `tx` it counts inside that transaction. */
  count(filter: OutboxFilter, options?: { readonly atMost?: number; readonly tx?: StoreTx }): Promise<number>;
  /**
   * How many rows match, and the sum of a whole number in their payloads; rows without it add nothing to it. With `tx` it reads inside
   * that transaction.
   */
  total(
    filter: OutboxFilter,
    member: string,
    options?: { readonly tx?: StoreTx },
  ): Promise<{ readonly rows: number; readonly sum: number }>;
  /**
   * Makes done, failed and discarded rows pending with no attempts, due at `runAt` (default now). Those of blocks that were
   * rolled back stay as they are. With `once` each of them is to have a single attempt, behind what is new: `Job.once` tells its kind.
   */
  requeue(
    tx: StoreTx,
    change: OutboxChange,
    options?: { readonly runAt?: number; readonly once?: boolean },
  ): Promise<number>;
  /** Pending rows become held for `reason`. */
  hold(tx: StoreTx, change: OutboxChange, reason: string): Promise<number>;
  /**
   * Pending rows of a group that have no attempt behind them and are due become held, in the order of their positions, then oldest first;
   * returns them. For work that is done for many at once: they count as started, and whoever took them has to `finish`, `release` or
   * `giveBack` them.
   */
  take(
    tx: StoreTx,
    options: { readonly kind: string; readonly group: string; readonly limit: number },
    reason: string,
  ): Promise<readonly OutboxRow[]>;
  /** Rows that were taken for `reason` and not started become pending again, as if nothing had happened. */
  giveBack(
    tx: StoreTx,
    rows: { readonly kind: string; readonly ids: readonly number[] },
    reason: string,
  ): Promise<void>;
  /** Held rows become done, or failed with an error. */
  finish(
    tx: StoreTx,
    change: OutboxChange,
    end: { readonly state: 'done' } | { readonly state: 'failed'; readonly error: string },
  ): Promise<number>;
  /** Held rows become pending and due now; with `attempts` their count of attempts is set. */
  release(tx: StoreTx, change: OutboxChange, options?: { readonly attempts?: number }): Promise<number>;
  /** Pending and held rows become discarded. */
  discard(tx: StoreTx, change: OutboxChange, reason: string): Promise<number>;
  /**
   * For roll-backs: discards the jobs of `fromSlot` to `toSlot` that were never started, and frees their keys, so that the same event in
   * another block makes a new job. One that is claimed at that moment is discarded when its claim ends with nothing done (`untouched`). Jobs that
   * were started stay as they are. All groups, or the given ones. Returns how many are discarded now.
   */
  discardUntried(
    tx: StoreTx,
    range: {
      readonly kind: string;
      readonly fromSlot: number;
      /** Inclusive. */
      readonly toSlot: number;
      readonly groups?: readonly string[];
    },
  ): Promise<number>;
  /** Notes that the event of a job which stayed is now in another block. */
  moveSlot(tx: StoreTx, kind: string, keys: readonly string[], slot: number): Promise<number>;
  /** Removes up to `limit` (default 1,000) rows that finished before `finishedBefore`, and returns them. */
  prune(
    tx: StoreTx,
    options: {
      readonly kind: string;
      readonly state: 'done' | 'failed' | 'discarded';
      readonly finishedBefore: number;
      readonly limit?: number;
    },
  ): Promise<readonly { readonly id: number; readonly key: string }[]>;
}

export const kernelOutbox: ServiceToken<Outbox> = serviceToken('kernel.outbox');
