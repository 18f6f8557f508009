import type { Metric } from 'prom-client';
import type { MetricFamily } from '../ports/workers.ts';

/** Content type of the text. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Families in the Prometheus text format. Only who writes loads the writer: a thread that hands its metrics on does without. */
export async function metricsText(families: readonly MetricFamily[]): Promise<string> {
  const { default: library } = await import('prom-client');
  const registry = new library.Registry();
  for (const family of families) {
    const get = async () => ({ ...family, aggregator: 'sum' });
    registry.registerMetric({ name: family.name, get, reset: () => undefined } as unknown as Metric<string>);
  }
  return registry.metrics();
}
