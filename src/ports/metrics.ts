/** One value of a metric now; parts of a histogram have names of their own, such as `…_bucket`. */
export interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** Metrics of one area. Full names are `parhelion_<area>_<name>`; counters end in `_total`, others in a unit. */
export interface Metrics {
  counter(name: string, help: string, labels?: readonly string[]): Counter;
  gauge(name: string, help: string, labels?: readonly string[]): Gauge;
  /** A gauge whose value is read at each scrape. */
  observe(name: string, help: string, read: () => number): void;
  histogram(name: string, help: string, buckets: readonly number[], labels?: readonly string[]): Histogram;
}

/** Resolve children once with `with`, not per call. Pass the values in the order of the declared labels. */
export interface Counter {
  add(value?: number): void;
  with(...labelValues: string[]): Counter;
}

export interface Gauge {
  set(value: number): void;
  add(value: number): void;
  with(...labelValues: string[]): Gauge;
}

export interface Histogram {
  record(value: number): void;
  with(...labelValues: string[]): Histogram;
}
