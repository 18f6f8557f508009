/** Structured log; fields first, message second (pino's order). Never log secrets. */
export interface Log {
  trace(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  fatal(fields: object, message: string): void;
  child(fields: object): Log;
  /** Whether lines of a level are written, for a caller that would make many fields for nothing. Absent: all are. */
  isLevelEnabled?(level: 'info' | 'warn'): boolean;
}

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

/** A traced unit of work. */
export interface Work {
  /**
   * `request`: an HTTP request of a client; `rpc`: one JSON-RPC call; `upstream`: a request to a node; `outbound`: a request to an address
   * of a user; `job`: one attempt; `block`: the commit of a block.
   */
  readonly kind: 'request' | 'rpc' | 'upstream' | 'outbound' | 'job' | 'block';
  /** Bounded in length but not in number: clients choose the names of JSON-RPC methods. */
  readonly name: string;
  /** Keys follow the semantic conventions of OpenTelemetry where these define one. No secrets, no addresses. */
  readonly facts: Facts;
  /** The `traceparent` header of the request. */
  readonly traceparent?: string | undefined;
}

export type Facts = Readonly<Record<string, string | number | boolean>>;

/** Names of a span in the log, in hexadecimal. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** A started unit of work. */
export interface Span {
  /** Null: it belongs to no trace. */
  readonly ids: TraceIds | null;
  /** Calls `work`. Spans that start within it, including its asynchronous parts, become children. */
  run<T>(work: () => T): T;
  /** Value of the `traceparent` header to send; null: send none. */
  readonly traceparent: string | null;
  /** Ends the span; call it once. `facts` adds those known only now. */
  end(ok: boolean, facts?: Facts): void;
}

/** Records the work of the daemon for clients and jobs. Its methods must not throw or wait. */
export interface Tracer {
  begin(work: Work): Span;
  /** Ids of the work that calls this; null outside of traced work, and after its end. */
  current(): TraceIds | null;
}
