import type { Metric } from 'prom-client';
import type { MetricFamily } from '../ports/processes.ts';
import type { Counter, Gauge, Histogram, Metrics } from '../ports/telemetry.ts';

const PREFIX = 'parhelion';

export interface MetricsRegistry {
  /** Metrics of one area: names become `parhelion_<area>_<name>`. Declaring a name again returns the same metric. */
  scope(area: string): Metrics;
  /** Prometheus text format. */
  text(): Promise<string>;
  /** All metrics as plain data, to merge those of several threads. */
  families(): Promise<readonly MetricFamily[]>;
  readonly contentType: string;
  /** Full names of everything declared so far, sorted. */
  names(): string[];
}

type MetricKind = 'counter' | 'gauge' | 'histogram';

interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** One metric family, whose samples are read at each scrape. */
interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: MetricKind;
  readonly labels: readonly string[];
  readonly root: unknown;
  samples(): Sample[];
}

/**
 * Label children are implemented here because recording on the request path must cost no more than an addition; those of prom-client hash
 * their labels at each call. prom-client writes the text and the process metrics, and only the threads that need these load it.
 */
export function createMetricsRegistry(options: { readonly stock?: StockMetrics } = {}): MetricsRegistry {
  const families = new Map<string, Family>();
  const { stock = 'none' } = options;
  const ofProcess = stock === 'none' ? null : stock === 'process' ? watchProcess() : watchThread();

  const declare = <T>(name: string, type: MetricKind, labels: readonly string[], make: () => Family): T => {
    const known = families.get(name);
    if (known !== undefined) {
      if (known.type !== type || known.labels.join() !== labels.join())
        throw new Error(`metric ${name} was declared before as ${known.type} with labels [${known.labels.join()}]`);
      return known.root as T;
    }
    const family = make();
    families.set(name, family);
    return family.root as T;
  };

  const scope = (area: string): Metrics => {
    const full = (name: string) => `${PREFIX}_${area.replaceAll('-', '_')}_${name}`;
    return {
      counter: (name, help, labels = []) =>
        declare<Counter>(full(name), 'counter', labels, () => plainFamily(full(name), help, 'counter', labels)),
      gauge: (name, help, labels = []) =>
        declare<Gauge>(full(name), 'gauge', labels, () => plainFamily(full(name), help, 'gauge', labels)),
      observe: (name, help, read) => {
        declare<undefined>(full(name), 'gauge', [], () => observed(full(name), help, read));
      },
      histogram: (name, help, buckets, labels = []) =>
        declare<Histogram>(full(name), 'histogram', labels, () => histogramFamily(full(name), help, buckets, labels)),
    };
  };
  const all = async (): Promise<readonly MetricFamily[]> => {
    const own = [...families.values()].map(({ name, help, type, samples }) => ({
      name,
      help,
      type,
      values: samples(),
    }));
    return [...((await ofProcess?.()) ?? []), ...own];
  };
  return {
    scope,
    text: async () => await metricsText(await all()),
    families: all,
    contentType: METRICS_TYPE,
    names: () => [...families.keys()].sort(),
  };
}

/**
 * Metrics under the names that prom-client gives them, which exporters and dashboards of others expect. `process`: those of the process
 * and of the Node runtime of this thread; `thread`: only the latter, for further threads of a process that is counted already.
 */
export type StockMetrics = 'process' | 'thread' | 'none';

/** Gauges in spite of their names; each is the sum of the metric without the suffix. */
const MISNAMED = /^nodejs_active_\w+_total$/;

type Register = { getMetricsAsJSON(): Promise<unknown> };

/** The observers of prom-client keep their registry alive forever, so it must not reference the daemon. */
function watchProcess(): () => Promise<readonly MetricFamily[]> {
  const watching = import('prom-client').then(({ default: library }) => {
    const register = new library.Registry();
    library.collectDefaultMetrics({ register });
    return register;
  });
  return familiesOf(watching);
}

/** Only the files that are needed: a fifth of the memory of the whole library. */
function watchThread(): () => Promise<readonly MetricFamily[]> {
  const files = Promise.all([
    import('prom-client/lib/registry.js'),
    import('prom-client/lib/metrics/eventLoopLag.js'),
    import('prom-client/lib/metrics/gc.js'),
    import('prom-client/lib/metrics/heapSizeAndUsed.js'),
    import('prom-client/lib/metrics/heapSpacesSizeAndUsed.js'),
    import('prom-client/lib/metrics/processResources.js'),
  ]);
  const watching = files.then(([{ default: Registry }, ...watches]) => {
    const register = new Registry();
    for (const { default: watch } of watches) watch(register, {});
    return register;
  });
  return familiesOf(watching);
}

function familiesOf(watching: Promise<Register>): () => Promise<readonly MetricFamily[]> {
  // The caller gets the error.
  watching.catch(() => undefined);
  return async () => {
    const families = (await (await watching).getMetricsAsJSON()) as readonly MetricFamily[];
    return families.filter(({ name }) => !MISNAMED.test(name));
  };
}

/** Children by their label values; the separator does not occur in label values. */
function childrenOf<T>(labels: readonly string[], make: () => T) {
  const children = new Map<string, { readonly labels: Record<string, string>; readonly child: T }>();
  const child = (values: readonly string[]): T => {
    if (values.length !== labels.length)
      throw new Error(`expected ${labels.length} label values, got ${values.length}`);
    const key = values.join('\u0000');
    const known = children.get(key);
    if (known !== undefined) return known.child;
    const made = { labels: Object.fromEntries(labels.map((name, i) => [name, values[i] ?? ''])), child: make() };
    children.set(key, made);
    return made.child;
  };
  return { child, all: () => [...children.values()] };
}

/** Counters and gauges. Without labels the family is its only child and shows 0 from the start. */
function plainFamily(name: string, help: string, type: MetricKind, labels: readonly string[]): Family {
  const children = childrenOf(labels, () => ({ value: 0 }));
  const handle = (cell: { value: number }): Gauge & Counter => ({
    add: (value = 1) => {
      cell.value += value;
    },
    set: (value: number) => {
      cell.value = value;
    },
    with: (...values: string[]) => handle(children.child(values)),
  });
  const root = labels.length === 0 ? handle(children.child([])) : handle({ value: 0 });
  const samples = () => children.all().map((entry) => ({ labels: entry.labels, value: entry.child.value }));
  return { name, help, type, labels, root, samples };
}

function observed(name: string, help: string, read: () => number): Family {
  return { name, help, type: 'gauge', labels: [], root: undefined, samples: () => [{ labels: {}, value: read() }] };
}

function histogramFamily(name: string, help: string, bounds: readonly number[], labels: readonly string[]): Family {
  const children = childrenOf(labels, () => ({ counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 }));
  type Cell = { readonly counts: number[]; sum: number };
  const handle = (cell: Cell): Histogram => ({
    record: (value) => {
      let i = 0;
      while (i < bounds.length && value > (bounds[i] as number)) i += 1;
      cell.counts[i] = (cell.counts[i] ?? 0) + 1;
      cell.sum += value;
    },
    with: (...values: string[]) => handle(children.child(values)),
  });
  const root =
    labels.length === 0 ? handle(children.child([])) : handle({ counts: new Array(bounds.length + 1).fill(0), sum: 0 });
  // One method has 17 lines: those that nothing was recorded for are left out, or an idle daemon would write a third of a megabyte.
  const samples = () =>
    children
      .all()
      .filter(({ child }) => labels.length === 0 || child.counts.some((count) => count > 0))
      .flatMap((entry) => histogramSamples(name, bounds, entry.labels, entry.child));
  return { name, help, type: 'histogram', labels, root, samples };
}

function histogramSamples(
  name: string,
  bounds: readonly number[],
  labels: Record<string, string>,
  cell: { readonly counts: readonly number[]; readonly sum: number },
): Sample[] {
  const samples: Sample[] = [];
  let total = 0;
  cell.counts.forEach((count, i) => {
    total += count;
    const le = i < bounds.length ? String(bounds[i]) : '+Inf';
    samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: total });
  });
  samples.push({ metricName: `${name}_sum`, labels, value: cell.sum });
  samples.push({ metricName: `${name}_count`, labels, value: total });
  return samples;
}

/** Content type of the text. */
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Writes families in the Prometheus text format. Workers pass their metrics on as data and never load the library. */
export async function metricsText(families: readonly MetricFamily[]): Promise<string> {
  const { default: library } = await import('prom-client');
  const registry = new library.Registry();
  for (const family of families) {
    const get = async () => ({ ...family, aggregator: 'sum' });
    registry.registerMetric({ name: family.name, get, reset: () => undefined } as unknown as Metric<string>);
  }
  return registry.metrics();
}
