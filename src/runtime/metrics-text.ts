import type { Metric } from 'prom-client';
import type { MetricFamily } from '../ports/workers.ts';

/** Content type of the text. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Writes families in the Prometheus text format. A separate file, because workers, which pass their metrics on, do not load it. */
export async function metricsText(families: readonly MetricFamily[]): Promise<string> {
  const { default: library } = await import('prom-client');
  const registry = new library.Registry();
  for (const family of families) {
    const get = async () => ({ ...family, aggregator: 'sum' });
    registry.registerMetric({ name: family.name, get, reset: () => undefined } as unknown as Metric<string>);
  }
  return registry.metrics();
}
