import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Tenant } from './access.ts';

/** One configured JSON-RPC address. The address may hold a secret: only `label` may be logged or shown. */
export interface Upstream {
  /** `upstream-0` and so on; safe to show. */
  readonly label: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it keeps the whole history. */
  readonly archive: boolean;
  readonly maxConcurrent: number;
}

export interface UpstreamState {
  readonly label: string;
  readonly healthy: boolean;
  /** Why not, in words. */
  readonly reason: string | null;
  readonly slot: number | null;
  readonly inFlight: number;
  /** Genesis hash of the other chain that it serves, for which it is out of service; null for none. */
  readonly otherChain: string | null;
  /** Whether it may be asked: it said that it serves our chain since it was last unreachable. */
  readonly inService: boolean;
}

/** What the caller made of an answer; the pool knows no policy of its own. */
export type UpstreamOutcome =
  | { readonly kind: 'ok' }
  /** Transport failure, 5xx or an answer that is no JSON-RPC. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** HTTP 429. */
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  /** 401 or 403: a configuration error. */
  | { readonly kind: 'denied'; readonly status: number }
  /** Proven wrong about the chain. */
  | { readonly kind: 'contradicted'; readonly reason: string };

export interface UpstreamReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Ends with an error when the size limit or the deadline is passed. */
  readonly body: Readable;
}

export interface UpstreamRequest {
  /** The bytes to send as they are. */
  readonly body: Buffer | string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
  /** On whose behalf; absent: the daemon's own. */
  readonly tenant?: Tenant | undefined;
  /** Beside those of the configuration. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Appended to the query of the address, encoded: `a=b`. */
  readonly query?: string;
}

/**
 * The upstreams of one chain: who is healthy, who is next. Errors of `send`: UPSTREAM_CONNECT (nothing was sent),
 * UPSTREAM_FAILED (the connection broke afterwards), UPSTREAM_TIMEOUT, UPSTREAM_TOO_LARGE (from the body stream).
 */
export interface UpstreamPool {
  readonly label: string;
  readonly size: number;
  states(): readonly UpstreamState[];
  /** Never those out of service. Healthy ones first, best first; unhealthy ones follow as a last resort unless `healthyOnly`. */
  candidates(options?: {
    readonly prefer?: string;
    readonly avoid?: readonly string[];
    readonly healthyOnly?: boolean;
    /** Leaves out those that asked to be left alone for a while (429). */
    readonly exceptLimited?: boolean;
    /** Only those that keep the whole history, where any is marked so. */
    readonly archive?: boolean;
  }): readonly Upstream[];
  send(upstream: Upstream, request: UpstreamRequest): Promise<UpstreamReply>;
  report(upstream: Upstream, outcome: UpstreamOutcome): void;
  /** Whether an upstream in service answers at this moment; asks when none did within the last two seconds. Never throws. */
  answers(): Promise<boolean>;
  /**
   * The genesis hash of the chain that the pool is for: whoever serves another one is out of service until it serves ours again.
   * `identify` has to follow: until an upstream has answered it is not in service, except where it `mayBeSilent` (takers of transactions,
   * which need not offer getGenesisHash).
   */
  bind(genesisHash: string, mayBeSilent?: boolean): void;
  /** Asks every upstream now, each by itself and past any cache, which chain it serves. Never throws. */
  identify(): Promise<void>;
  /** Opens a websocket to the upstream's socket address. The caller owns it. */
  openSocket(upstream: Upstream): WebSocket;
  /** Calls `listener` whenever the set of healthy upstreams changes. */
  onChange(listener: () => void): () => void;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** One entry of `upstream.urls` or `sender.urls`. */
export interface UpstreamConfig {
  readonly url: string;
  readonly websocketUrl?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly maxConcurrent?: number;
  readonly archive?: boolean;
}
