import type { Metrics } from '../../src/ports/telemetry.ts';

export type SinkMeter = ReturnType<typeof createSinkMeter>;

export function createSinkMeter(metrics: Metrics) {
  return {
    lag: metrics.gauge('lag_slots', 'final slots of the ledger that the sink does not have yet', ['sink']),
    rows: metrics.counter('rows_total', 'rows, or whole blocks, that targets acknowledged', ['sink']),
    batches: metrics.counter('batches_total', 'batches that targets acknowledged', ['sink']),
    failures: metrics.counter('failures_total', 'attempts that failed and are repeated', ['sink']),
    holes: metrics.counter(
      'holes_total',
      'times that a sink needed blocks of upstreams, which the ledger does not have',
      ['sink'],
    ),
    dropped: metrics.counter(
      'dropped_rows_total',
      'rows of account_writes and deliveries that were dropped at sinks.keptBytes before all sinks had them',
      ['table'],
    ),
    missing: metrics.gauge(
      'missing_slots',
      'slots of which the target lacks rows of account_writes or deliveries for ever, because they were dropped',
      ['sink'],
    ),
    kept: metrics.gauge(
      'kept_ratio',
      'part of sinks.keptBytes that is taken by rows which wait in the store for sinks, 1 at the bound',
    ),
  };
}
