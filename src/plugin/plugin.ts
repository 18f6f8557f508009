/**
 * The public plugin API. A plugin is a folder or package whose default export is `definePlugin({...})`; it imports this
 * file, `request.ts`, and the port types re-exported here, and nothing else of the kernel.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Static, TObject, TSchema } from '@sinclair/typebox';
import type { CoreConfig } from '../config/core.ts';
import type { Caller } from '../ports/access.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import type { Hints } from '../ports/bus.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Role, Roles } from '../ports/daemon-view.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import type { ProvidedService, ServiceToken } from '../ports/service.ts';
import type { Migration, Store, StoreTx } from '../ports/store.ts';
import type { Tracer } from '../ports/tracing.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';
import type { Command } from './command.ts';
import type {
  CallContext,
  GateRefusal,
  Reply,
  RouteRequest,
  RpcCall,
  RpcForward,
  RpcForwardReply,
  RpcQuestion,
} from './request.ts';

export { type Static, Type } from '@sinclair/typebox';
export { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
export { serviceToken } from '../ports/service.ts';
export type { Command, CommandIo, CommandOption, CommandProgress } from './command.ts';
export * from './request.ts';
export type {
  BlockHeader,
  Caller,
  ChainBlock,
  ChainId,
  ChainReader,
  Clock,
  ContributedParser,
  Hints,
  Log,
  Metrics,
  Migration,
  Outbound,
  ProvidedService,
  Random,
  Role,
  Roles,
  ServiceToken,
  Store,
  StoreTx,
  Tracer,
  UpstreamConfig,
  UpstreamPool,
};

/** The version of this API. A plugin that asks for another one is refused at start. */
export const API_VERSION = 1;

export interface PluginDefinition<Config extends TObject = TObject> {
  /** Folder name, config key, metric area and log label: `^[a-z][a-z0-9-]{1,31}$`. */
  readonly id: string;
  readonly apiVersion: number;
  /** One line for `list-plugins`. */
  readonly summary: string;
  /** A closed schema (`additionalProperties: false`); every field has a default and a description. */
  readonly config: Config;
  /** Services of other plugins; those plugins are provisioned and started first. */
  readonly uses?: readonly ServiceToken<unknown>[];
  /** Tokens of the services that `provision` will return. */
  readonly offers?: readonly ServiceToken<unknown>[];
  readonly migrations?: readonly Migration[];
  /** Where it has something to do; a thread or a process with none of these roles goes without it. Default: everywhere. */
  readonly roles?: readonly Role[];
  /** Says what the plugin contributes. Opens nothing: no socket, no file, no query, no timer. */
  provision(ctx: PluginContext<Static<Config>>): Contribution | Promise<Contribution>;
}

/** Checks the types of a definition and returns it as it is. */
export function definePlugin<Config extends TObject>(definition: PluginDefinition<Config>): PluginDefinition<Config> {
  return definition;
}

export interface PluginContext<Config = unknown> {
  readonly id: string;
  /** Own section of the configuration, defaults filled in. */
  readonly config: Config;
  /** The core sections of the configuration, secrets masked. */
  readonly core: CoreConfig;
  /** Version of the daemon. */
  readonly version: string;
  /**
   * What this thread or process does. A daemon runs its plugins once per thread: `api` answers requests, `indexer` hands blocks to the
   * processors, `deliverer` runs jobs, each with a plugin object of its own. A plugin is provisioned and started wherever its `roles` say; one
   * that opens something in `start` looks here whether it is needed. What the roles have in common is the store.
   */
  readonly roles: Roles;
  readonly log: Log;
  /** Scoped: names become `parhelion_<id>_<name>`. */
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  /** Usable from `start` on. */
  readonly store: Store;
  /** Guarded client for addresses that users give. */
  readonly outbound: Outbound;
  /** The reader of a chain; null when no upstream is configured for it. */
  chain(id: ChainId): ChainReader | null;
  /** The upstream pool of a chain; null when none is configured. */
  upstreams(id: ChainId): UpstreamPool | null;
  /**
   * Makes a pool of further JSON-RPC addresses; the kernel starts and stops it with the plugin. An address that names another genesis hash
   * than the upstreams of `chain` (default `main`) is out of service; null: the addresses are of no chain of the daemon.
   */
  openPool(label: string, upstreams: readonly UpstreamConfig[], chain?: ChainId | null): UpstreamPool;
  /** A service of another plugin; the token must be in `uses`. Undefined when no enabled plugin offers it. */
  use<T>(token: ServiceToken<T>): T | undefined;
  /**
   * Puts jobs into the outbox inside a running transaction; they become due when it commits. A job whose (kind, key) exists is left
   * out. Returns how many were added.
   */
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  /** To this plugin in other threads, and in other processes on PostgreSQL. What they tell must also be found without them. */
  readonly hints: Hints;
}

/** Everything a plugin adds to the daemon. All parts are optional. */
export interface Contribution {
  readonly routes?: readonly Route[];
  readonly rpc?: readonly RpcMethod[];
  /** Answers JSON-RPC methods that no plugin registered. At most one plugin. */
  readonly rpcFallback?: RpcFallback;
  /** Takes websocket upgrades of the API listener. At most one plugin. */
  readonly sockets?: SocketHandler;
  readonly processors?: readonly BlockProcessor[];
  readonly jobs?: readonly JobKind[];
  readonly checks?: readonly HealthCheck[];
  /** At most one plugin. Without one, routes that need a key answer 401. */
  readonly gate?: Gate;
  readonly services?: readonly ProvidedService[];
  readonly commands?: readonly Command[];
  /** Told what is done for others, piece by piece. At most one plugin. */
  readonly tracer?: Tracer;
  /** Tell what transactions are; asked before the built-in ones. */
  readonly parsers?: readonly ContributedParser[];
  /** Opens what the plugin needs; called in the order of `uses`, each within `lifecycle.startTimeoutMs`. */
  start?(signal: AbortSignal): void | Promise<void>;
  /** All or nothing: throws to refuse the new configuration and must then have changed nothing. */
  reload?(config: unknown): void | Promise<void>;
  /** Told when the drain begins: stop taking new work. */
  drain?(): void | Promise<void>;
  /** Always called once `start` was called, in reverse order, also after a failed start. */
  stop?(signal: AbortSignal): void | Promise<void>;
}

// ---------------------------------------------------------------------------------------------------------------- HTTP

/**
 * The error shape of a route: `plain` `{error, code}`, `wallet` the same with `details`, `admin` `{statusCode, message, error}`,
 * `text` text/plain, `rpc` a JSON-RPC envelope with `id: null`.
 */
export type ErrorShape = 'plain' | 'wallet' | 'admin' | 'text' | 'rpc';

/** Rate groups of the plans. */
export type RateGroup = 'rpc' | 'das' | 'photon' | 'sender' | 'admin' | (string & {});

/** Products of the usage record; the two `laserstream` ones are counted in bytes, the others in requests. */
export type Product =
  | 'rpc'
  | 'enhancedApi'
  | 'walletApi'
  | 'das'
  | 'webhooks'
  | 'laserstreamGrpc'
  | 'laserstreamWebsocket'
  | 'preConfirmations'
  | 'archival'
  | 'photon'
  | 'other';

/** What a call costs; absent on routes that are not metered. */
export interface Price {
  readonly product: Product;
  /** Credits; fractions down to a millionth count. */
  readonly credits: number;
  /** Credits for each byte of the answer, beside those. */
  readonly creditsPerByte?: number;
  /** Every group that loses a token. */
  readonly groups: readonly RateGroup[];
  /** HTTP statuses beside 2xx that are charged. */
  readonly chargedStatuses?: readonly number[];
  /** Admitted also when the credits are used up, and then not charged: what ends a cost must stay possible. */
  readonly neverRefused?: boolean;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/v0/webhooks/:webhookID`; parameters are whole segments. */
  readonly path: string;
  readonly summary: string;
  /** Groups the OpenAPI document and the docs page. */
  readonly tag: string;
  /** `none`: open; `key`: through the gate; `optional-key`: a key that is given must be good; `admin`: admin listener only. */
  readonly auth: 'none' | 'key' | 'optional-key' | 'admin';
  readonly errors: ErrorShape;
  readonly price?: Price;
  /** Named permission that a key may lack. */
  readonly permission?: string;
  /** Default `http.bodyLimitBytes`. */
  readonly bodyLimitBytes?: number;
  /** Deadline of the handler, default `http.handlerTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Objects of strings; checked before the handler. */
  readonly params?: TObject;
  /** Integers, booleans, strings and enumerations; values outside are 400, never clamped. */
  readonly query?: TObject;
  /** Present: the body is read and parsed as JSON and checked; a handler that words its own errors declares `Type.Unknown()`. */
  readonly body?: TSchema;
  /** Whether an absent body is fine (then `request.body` is undefined). */
  readonly bodyOptional?: boolean;
  /** Instead of `body`: `request.body` is a Buffer with the received bytes, up to the limit, neither parsed nor checked. */
  readonly rawBody?: boolean;
  /** What stands in the OpenAPI document instead of `params` and `body`, where the handler checks those itself and in its own words. */
  readonly documented?: { readonly params?: Readonly<Record<string, TSchema>>; readonly body?: TSchema };
  /** By status; documentation, and checked against real answers in the tests. */
  readonly replies: Readonly<Record<number, TSchema>>;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas type the request at the definition; see `defineRoute`.
  readonly handler: (request: RouteRequest<any, any, any>) => Reply | Promise<Reply>;
}

/** A schema as far as types go; the full TypeBox constraint is too deep for the compiler to infer through. */
interface Typed {
  readonly static: unknown;
}
type FromSchema<S, Fallback> = S extends { readonly static: infer Value } ? Value : Fallback;

/** Types the handler's request by the route's own schemas. */
export function defineRoute<
  P extends Typed | undefined = undefined,
  Q extends Typed | undefined = undefined,
  B extends Typed | undefined = undefined,
>(
  route: Omit<Route, 'params' | 'query' | 'body' | 'handler'> & {
    readonly params?: P;
    readonly query?: Q;
    readonly body?: B;
    readonly handler: (
      request: RouteRequest<
        FromSchema<P, Record<string, string>>,
        FromSchema<Q, Record<string, never>>,
        FromSchema<B, undefined>
      >,
    ) => Reply | Promise<Reply>;
  },
): Route {
  return route as unknown as Route;
}

// ------------------------------------------------------------------------------------------------------------ JSON-RPC

export interface RpcMethod {
  readonly name: string;
  readonly summary: string;
  readonly tag: string;
  readonly auth: 'none' | 'key';
  readonly price: Price;
  readonly permission?: string;
  readonly timeoutMs?: number;
  /** Of the whole `params` value. Mismatch: -32602 with the reason in `data.details`. */
  readonly params: TSchema;
  /** The handler checks `params` itself, in its own words; the schema is documentation only. It then gets an object or an array. */
  readonly checksParams?: boolean;
  /** HTTP status of everything that goes wrong in the method, where its clients read only the body of, say, a 200. */
  readonly errorStatus?: number;
  readonly result: TSchema;
  /** Returns the result as a value (bigints are written as bare integers) or, on hot paths, as a `JsonText`. */
  // biome-ignore lint/suspicious/noExplicitAny: typed by `params`.
  readonly handler: (call: RpcCall<any>) => unknown | Promise<unknown>;
}

export interface RpcFallback {
  /** The price of a method that goes upstream. `params` is parsed lazily because few prices depend on it. */
  price(method: string, params: () => unknown): Price;
  /** The answer that is there already; null sends the call to `forward`. Asked before the gate, so it may change nothing. */
  atHand?(question: RpcQuestion): RpcForwardReply | null;
  forward(call: RpcForward): Promise<RpcForwardReply>;
}

/**
 * Hands a client's websocket message, single or batch, to the same pipeline as HTTP: gate, local methods, fallback. Subscriptions in it
 * go to `calls`; without it they are refused.
 */
export type RpcDispatch = (message: Buffer, context: CallContext, calls?: SocketCalls) => Promise<Buffer | null>;

/** The calls that only a websocket can carry: `…Subscribe` and `…Unsubscribe`. The front checks, admits and answers them like any other. */
export interface SocketCalls {
  /** The largest answer that the socket can take; a larger one becomes an error. */
  readonly maxAnswerBytes?: number;
  price(method: string): Price;
  /** Called when the gate has let it pass. Throws `RpcError`. */
  run(call: SocketCall): Promise<SocketOutcome>;
}

export interface SocketCall {
  readonly method: string;
  readonly params: unknown;
  /** Raw JSON, or null when absent. */
  readonly paramsText: string | null;
}

/** Raw JSON: a result, or the error object of an upstream. */
export type SocketOutcome = { readonly resultText: string } | { readonly errorText: string };

export interface SocketContext extends CallContext {
  /**
   * Aborts when the caller has lost its rights; the reason is one sentence that the client may read. The handler then closes the socket
   * and sends nothing more on it.
   */
  readonly revoked: AbortSignal;
}

export interface SocketHandler {
  /** What opening a socket costs. */
  readonly price?: Price;
  /** Called after the gate let the upgrade pass. Owns the socket from here on. False: it was not opened, and nothing is charged. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    context: SocketContext,
    dispatch: RpcDispatch,
  ): boolean;
  /** Open client sockets. */
  readonly connections: () => number;
}

// ---------------------------------------------------------------------------------------------------------------- gate

export interface Credentials {
  /** `api-key` values of the query, in order. */
  readonly query: readonly string[];
  /** `X-Api-Key`. */
  readonly header: string | undefined;
  /** Token of `Authorization: Bearer`. */
  readonly bearer: string | undefined;
  /** `Origin`: the page that a browser's call comes from. */
  readonly origin?: string | undefined;
}

export interface GateItem {
  /** Route pattern or JSON-RPC method. */
  readonly name: string;
  readonly price: Price | undefined;
  /** Undefined: that of the price's product. Null: none is needed. */
  readonly permission: string | null | undefined;
}

export interface Admission {
  /** Rate headers for the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Told once, item by item, whether the call is charged and how many bytes went out. Must not throw or wait. */
  settle(outcomes: readonly { readonly charged: boolean; readonly bytesOut: number }[]): void;
}

/**
 * Decides who may call what. Both throw `GateRefusal`, which the front writes in the shape of the protocol at hand.
 */
export interface Gate {
  authenticate(credentials: Credentials, remoteAddress: string): Promise<Caller> | Caller;
  admit(caller: Caller, items: readonly GateItem[]): Promise<Admission> | Admission;
  /**
   * Takes tokens of a rate group for what costs work and is no call: what is refused, and the opening of a websocket. None left: throws
   * `rate`, and takes nothing. 0 tokens: only looks. The group may be overdrawn.
   */
  spend?(caller: Caller, group: RateGroup, tokens: number): void;
  /**
   * For a caller that stays, such as an open websocket: `onRefused` is called once, within a second, when it would be refused as a new
   * one: its key was revoked, has expired, or may not be used from this client any more. Without it such callers stay.
   */
  watch?(caller: Caller, client: StayingClient, onRefused: (refusal: GateRefusal) => void): Watched;
  /** A caller of a project for calls that no key is behind. Throws `bad-key` for an unknown project. */
  callerOf?(projectId: string): Promise<Caller>;
}

/** From where a caller that stays came. */
export interface StayingClient {
  readonly remoteAddress: string;
  readonly origin: string | undefined;
}

export interface Watched {
  /** Of this client alone: its calls are admitted by the same rules. */
  readonly caller: Caller;
  /** The client has gone. */
  end(): void;
}

// --------------------------------------------------------------------------------------------------------------- chain

/** What is known of a block beside itself. */
export interface ApplyHow {
  /** It will not be taken back: nothing has to be kept for `revert`. */
  readonly isFinal: boolean;
}

/**
 * Turns blocks into rows. What `apply` writes commits together with the cursor; `revert` of the same block restores the rows
 * exactly. Each (chain, name, version) has a cursor of its own.
 */
export interface BlockProcessor {
  /** Unique over all plugins: `webhooks`. */
  readonly name: string;
  /** A new version is indexed from its start again. */
  readonly version: number;
  readonly chains: readonly ChainId[];
  /** Where a first start begins when earlier than the chain's own start. */
  readonly startSlot?: number;
  /** Fetches what `apply` will need from elsewhere, before its transaction begins and again when it is tried again. Errors: retried. */
  prepare?(block: ChainBlock, chain: ChainId): Promise<void>;
  apply(tx: StoreTx, block: ChainBlock, chain: ChainId, how?: ApplyHow): Promise<void>;
  /** Undoes a block that was rolled back. Called newest first, in one transaction for the whole fork. */
  revert(tx: StoreTx, header: BlockHeader, chain: ChainId): Promise<void>;
  /** Blocks up to this slot will not be rolled back any more: undo data can go. */
  finalized?(tx: StoreTx, slot: number, chain: ChainId): Promise<void>;
  /**
   * Whether `apply` may get a block later than its successors, and again: the rows must be those that all blocks once and in order
   * would give. Only then are gaps filled for it; default false, it has to be indexed again instead.
   */
  readonly outOfOrder?: boolean;
  /** Whether a range that is passed over is kept as a gap of it, to be filled; default true. False: it gets along without. */
  readonly wantsGaps?: boolean;
  /**
   * The addresses it is interested in, at most `limit`. Needs `outOfOrder`, and that `apply` takes a block that holds only transactions
   * of them: so are gaps filled whose blocks no upstream has any more, where the configuration allows it.
   */
  addresses?(db: Store['read'], chain: ChainId, limit: number): Promise<readonly string[]>;
  /** Room for more work; false pauses the loop and readiness says why. */
  pressure?(): { readonly ok: true } | { readonly ok: false; readonly reason: string };
}

// ---------------------------------------------------------------------------------------------------------------- jobs

/** A row for the outbox. `payload` is JSON. */
export interface NewJob {
  readonly kind: string;
  /** Unique within the kind: a second job with the same key is left out. */
  readonly key: string;
  /** Jobs of one group share limits and fairness, for example a webhook id. */
  readonly group: string;
  readonly payload: unknown;
  /** Slot whose roll-back discards the job while it was never tried; null for none. */
  readonly slot?: number | null;
  /** Order inside an ordered group. */
  readonly position?: number;
  /** Unix milliseconds; default now. */
  readonly runAt?: number;
  /** Starts as `held` for this reason: waits until its owner releases it. */
  readonly held?: string;
}

export interface Job<Payload = unknown> {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly group: string;
  readonly payload: Payload;
  readonly slot: number | null;
  /** Attempts that were finished before this one. */
  readonly attempts: number;
  readonly createdAt: number;
  /** It was requeued for a single attempt: there is to be no retry. */
  readonly once?: boolean;
  /** It was claimed before, and may have been begun. */
  readonly again?: boolean;
}

export type JobOutcome =
  | { readonly kind: 'done' }
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      readonly error: string;
      /** It was no attempt; `untouched`: nothing was done at all, so that a fork may still take the job away. */
      readonly uncounted?: boolean | 'untouched';
    }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'discarded'; readonly error: string }
  | {
      readonly kind: 'held';
      /** One of the kind's own reasons: `hold_reason` of the row. */
      readonly reason: string;
      /** As of `retry`. */
      readonly uncounted?: boolean | 'untouched';
    };

export interface SettledJob<Payload = unknown> {
  readonly job: Job<Payload>;
  readonly outcome: JobOutcome;
}

export interface JobKind {
  /** `<plugin id>.<what>` */
  readonly kind: string;
  readonly summary: string;
  /** Jobs of this kind that run at once. */
  readonly concurrency: number;
  /** Jobs of one group that run at once; asked at each claim. */
  readonly groupConcurrency?: (group: string) => number;
  /** Whether jobs of a group may be claimed before a slot is free for them; default yes. Asked like the former. */
  readonly groupAhead?: (group: string) => boolean;
  /** Longest run; after that and 30 s another runner may take the job. */
  readonly timeoutMs: number;
  /** Lets another runner take it sooner: when its process has been silent for this time. Two may then run it at once, if one was only slow. */
  readonly leaseMs?: number;
  /** No retry of this kind is planned further ahead than this; one that is was planned by a clock that was wrong, and runs. */
  readonly longestDelayMs?: number;
  /** `run` ends within `timeoutMs` by itself. Its signal only tells that the daemon stops: all share one, as making one for each costs much. */
  readonly keepsTime?: boolean;
  /** Loads what the jobs of one claim need in as few queries as possible; the result is handed to `run`. */
  readonly prepare?: (jobs: readonly Job[]) => Promise<unknown>;
  /** A throw is a `retry` with the kernel's backoff, and `failed` after `jobs.maxAttempts`; trouble of the store does not count. */
  readonly run: (job: Job, prepared: unknown, signal: AbortSignal) => Promise<JobOutcome>;
  /** Writes beside the bookkeeping of finished attempts, many at once, in the same transaction. */
  readonly settle?: (tx: StoreTx, settled: readonly SettledJob[]) => Promise<void>;
  /** Told once, when an outcome is in the store, also where nobody heard that its transaction was committed. Must not throw or wait. */
  readonly written?: (settled: readonly SettledJob[]) => void;
}

// ------------------------------------------------------------------------------------------------------------- the rest

/** A condition of readiness. */
export interface HealthCheck {
  readonly name: string;
  /** `detail` is shown in /readyz; no secrets. */
  run(signal: AbortSignal): Promise<{ readonly ok: boolean; readonly detail: string }>;
}
