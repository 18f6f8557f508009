/** A piece of work that a tracer is told about. */
export interface Work {
  /** `request`: of a client over HTTP; `rpc`: one JSON-RPC call; `upstream`, `outbound`: a request to a node, or to an address of a user; `job`: one attempt. */
  readonly kind: 'request' | 'rpc' | 'upstream' | 'outbound' | 'job';
  /** Bounded in length, but not in how many there are: clients choose the names of JSON-RPC methods. */
  readonly name: string;
  /** Keys are those of the semantic conventions of OpenTelemetry where these have one. No secrets, and no addresses. */
  readonly facts: Facts;
  /** The header `traceparent` that came with a request. */
  readonly traceparent?: string | undefined;
}

export type Facts = Readonly<Record<string, string | number | boolean>>;

/** Work that has begun. */
export interface Span {
  /** Calls `work`; what begins inside, and in all that it waits for, is part of this. */
  run<T>(work: () => T): T;
  /** What to send along as `traceparent`; null to send none. */
  readonly traceparent: string | null;
  /** Called once, with what is known only now. */
  end(ok: boolean, facts?: Facts): void;
}

/** Is told about everything that the daemon does for others. Nothing of it may throw or wait. */
export interface Tracer {
  begin(work: Work): Span;
}
