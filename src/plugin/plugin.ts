/**
 * The public plugin API, `parhelion/plugin`. A plugin is a folder or package whose default export is `definePlugin({...})`. What a
 * handler gets, returns and throws is in `request.ts`; what only built-in plugins need is in `host.ts`.
 */
import type { Static, TObject, TSchema } from '@sinclair/typebox';
import type { Caller } from '../ports/access.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import type { Hints } from '../ports/bus.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Role, Roles } from '../ports/daemon-view.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ServiceToken } from '../ports/service.ts';
import type { Migration, Store, StoreTx } from '../ports/store.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';
import type { Reply, RouteRequest, RpcCall } from './request.ts';

export { type Static, Type } from '@sinclair/typebox';
export { sql } from 'kysely';
export { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
export { serviceToken } from '../ports/service.ts';
export * from './request.ts';
export type {
  BlockHeader,
  Caller,
  ChainBlock,
  ChainId,
  ChainReader,
  Clock,
  Hints,
  Log,
  Metrics,
  Migration,
  Outbound,
  Random,
  Role,
  Roles,
  ServiceToken,
  Store,
  StoreTx,
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
  /** Tokens of the services that `provision` will provide. */
  readonly offers?: readonly ServiceToken<unknown>[];
  readonly migrations?: readonly Migration[];
  /** Where it has something to do; a thread or a process with none of these roles goes without it. Default: everywhere. */
  readonly roles?: readonly Role[];
  /** Registers what the plugin adds. Opens nothing: no socket, no file, no query, no timer; that is for `onStart`. */
  provision(ctx: PluginContext<Static<Config>>): void | Promise<void>;
}

/** Checks the types of a definition and returns it as it is. */
export function definePlugin<Config extends TObject>(definition: PluginDefinition<Config>): PluginDefinition<Config> {
  return definition;
}

/**
 * What a plugin works with, and how it registers what it adds to the daemon. The registering methods (`http.route`, `rpc.method`,
 * `blocks.on`, `jobs.define`, `every`, `onStart`, …) may be called until `provision` returns. Two plugins that register the same
 * thing are refused at start.
 */
export interface PluginContext<Config = unknown> {
  readonly id: string;
  /** Own section of the configuration, defaults filled in. */
  readonly config: Config;
  /** Version of the daemon. */
  readonly version: string;
  /**
   * What this thread or process does. A daemon runs its plugins once per thread: `api` answers requests, `indexer` hands blocks to the
   * processors, `deliverer` runs jobs, each with a plugin object of its own. What the roles have in common is the store.
   */
  readonly roles: Roles;
  readonly log: Log;
  /** Scoped: names become `parhelion_<id>_<name>`. */
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  /** Usable from `onStart` on. */
  readonly store: Store;
  /** Guarded client for addresses that users give. */
  readonly outbound: Outbound;

  readonly http: { route: AddRoute };
  readonly rpc: { method: AddMethod };
  readonly blocks: { on(processor: BlockProcessor): void };
  readonly jobs: {
    define(kind: JobKind): void;
    /**
     * Puts jobs into the outbox inside a running transaction; they become due when it commits. A job whose (kind, key) exists is left
     * out. Returns how many were added.
     */
    add(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  };
  /** A condition of readiness. `detail` is shown in /readyz; no secrets. */
  check(name: string, run: HealthCheck['run']): void;
  /** A command of the CLI that works on the store. */
  command(command: Command): void;
  /** Runs `work` at this interval from start to stop, never twice at once. What it throws is logged; its signal aborts at stop. */
  every(intervalMs: number, work: (signal: AbortSignal) => unknown): void;

  /** Opens what the plugin needs. Plugins start in the order of `uses`, each within `lifecycle.startTimeoutMs`. */
  onStart(run: (signal: AbortSignal) => unknown): void;
  /** The drain begins: stop taking new work. */
  onDrain(run: () => unknown): void;
  /** Always called once the plugin was started, also after a failed start; the last one registered is called first. */
  onStop(run: (signal: AbortSignal) => unknown): void;

  /** Offers a service to other plugins; the token must be in `offers`. */
  provide<T>(token: ServiceToken<T>, service: T): void;
  /** A service of another plugin; the token must be in `uses`. Undefined when no enabled plugin offers it. */
  use<T>(token: ServiceToken<T>): T | undefined;
  /** Messages to this plugin in other threads, and in other processes on PostgreSQL. They may be lost: the store is what counts. */
  readonly hints: Hints;

  /** The reader of a chain; null when no upstream is configured for it. */
  chain(id: ChainId): ChainReader | null;
  /** The upstream pool of a chain; null when none is configured. */
  upstreams(id: ChainId): UpstreamPool | null;
  /**
   * Makes a pool of further JSON-RPC addresses; it starts and stops with the plugin. An address that reports another genesis hash
   * than the upstreams of `chain` (default `main`) is out of service; null: the addresses are of no chain of the daemon.
   */
  openPool(label: string, upstreams: readonly UpstreamConfig[], chain?: ChainId | null): UpstreamPool;
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

/** A route whose handler's request is typed by the route's own schemas. */
export type TypedRoute<P, Q, B> = Omit<Route, 'params' | 'query' | 'body' | 'handler'> & {
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
};

export type AddRoute = <
  P extends Typed | undefined = undefined,
  Q extends Typed | undefined = undefined,
  B extends Typed | undefined = undefined,
>(
  route: TypedRoute<P, Q, B>,
) => void;

/** For a route that is defined elsewhere than it is registered. */
export function defineRoute<
  P extends Typed | undefined = undefined,
  Q extends Typed | undefined = undefined,
  B extends Typed | undefined = undefined,
>(route: TypedRoute<P, Q, B>): Route {
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
  readonly handler: (call: RpcCall<any>) => unknown;
}

export type AddMethod = <P extends Typed>(
  method: Omit<RpcMethod, 'params' | 'handler'> & {
    readonly params: P;
    readonly handler: (call: RpcCall<P['static']>) => unknown;
  },
) => void;

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

/** A command of the CLI that works on the store. */
export interface Command {
  /** `['keys', 'create']` */
  readonly path: readonly string[];
  readonly summary: string;
  readonly options: readonly CommandOption[];
  /** Refused while a daemon of this data folder runs; default false. */
  readonly needsStoppedDaemon?: boolean;
  run(options: Readonly<Record<string, string | boolean | undefined>>, io: CommandIo): Promise<void>;
}

export interface CommandOption {
  /** commander's notation: `--name <text>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
}

export interface CommandIo {
  /** For people. */
  line(text: string): void;
  /** For scripts: one JSON document on stdout; use it when `--json` was given. */
  json(value: unknown): void;
  readonly store: Store;
  /** How a person calls this program, for commands that are printed to be copied. */
  readonly program: string;
  /**
   * Shows long work on standard error: a bar in a terminal, a JSON line per 10 s elsewhere. `total` in `unit`, or null when it is not
   * known. End it in any case.
   */
  progress?(work: { readonly what: string; readonly unit: string; readonly total: number | null }): CommandProgress;
}

export interface CommandProgress {
  update(done: number): void;
  end(): void;
}
