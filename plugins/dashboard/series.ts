import { sql } from 'kysely';
import type { Clock, Store } from '../../src/plugin/plugin.ts';
import type { BudgetUse } from '../../src/ports/access.ts';
import type { MetricSample } from '../../src/ports/telemetry.ts';
import type { UpstreamState } from '../../src/ports/upstream.ts';
import { type SeriesRow, tables } from './store.ts';

/** What one thread measured in a span of time. Shares of threads, processes and spans can be added up. */
interface Share {
  /** Counts. */
  readonly sums: Record<string, number>;
  /** Largest values. */
  readonly peaks: Record<string, number>;
  /** Requests by duration: cumulative counts at the bounds of the histogram. */
  readonly durations: number[];
}

/** A resolution of the series: each point covers `stepMs`, and points are kept for `keptMs`. */
interface Tier {
  readonly stepMs: number;
  readonly keptMs: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Fixed numbers of points bound the table: 840 rows for each thread that measures. */
const TIERS = {
  '1h': { stepMs: 20_000, keptMs: HOUR_MS },
  '24h': { stepMs: 5 * MINUTE_MS, keptMs: 24 * HOUR_MS },
  '7d': { stepMs: 30 * MINUTE_MS, keptMs: 7 * 24 * HOUR_MS },
} as const satisfies Record<string, Tier>;

export type SeriesRange = keyof typeof TIERS;
export const SERIES_RANGES = Object.keys(TIERS) as readonly SeriesRange[];

/** A point of all series. Keys are `<series>.<label>`, such as `requests.rpc`; see `SUMS` and `PEAKS`. */
export interface SeriesPoint {
  /** Unix milliseconds of its start. */
  readonly at: number;
  readonly sums: Readonly<Record<string, number>>;
  readonly peaks: Readonly<Record<string, number>>;
  /** Seconds; null without requests. */
  readonly latency: { readonly p50: number; readonly p95: number; readonly p99: number } | null;
}

export interface Series {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly points: readonly SeriesPoint[];
}

interface SamplerParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Name of this thread: a new one for each start, so that nobody overwrites what another one has written. */
  readonly source: string;
  metrics(): Promise<readonly MetricSample[]>;
  /** Budgets that projects hold in this thread. */
  held(): ReadonlyMap<string, readonly BudgetUse[]>;
  /** Absent: another thread of the process watches them. */
  upstreams?(): readonly (UpstreamState & { readonly chain: string })[];
}

/** The `step_ms` of rows that say what a thread holds now, one per thread. */
const NOW = 0;
/** A thread that has not reported for so many intervals has ended. */
const MISSED = 3;

/** Returns a function that measures what happened since its last call, and adds it to the stored series. */
export function createSampler(parts: SamplerParts): () => Promise<void> {
  const { store, clock, source } = parts;
  let heldBefore = false;
  const measure = createMeasure(parts);
  const open = Object.values(TIERS).map((tier) => ({ ...tier, at: 0, share: emptyShare() }));
  return async () => {
    const now = clock.now();
    const share = await measure();
    for (const tier of open) {
      const at = now - (now % tier.stepMs);
      if (at !== tier.at) Object.assign(tier, { at, share: emptyShare() });
      add(tier.share, share);
    }
    const held = parts.held();
    await store.write(async ({ db }) => {
      const holdings = tables(db).deleteFrom('dashboard_series').where('step_ms', '=', NOW);
      await holdings.where('at', '<', now - HOUR_MS).execute();
      if (heldBefore || held.size > 0) await holdings.where('source', '=', source).execute();
      if (held.size > 0) {
        const row: SeriesRow = { step_ms: NOW, at: now, source, share: JSON.stringify(Object.fromEntries(held)) };
        await tables(db).insertInto('dashboard_series').values(row).execute();
      }
      for (const { stepMs, keptMs, at, share: total } of open) {
        const row: SeriesRow = { step_ms: stepMs, at, source, share: JSON.stringify(total) };
        await tables(db)
          .insertInto('dashboard_series')
          .values(row)
          .onConflict((on) => on.columns(['step_ms', 'at', 'source']).doUpdateSet({ share: row.share }))
          .execute();
        await tables(db)
          .deleteFrom('dashboard_series')
          .where('step_ms', '=', stepMs)
          .where('at', '<', now - keptMs - stepMs)
          .execute();
      }
    });
    heldBefore = held.size > 0;
  };
}

/**
 * Adds to the budgets of a project what it holds in other threads and processes, as they last reported. `own` is that of the thread
 * with the name `source`.
 */
export async function withOtherThreads(
  {
    store,
    clock,
    source,
    intervalMs,
  }: Pick<SamplerParts, 'store' | 'clock' | 'source'> & { readonly intervalMs: number },
  projectId: string,
  own: readonly BudgetUse[],
): Promise<readonly BudgetUse[]> {
  const rows = await tables(store.read)
    .selectFrom('dashboard_series')
    .select('share')
    .where('step_ms', '=', NOW)
    .where('at', '>=', clock.now() - MISSED * intervalMs)
    .where('source', '<>', source)
    .execute();
  const others = rows.flatMap(
    ({ share }) => (JSON.parse(share) as Record<string, readonly BudgetUse[]>)[projectId] ?? [],
  );
  return own.map((one) => {
    const same = others.filter(({ budget }) => budget === one.budget);
    return {
      budget: one.budget,
      used: same.reduce((sum, { used }) => sum + used, one.used),
      // A thread that the project has not called does not know its plan.
      limit: one.limit ?? same.find(({ limit }) => limit !== null)?.limit ?? null,
      refused: same.reduce((sum, { refused }) => sum + refused, one.refused),
    };
  });
}

/** The stored series of all threads and processes. */
export async function readSeries(store: Store, clock: Clock, range: SeriesRange): Promise<Series> {
  const { stepMs, keptMs } = TIERS[range];
  const toMs = clock.now();
  const fromMs = toMs - keptMs;
  const rows = await tables(store.read)
    .selectFrom('dashboard_series')
    .select(['at', 'share'])
    .where('step_ms', '=', stepMs)
    .where('at', '>=', fromMs - stepMs)
    .orderBy('at')
    .execute();
  const byTime = new Map<number, Share>();
  for (const { at, share } of rows) {
    const total = byTime.get(at) ?? emptyShare();
    byTime.set(at, total);
    add(total, JSON.parse(share) as Share);
  }
  const points = [...byTime].map(
    ([at, { sums, peaks, durations }]): SeriesPoint => ({ at, sums, peaks, latency: latencyOf(durations) }),
  );
  return { fromMs, toMs, stepMs, points };
}

const emptyShare = (): Share => ({ sums: {}, peaks: {}, durations: [] });

function add(total: Share, share: Share): void {
  for (const [key, value] of Object.entries(share.sums)) total.sums[key] = (total.sums[key] ?? 0) + value;
  for (const [key, value] of Object.entries(share.peaks))
    total.peaks[key] = Math.max(total.peaks[key] ?? Number.NEGATIVE_INFINITY, value);
  for (const [at, value] of share.durations.entries()) total.durations[at] = (total.durations[at] ?? 0) + value;
}

/** Routes by what they belong to. Routes of other plugins are `other`. */
const PRODUCTS: readonly (readonly [prefix: string, product: string])[] = [
  ['/v0/webhooks', 'webhooks'],
  ['/v1/wallet', 'wallet'],
  ['/v0/addresses', 'enhanced'],
  ['/v0/transactions', 'enhanced'],
  ['/v0/token-metadata', 'tokens'],
  ['/fast', 'sender'],
];

function productOf(route: string): string {
  if (route === '/') return 'rpc';
  return PRODUCTS.find(([prefix]) => route.startsWith(prefix))?.[1] ?? 'other';
}

type Labels = MetricSample['labels'];

/** Counters that become sums: the keys that a sample of the metric adds to. */
const SUMS: Readonly<Record<string, (labels: Labels) => readonly string[]>> = {
  parhelion_http_requests_total({ route, status }) {
    const product = productOf(String(route));
    const isError = Number(status) >= 400;
    return [`requests.${product}`, ...(isError ? [`errors.${product}`] : [])];
  },
  // The HTTP status of a failed call is 200.
  parhelion_rpc_calls_total: ({ outcome }) => (outcome === 'ok' ? [] : ['errors.rpc']),
  parhelion_follow_blocks_released_total: () => ['blocks.main'],
  parhelion_follow_devnet_blocks_released_total: () => ['blocks.devnet'],
  parhelion_webhooks_attempt_steps_total: ({ next }) => [`deliveries.${next}`],
};
/** Gauges that become peaks. */
const PEAKS: Readonly<Record<string, string>> = {
  parhelion_follow_lag_seconds: 'lag.main',
  parhelion_follow_devnet_lag_seconds: 'lag.devnet',
  parhelion_webhooks_waiting: 'waiting',
};
const DURATIONS = 'parhelion_http_request_duration_seconds_bucket';
/** Seconds; those of the histogram. Requests above the last one are in the count of the bucket `+Inf`. */
const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

function createMeasure({ store, metrics, upstreams }: SamplerParts): () => Promise<Share> {
  /** Counters at the last call. They begin at 0 with the thread. */
  let before = new Map<string, number>();
  return async () => {
    const share = emptyShare();
    const now = new Map<string, number>();
    const count = (key: string, value: number) => now.set(key, (now.get(key) ?? 0) + value);
    for (const { name, labels, value } of await metrics()) {
      for (const key of SUMS[name]?.(labels) ?? []) count(key, value);
      const peak = PEAKS[name];
      if (peak !== undefined) share.peaks[peak] = Math.max(share.peaks[peak] ?? 0, value);
      if (name === DURATIONS) count(`${DURATIONS}.${boundAt(labels['le'])}`, value);
    }
    for (const [key, value] of now) {
      const grown = Math.max(0, value - (before.get(key) ?? 0));
      if (key.startsWith(DURATIONS)) share.durations[Number(key.slice(DURATIONS.length + 1))] = grown;
      else if (grown > 0) share.sums[key] = grown;
    }
    before = now;
    if (upstreams === undefined) return share;
    for (const { chain, label, healthy } of upstreams()) {
      share.sums[`seen.${chain} ${label}`] = 1;
      share.sums[`healthy.${chain} ${label}`] = healthy ? 1 : 0;
    }
    share.peaks['storeBytes'] = await storeBytes(store);
    return share;
  };
}

const boundAt = (bound: string | number | undefined): number => {
  const at = BOUNDS_S.indexOf(Number(bound));
  return at < 0 ? BOUNDS_S.length : at;
};

async function storeBytes({ dialect, read }: Store): Promise<number> {
  const size =
    dialect === 'sqlite'
      ? sql<{ bytes: number }>`select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()`
      : sql<{ bytes: number }>`select pg_database_size(current_database()) as bytes`;
  return Number((await size.execute(read)).rows[0]?.bytes ?? 0);
}

/** Percentiles, interpolated within their bucket. */
function latencyOf(durations: readonly number[]): SeriesPoint['latency'] {
  const all = durations[BOUNDS_S.length] ?? 0;
  if (all === 0) return null;
  const percentile = (share: number): number => {
    const rank = share * all;
    const at = durations.findIndex((count) => count >= rank);
    const upper = BOUNDS_S[at];
    if (upper === undefined) return BOUNDS_S.at(-1) as number;
    const lower = BOUNDS_S[at - 1] ?? 0;
    const below = durations[at - 1] ?? 0;
    return lower + ((upper - lower) * (rank - below)) / Math.max(1, (durations[at] ?? 0) - below);
  };
  return { p50: percentile(0.5), p95: percentile(0.95), p99: percentile(0.99) };
}
