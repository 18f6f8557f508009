import { messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { Store } from '../../ports/store.ts';
import { createParameters, query } from './statement.ts';

export interface OutboxGaugesOptions {
  readonly store: Store;
  readonly kinds: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** How much waits in the outbox and for how long, looked up now and then: a scrape must not cost a query. */
export interface OutboxGauges {
  start(): Promise<void>;
  stop(): void;
}

const INTERVAL_MS = 15_000;
/** Counting reads an index, so it ends somewhere; a depth at this bound means at least so many. */
const MOST_COUNTED = 100_000;

export function createOutboxGauges({ store, kinds, clock, log, metrics }: OutboxGaugesOptions): OutboxGauges {
  const depth = metrics.gauge('pending_rows', `jobs that wait, counted up to ${MOST_COUNTED}`, ['kind']);
  const age = metrics.gauge('oldest_due_seconds', 'how long the job that is due longest has been due', ['kind']);
  let cancel: (() => void) | null = null;
  let isStopped = false;

  async function look(): Promise<void> {
    for (const kind of kinds) {
      const { pending, due_at } = await lookAt(store, kind);
      depth.with(kind).set(pending);
      age.with(kind).set(due_at === null ? 0 : Math.max(0, clock.now() - due_at) / 1000);
    }
  }

  async function keepLooking(): Promise<void> {
    await look().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the outbox could not be counted'));
    if (!isStopped) cancel = clock.timeout(INTERVAL_MS, () => void keepLooking());
  }

  return {
    start: keepLooking,
    stop() {
      isStopped = true;
      cancel?.();
    },
  };
}

/** Both parts read nothing but an index of waiting rows. `due_at` is when the first of them is or was due. */
async function lookAt(
  store: Store,
  kind: string,
): Promise<{ readonly pending: number; readonly due_at: number | null }> {
  const parameters = createParameters(store.dialect);
  const waiting = () => `from outbox where state = 'pending' and kind = ${parameters.add(kind)}`;
  const [row] = await query<{ readonly pending: number; readonly due_at: number | null }>(
    store.read,
    `select (select count(*) from (select 1 as one ${waiting()} limit ${MOST_COUNTED}) as counted) as pending,
      (select min(first_at) from (select (select min(run_at) ${waiting()} and lane = 0) as first_at
        union all select (select min(run_at) ${waiting()} and lane = 1)) as firsts) as due_at`,
    parameters,
  );
  return { pending: Number(row?.pending ?? 0), due_at: row?.due_at == null ? null : Number(row.due_at) };
}
