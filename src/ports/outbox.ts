import { type ServiceToken, serviceToken } from './service.ts';
import type { StoreTx } from './store.ts';

/** `pending` waits for `runAt`, `running` has a lease, `held` waits until its owner releases it; the others are final. See src/jobs/README.md. */
export type JobState = 'pending' | 'running' | 'done' | 'failed' | 'discarded' | 'held';

/** A stored job. */
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
  /** Finished attempts that count. */
  readonly attempts: number;
  /** Unix milliseconds when the job is due, or was last due. */
  readonly runAt: number;
  readonly createdAt: number;
  /** Time of the change to `done`, `failed` or `discarded`. */
  readonly finishedAt: number | null;
  /** Error of the last attempt, or the reason of a discard; a text for people. */
  readonly error: string | null;
  /** Why the job is held, one of the reasons of its kind; null in all other states. */
  readonly holdReason: string | null;
}

/** Selects rows; all given conditions must hold. Times are unix milliseconds. */
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

/** Selects the rows of a state change: at most `limit` rows, oldest first (default 10,000). */
export interface OutboxChange extends OutboxFilter {
  readonly limit?: number;
}

/**
 * Access to outbox rows for their owners. Running jobs cannot be changed until they finish. Changes happen in the transaction of the
 * caller and return the number of changed rows; the runner looks at new pending rows when it commits.
 */
export interface Outbox {
  /**
   * Newest first, continued with `beforeId`; with `afterId`, rows above that id, oldest first. At most `limit` rows (default 50, maximum
   * 1,000). With `tx` it reads inside that transaction.
   */
  list(
    filter: OutboxFilter,
    page?: { readonly beforeId?: number; readonly afterId?: number; readonly limit?: number; readonly tx?: StoreTx },
  ): Promise<OutboxRow[]>;
  get(kind: string, key: string): Promise<OutboxRow | null>;
  /** The keys that have a row, read inside the transaction. */
  existing(tx: StoreTx, kind: string, keys: readonly string[]): Promise<ReadonlySet<string>>;
  /** Counts up to `atMost` rows, default 1,000,000. With `tx` it counts inside that transaction. */
  count(filter: OutboxFilter, options?: { readonly atMost?: number; readonly tx?: StoreTx }): Promise<number>;
  /**
   * The number of matching rows, and the sum of an integer member of their payloads; rows without it count as 0. With `tx` it reads inside
   * that transaction.
   */
  total(
    filter: OutboxFilter,
    member: string,
    options?: { readonly tx?: StoreTx },
  ): Promise<{ readonly rows: number; readonly sum: number }>;
  /**
   * Makes done, failed and discarded rows pending with zero attempts, due at `runAt` (default now). Rows of blocks that were rolled back
   * stay unchanged. With `once` each row gets a single attempt, with lower priority than new jobs; its kind sees `Job.once`.
   */
  requeue(
    tx: StoreTx,
    change: OutboxChange,
    options?: { readonly runAt?: number; readonly once?: boolean },
  ): Promise<number>;
  /** Pending rows that are not due become due now; their attempts count on. */
  hasten(tx: StoreTx, change: OutboxChange): Promise<number>;
  /** Unfinished rows of each of these groups; one without any is absent. Held rows are never due: `nextAt` is null without others. */
  unfinished(
    kind: string,
    groups: readonly string[],
  ): Promise<ReadonlyMap<string, { readonly waiting: number; readonly held: number; readonly nextAt: number | null }>>;
  /** Pending rows become held for `reason`. */
  hold(tx: StoreTx, change: OutboxChange, reason: string): Promise<number>;
  /**
   * Holds due pending rows of a group without finished attempts, ordered by position, then oldest first, and returns them. For work on
   * many jobs at once: the rows count as started, and the caller must `finish`, `release` or `giveBack` them.
   */
  take(
    tx: StoreTx,
    options: { readonly kind: string; readonly group: string; readonly limit: number },
    reason: string,
  ): Promise<readonly OutboxRow[]>;
  /** Undoes `take` for rows that were not started: they become pending again. */
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
  /** Held rows become pending and due now; `attempts` sets their number of attempts. */
  release(tx: StoreTx, change: OutboxChange, options?: { readonly attempts?: number }): Promise<number>;
  /** Pending and held rows become discarded. */
  discard(tx: StoreTx, change: OutboxChange, reason: string): Promise<number>;
  /**
   * For reorgs: discards the jobs of `fromSlot` to `toSlot` that were never started, and frees their keys, so that the same event in
   * another block makes a new job. A claimed job is discarded when its claim ends with the outcome `untouched`. Started jobs stay
   * unchanged. Applies to all groups, or to the given ones. Returns the number of jobs discarded now.
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
  /** Sets the slot of jobs that survived a reorg and whose event is now in another block. */
  moveSlot(tx: StoreTx, kind: string, keys: readonly string[], slot: number): Promise<number>;
  /** Deletes and returns up to `limit` (default 1,000) rows that finished before `finishedBefore`. */
  prune(
    tx: StoreTx,
    options: {
      readonly kind: string;
      readonly state: 'done' | 'failed' | 'discarded';
      readonly finishedBefore: number;
      readonly limit?: number;
    },
  ): Promise<readonly Pick<OutboxRow, 'id' | 'key' | 'payload'>[]>;
}

export const kernelOutbox: ServiceToken<Outbox> = serviceToken('kernel.outbox');
