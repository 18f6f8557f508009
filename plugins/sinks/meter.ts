import type { Metrics } from '../../src/ports/telemetry.ts';

export type SinkMeter = ReturnType<typeof createSinkMeter>;

export function createSinkMeter(metrics: Metrics) {
  return {
    lag: metrics.gauge('lag_slots', 'final slots of the ledger that the sink does not have yet', ['sink']),
    rows: metrics.counter('rows_total', 'rows that targets acknowledged', ['sink']),
    batches: metrics.counter('batches_total', 'batches that targets acknowledged', ['sink']),
    failures: metrics.counter('failures_total', 'attempts that failed and are repeated', ['sink']),
    holes: metrics.counter(
      'holes_total',
      'times that a sink needed blocks of upstreams, which the ledger does not have',
      ['sink'],
    ),
  };
}
