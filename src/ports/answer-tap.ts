/** A request of the API listener that its answer is compared with. It holds no key of the client. */
export interface TappedRequest {
  /** HTTP method and route pattern: `GET /v1/wallet/:wallet/balances`; `POST /` for JSON-RPC. */
  readonly name: string;
  /** Path as received, without the query. */
  readonly path: string;
  /** Raw query, without the parameters that name a key. */
  readonly query: string;
  readonly body: Buffer | null;
}

export interface WholeAnswer {
  /** HTTP status. */
  readonly status: number;
  readonly body: Buffer | string;
}

/** A request that a tap has chosen. */
export interface Tapping {
  /** Longer answers are not collected. */
  readonly maxAnswerBytes: number;
  /** An answer that is sent in place of ours; it must settle soon, and null means ours. Null: ours is sent, without a wait. */
  readonly instead: Promise<WholeAnswer | null> | null;
  /** Receives our answer as it is sent; null: it was longer, had no body, or broke off. Must not throw or wait. */
  answered(answer: WholeAnswer | null): void;
}

/** Sees a share of the requests that the API listener admitted, with their answers. Its methods must not throw or wait. */
export interface AnswerTap {
  /** Called for each request that is no more than routed: draws the share. */
  wants(name: string): boolean;
  /** Null: not this one. */
  begin(request: TappedRequest): Tapping | null;
}

/** The tap of a process, if a plugin has set one. */
export interface TapSeat {
  tap: AnswerTap | null;
}
