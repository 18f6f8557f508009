import type { StoreTx } from '../ports/store.ts';

/**
 * Jobs: durable work in the outbox, done after the transaction that added it. Their states are in `src/jobs/README.md`. Part of
 * `parhelion/plugin`.
 */

/** A row for the outbox. `payload` is JSON. */
export interface NewJob {
  readonly kind: string;
  /** Unique within the kind: a second job with the same key is left out. */
  readonly key: string;
  /** Jobs of one group share limits and fairness, for example a webhook id. */
  readonly group: string;
  readonly payload: unknown;
  /** A rollback of this slot discards the job if it has never been started. Null: independent of the chain. */
  readonly slot?: number | null;
  /** Order inside an ordered group. */
  readonly position?: number;
  /** Unix milliseconds; default now. */
  readonly runAt?: number;
  /** Adds the job as `held` for this reason; it waits until its owner releases it. */
  readonly held?: string;
}

export interface Job<Payload = unknown> {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly group: string;
  readonly payload: Payload;
  readonly slot: number | null;
  /** Finished attempts before this one. */
  readonly attempts: number;
  readonly createdAt: number;
  /** Requeued for a single attempt, without retry. */
  readonly once?: boolean;
  /** Claimed before, so an earlier attempt may have started. */
  readonly again?: boolean;
}

export type JobOutcome =
  | { readonly kind: 'done' }
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      readonly error: string;
      /** Does not count as an attempt. `untouched`: nothing was done at all, so a reorg may still discard the job. */
      readonly uncounted?: boolean | 'untouched';
    }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'discarded'; readonly error: string }
  | {
      readonly kind: 'held';
      /** One of the hold reasons of the kind; stored as `hold_reason`. */
      readonly reason: string;
      /** See `retry`. */
      readonly uncounted?: boolean | 'untouched';
    };

export interface FinishedJob<Payload = unknown> {
  readonly job: Job<Payload>;
  readonly outcome: JobOutcome;
}

export interface JobKind {
  /** `<plugin id>.<what>` */
  readonly kind: string;
  readonly summary: string;
  /** Maximum number of concurrent jobs of this kind. */
  readonly concurrency: number;
  /** Maximum number of concurrent jobs of one group; called at each claim. */
  readonly groupConcurrency?: (group: string) => number;
  /** Whether jobs of a group may be claimed before a slot is free (claim-ahead); default true. Called at each claim. */
  readonly groupAhead?: (group: string) => boolean;
  /** Time limit of an attempt. 30 s after it another runner may claim the job. */
  readonly timeoutMs: number;
  /**
   * A shorter lease: another runner may claim the job when the process has not renewed it for this time. If that process was only slow,
   * both may run the job at the same time.
   */
  readonly leaseMs?: number;
  /** Upper bound of a retry delay. A job scheduled further ahead, which only a wrong clock can cause, runs at once. */
  readonly longestDelayMs?: number;
  /** `run` enforces `timeoutMs` itself. All jobs then share one signal, which aborts only at stop: a signal per job is expensive. */
  readonly keepsTime?: boolean;
  /** Loads the data for all jobs of one claim in as few queries as possible; the result is passed to `run`. */
  readonly prepare?: (jobs: readonly Job[]) => Promise<unknown>;
  /** A throw counts as `retry` with the default backoff, and as `failed` after `jobs.maxAttempts`. Store errors do not count as attempts. */
  readonly run: (job: Job, prepared: unknown, signal: AbortSignal) => Promise<JobOutcome>;
  /** Writes rows in the transaction that stores the outcomes of many finished attempts. */
  readonly ack?: (tx: StoreTx, finished: readonly FinishedJob[]) => Promise<void>;
  /** Called once per stored outcome, also if the answer to the commit was lost. Must not throw or wait. */
  readonly written?: (finished: readonly FinishedJob[]) => void;
}
