import type { MetricFamily } from '../../ports/crew.ts';
import { metricsText } from '../metrics-text.ts';

/** Metrics of one part of a daemon. */
export interface MetricPart {
  /** Becomes the label `role` of every sample; null, for the main thread, adds none. */
  readonly role: string | null;
  readonly families: readonly MetricFamily[];
}

/** Prometheus text of several parts: each metric has its HELP and TYPE once, and the samples of all parts. */
export function renderMetrics(parts: readonly MetricPart[]): Promise<string> {
  const merged = new Map<
    string,
    { readonly family: MetricFamily; readonly values: MetricFamily['values'][number][] }
  >();
  for (const { role, families } of parts) {
    for (const family of families) {
      let known = merged.get(family.name);
      if (known === undefined) {
        known = { family, values: [] };
        merged.set(family.name, known);
      }
      for (const value of family.values) {
        known.values.push(role === null ? value : { ...value, labels: { ...value.labels, role } });
      }
    }
  }
  return metricsText([...merged.values()].map(({ family, values }) => ({ ...family, values })));
}
