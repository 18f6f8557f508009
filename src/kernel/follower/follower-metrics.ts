import type { Counter, Metrics } from '../../ports/metrics.ts';

export interface FollowerMetrics {
  readonly released: Counter;
  readonly skipped: Counter;
  readonly holes: Counter;
  readonly forks: Counter;
  readonly rolledBack: Counter;
  readonly contradictions: Counter;
  readonly commitMs: { record(value: number): void };
}

const COMMIT_BUCKETS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000];

export function createFollowerMetrics(metrics: Metrics): FollowerMetrics {
  return {
    released: metrics.counter('blocks_released_total', 'blocks whose rows were committed'),
    skipped: metrics.counter('slots_skipped_total', 'slots proven to have no block'),
    holes: metrics.counter('holes_total', 'blocks that were missing although a later block names them'),
    forks: metrics.counter('forks_total', 'forks that were rolled back'),
    rolledBack: metrics.counter('blocks_rolled_back_total', 'blocks that forks undid'),
    contradictions: metrics.counter('contradictions_total', 'answers that contradicted the chain'),
    commitMs: metrics.histogram('commit_ms', 'time of a block transaction', COMMIT_BUCKETS_MS),
  };
}
