import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Tenant } from './access.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** One configured JSON-RPC address. The address may hold a secret: only `label` may be logged or shown. */
export interface Upstream {
  /** `upstream-0` and so on; safe to show. */
  readonly label: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it has the whole history of the chain. */
  readonly archive: boolean;
  readonly maxConcurrent: number;
}

export interface UpstreamState {
  readonly label: string;
  readonly healthy: boolean;
  /** Why it is unhealthy, a text for people. */
  readonly reason: string | null;
  readonly slot: number | null;
  readonly inFlight: number;
  /** Genesis hash of the wrong chain that it serves, which takes it out of service; null: not the case. */
  readonly otherChain: string | null;
  /** Whether it may be used: it confirmed our chain since it was last unreachable. */
  readonly inService: boolean;
  /** How long it still wants no requests, as it said itself; 0: it takes them. */
  readonly limitedMs: number;
  /** Time since its last good answer; infinite before the first one. */
  readonly silentMs: number;
}

/** The caller's verdict on an answer; the pool itself does not judge answers. */
export type UpstreamOutcome =
  | { readonly kind: 'ok' }
  /** Transport failure, 5xx, or an answer that is not JSON-RPC. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** HTTP 429, or an error object that says the same. Null: it names no time; it is then the last choice for a moment, but not left out. */
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  /** An error object says that the credits are used up, or that the key is not accepted. */
  | { readonly kind: 'exhausted' }
  /** 401, 402 or 403: a configuration error. */
  | { readonly kind: 'denied'; readonly status: number }
  /** Proven wrong about the chain. */
  | { readonly kind: 'contradicted'; readonly reason: string };

export interface UpstreamReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** All bytes of the answer; null: they are in `body`. Only requests with `wholeBytes` get it. */
  readonly whole: Buffer | null;
  /** Ends with an error when the size limit or the deadline is exceeded. */
  readonly body: Readable;
}

/** What is needed of an AbortSignal, which is too expensive to create for each call that is passed on. */
export type CallSignal = Pick<AbortSignal, 'aborted' | 'reason'> & {
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once: true }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
};

/** A `CallSignal` that can be had as an AbortSignal, which is made on first use. */
export interface OpenableSignal extends CallSignal {
  readonly signal: AbortSignal;
}

export interface UpstreamRequest {
  /** Sent unchanged. */
  readonly body: Buffer | string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** A successful answer of up to this size arrives without a stream, which costs more than such an answer. */
  readonly wholeBytes?: number;
  readonly signal?: CallSignal;
  /** It changes nothing, so it may be sent again when a connection that was kept ends before any answer. */
  readonly isRead?: boolean;
  /** For whom it is sent; `OWN_WORK`: the daemon itself. */
  readonly tenant: Tenant;
  /** Sent in addition to the configured headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Appended to the query of the address; must be encoded: `a=b`. */
  readonly query?: string;
}

/**
 * The upstreams of one chain, with their health and order of preference. Errors of `send`: UPSTREAM_CONNECT (nothing was sent),
 * UPSTREAM_FAILED (the connection broke afterwards), UPSTREAM_TIMEOUT, UPSTREAM_TOO_LARGE (from the body stream).
 */
export interface UpstreamPool {
  readonly label: string;
  states(): readonly UpstreamState[];
  /** Upstreams in service: healthy ones first, best first, then unhealthy ones as a last resort unless `healthyOnly`. */
  candidates(options?: {
    readonly prefer?: string;
    readonly avoid?: readonly string[];
    readonly healthyOnly?: boolean;
    /** Excludes upstreams that asked for no requests for a time that has not passed. */
    readonly exceptLimited?: boolean;
    /** Only upstreams marked as archives, if any is marked. */
    readonly archive?: boolean;
  }): readonly Upstream[];
  send(upstream: Upstream, request: UpstreamRequest): Promise<UpstreamReply>;
  report(upstream: Upstream, outcome: UpstreamOutcome): void;
  /** Whether an upstream in service answers now; sends a probe if none answered within the last two seconds. Never throws. */
  answers(): Promise<boolean>;
  /**
   * Sets the genesis hash of the pool's chain. An upstream that serves another chain is out of service until it serves ours again. Call
   * `identify` afterwards: an upstream is not in service until it reported its chain, except with `mayBeSilent` (endpoints that only
   * accept transactions need not support getGenesisHash).
   */
  bind(genesisHash: string, mayBeSilent?: boolean): void;
  /**
   * Asks every upstream now, bypassing caches, which chain it serves. False: none could show that it serves ours. One that refuses the question, and
   * never answered it, counts as ours. Never throws.
   */
  identify(): Promise<boolean>;
  /** Absent: answers of one upstream count. */
  readonly quorum?: UpstreamQuorum;
  /** Absent: a call is never sent to a second upstream while the first has not answered. */
  readonly hedge?: UpstreamHedge;
  /** Opens a websocket to the upstream's websocket address. The caller owns it. */
  openSocket(upstream: Upstream): WebSocket;
  /** Calls `listener` whenever the set of healthy upstreams changes. */
  onChange(listener: () => void): () => void;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Several upstreams have to say the same before it counts (`upstream.quorum`). */
export interface UpstreamQuorum {
  /** How many have to agree, always more than half; 0: off. */
  needed(): number;
  /** How many are configured. */
  total(): number;
  /** Whether answers to the method need it. */
  concerns(method: string): boolean;
  /** How long upstreams are asked again that do not agree yet. */
  waitMs(): number;
  /** Upstreams to ask: without the ones that cool down, where enough are left. */
  voters(): readonly Upstream[];
  count(outcome: 'agreed' | 'tie' | 'short'): void;
}

/** Extra calls for what is slow (`upstream.hedgeAfterMs`). */
export interface UpstreamHedge {
  /** Time without an answer after which a second upstream is asked; null: off. */
  afterMs(): number | null;
  /** Takes one extra call; false: their share of all calls is used up. */
  take(): boolean;
  /** A call that may be repeated was made. */
  called(): void;
}

/** The upstreams of a pool; as a function, another array replaces them while the pool runs. */
export type UpstreamList = readonly UpstreamConfig[] | (() => readonly UpstreamConfig[]);

export const configuredNow = (list: UpstreamList): readonly UpstreamConfig[] =>
  typeof list === 'function' ? list() : list;

/** One entry of `upstream.urls` or `sender.urls`. */
export interface UpstreamConfig {
  readonly url: string;
  readonly websocketUrl?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly maxConcurrent?: number;
  readonly archive?: boolean;
}

/** A JSON-RPC call that is about to be sent to an upstream. */
export interface PassedCall {
  readonly method: string;
  readonly body: Buffer;
  /** Start and end of the raw `params` inside `body`, or null when absent. */
  readonly params: { readonly start: number; readonly end: number } | null;
  readonly tenant: Tenant;
  readonly requestHeader?: ((name: string) => string | undefined) | undefined;
  readonly requestQuery?: ((name: string) => readonly string[]) | undefined;
}

/** Raw JSON of the result, or of the error object of an upstream. */
export type RoutedAnswer = { readonly resultText: string } | { readonly errorText: string };

export interface SendRoute {
  readonly headers?: Readonly<Record<string, string>>;
  /** Null: the call goes to the upstreams of the main chain, and `headers` are added to its answer. */
  readonly answer: Promise<RoutedAnswer> | null;
}

/** Routes calls that do not go to the upstreams of the main chain. */
export interface SendRoutes {
  /** Null: the call is not routed here. Throws RpcError. */
  route(call: PassedCall): SendRoute | null;
}

/** Offered by the plugin `sender`. */
export const sendRoutes: ServiceToken<SendRoutes> = serviceToken('sender.routes');
