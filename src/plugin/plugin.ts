/**
 * The public plugin API, `parhelion/plugin`. A plugin is a folder or package whose default export is `definePlugin({...})`.
 * `request.ts` defines the arguments, results and errors of handlers; `host.ts` adds the API for host plugins.
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

/** The version of this API. A plugin that requires another version is refused at start. */
export const API_VERSION = 1;

export interface PluginDefinition<Config extends TObject = TObject> {
  /** Folder name, config key, metric area and log label: `^[a-z][a-z0-9-]{1,31}$`. */
  readonly id: string;
  readonly apiVersion: number;
  /** One line for `list-plugins`. */
  readonly summary: string;
  /** A closed schema (`additionalProperties: false`); every field has a default and a description. */
  readonly config: Config;
  /** Services of other plugins that this plugin uses; those plugins are provisioned and started first. */
  readonly uses?: readonly ServiceToken<unknown>[];
  /** Tokens of the services that `provision` will provide. */
  readonly offers?: readonly ServiceToken<unknown>[];
  readonly migrations?: readonly Migration[];
  /** Roles that need the plugin; a thread or process with none of them does not load it. Default: all. */
  readonly roles?: readonly Role[];
  /** Registers the plugin's parts. Must not open sockets, files or timers, nor query the store; do that in `onStart`. */
  provision(ctx: PluginContext<Static<Config>>): void | Promise<void>;
}

/** Checks the types of a definition and returns it unchanged. */
export function definePlugin<Config extends TObject>(definition: PluginDefinition<Config>): PluginDefinition<Config> {
  return definition;
}

/**
 * Gives a plugin access to the daemon and registers the plugin's parts. The registering methods (`http.route`, `rpc.method`, `blocks.on`,
 * `jobs.define`, `every`, `onStart`, …) may be called until `provision` returns. If two plugins register the same route, method or other
 * part, the daemon refuses to start.
 */
export interface PluginContext<Config = unknown> {
  readonly id: string;
  /** The plugin's section of the configuration, with defaults filled in. */
  readonly config: Config;
  /** Version of the daemon. */
  readonly version: string;
  /**
   * Roles of this thread or process: `api` answers requests, `indexer` hands blocks to the processors, `deliverer` runs jobs. The daemon
   * runs its plugins once per thread; the instances share only the store.
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
     * Adds jobs to the outbox within a transaction; they become due when it commits. A job whose (kind, key) exists is skipped. Returns
     * the number of jobs added.
     */
    add(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  };
  /** A condition of readiness. `detail` is shown in /readyz; no secrets. */
  check(name: string, run: HealthCheck['run']): void;
  /** A command of the CLI that works on the store. */
  command(command: Command): void;
  /** Runs `work` at this interval from start to stop, never concurrently. Errors are logged; the signal aborts at stop. */
  every(intervalMs: number, work: (signal: AbortSignal) => unknown): void;

  /** Opens the plugin's resources. Plugins start in the order of `uses`, each within `lifecycle.startTimeoutMs`. */
  onStart(run: (signal: AbortSignal) => unknown): void;
  /** Called when the drain begins: stop accepting new work. */
  onDrain(run: () => unknown): void;
  /** Called if the plugin's start was attempted, even if it failed. The callback registered last runs first. */
  onStop(run: (signal: AbortSignal) => unknown): void;

  /** Offers a service to other plugins; the token must be in `offers`. */
  provide<T>(token: ServiceToken<T>, service: T): void;
  /** A service of another plugin; the token must be in `uses`. Undefined when no enabled plugin offers it. */
  use<T>(token: ServiceToken<T>): T | undefined;
  /** Messages to this plugin in other threads and, on PostgreSQL, in other processes. They may be lost; the store is the truth. */
  readonly hints: Hints;

  /** The reader of a chain; null when no upstream is configured for it. */
  chain(id: ChainId): ChainReader | null;
  /** The upstream pool of a chain; null when none is configured. */
  upstreams(id: ChainId): UpstreamPool | null;
  /**
   * Creates a pool of additional JSON-RPC addresses; it starts and stops with the plugin. An address whose genesis hash differs from that
   * of the upstreams of `chain` (default `main`) is out of service. Null: the addresses belong to no chain of the daemon.
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

/** The price of a call; absent on routes that are not metered. */
export interface Price {
  readonly product: Product;
  /** Credits, with a resolution of one millionth. */
  readonly credits: number;
  /** Additional credits per byte of the answer. */
  readonly creditsPerByte?: number;
  /** Each of these groups loses one token. */
  readonly groups: readonly RateGroup[];
  /** HTTP statuses that are charged in addition to 2xx. */
  readonly chargedStatuses?: readonly number[];
  /** Admitted even when the credits are used up, and then not charged. For calls that end a cost, such as a deletion. */
  readonly neverRefused?: boolean;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/v0/webhooks/:webhookID`; parameters are whole segments. */
  readonly path: string;
  readonly summary: string;
  /** Groups the OpenAPI document and the docs page. */
  readonly tag: string;
  /** `none`: open; `key`: checked by the gate; `optional-key`: a key, if given, must be valid; `admin`: admin listener only. */
  readonly auth: 'none' | 'key' | 'optional-key' | 'admin';
  readonly errors: ErrorShape;
  readonly price?: Price;
  /** Name of the permission that the key needs. */
  readonly permission?: string;
  /** Default `http.bodyLimitBytes`. */
  readonly bodyLimitBytes?: number;
  /** Deadline of the handler, default `http.handlerTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Path parameters; strings, checked before the handler runs. */
  readonly params?: TObject;
  /** Integers, booleans, strings and enumerations. A value out of range is answered with 400, never clamped. */
  readonly query?: TObject;
  /** If present, the body is read, parsed as JSON and checked. A handler with its own error texts declares `Type.Unknown()`. */
  readonly body?: TSchema;
  /** Whether the body may be absent; `request.body` is then undefined. */
  readonly bodyOptional?: boolean;
  /** Instead of `body`: `request.body` is a Buffer with the received bytes, up to the limit, not parsed and not checked. */
  readonly rawBody?: boolean;
  /** Replaces `params` and `body` in the OpenAPI document when the handler checks them itself. */
  readonly documented?: { readonly params?: Readonly<Record<string, TSchema>>; readonly body?: TSchema };
  /** Schemas by status. They document the route; the tests check real answers against them. */
  readonly replies: Readonly<Record<number, TSchema>>;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas type the request at the definition; see `defineRoute`.
  readonly handler: (request: RouteRequest<any, any, any>) => Reply | Promise<Reply>;
}

/** The static type of a schema; the compiler cannot infer through the full TypeBox constraint. */
interface Typed {
  readonly static: unknown;
}
type FromSchema<S, Fallback> = S extends { readonly static: infer Value } ? Value : Fallback;

/** A route whose schemas type the request of its handler. */
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

/** Types a route that is not defined where it is registered. */
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
  /** Schema of the whole `params` value. A mismatch is answered with -32602 and the reason in `data.details`. */
  readonly params: TSchema;
  /** The handler checks `params` itself; the schema is documentation only. The handler gets an object or an array. */
  readonly checksParams?: boolean;
  /** HTTP status of all errors of the method, for clients that read the body of certain statuses only, such as 200. */
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

/** Facts about a block that are not part of it. */
export interface ApplyHow {
  /** The block is final: `revert` will not be called for it, so no undo data is needed. */
  readonly isFinal: boolean;
}

/**
 * Turns blocks into rows. The writes of `apply` commit together with the cursor; `revert` of the same block restores the rows exactly.
 * Each (chain, name, version) has a separate cursor.
 */
export interface BlockProcessor {
  /** Unique over all plugins: `webhooks`. */
  readonly name: string;
  /** A new version is indexed again from its start. */
  readonly version: number;
  readonly chains: readonly ChainId[];
  /** First slot of a new index, if earlier than the start of the chain. */
  readonly startSlot?: number;
  /** Fetches external data for `apply` before each attempt of its transaction. Errors are retried. */
  prepare?(block: ChainBlock, chain: ChainId): Promise<void>;
  apply(tx: StoreTx, block: ChainBlock, chain: ChainId, how?: ApplyHow): Promise<void>;
  /** Undoes a block after a reorg. Called newest first, in one transaction for the whole reorg. */
  revert(tx: StoreTx, header: BlockHeader, chain: ChainId): Promise<void>;
  /** Blocks up to this slot are final: their undo data can be deleted. */
  finalized?(tx: StoreTx, slot: number, chain: ChainId): Promise<void>;
  /**
   * Whether `apply` accepts a block after its successors, and more than once. The resulting rows must equal those of applying every block
   * once and in order. Gaps are filled only for such processors; default false: the processor has to be indexed again instead.
   */
  readonly outOfOrder?: boolean;
  /** Whether a range that was passed over is recorded as a gap of this processor and filled later; default true. */
  readonly wantsGaps?: boolean;
  /**
   * The addresses that the processor needs, at most `limit`. Requires `outOfOrder`, and that `apply` accepts a block that contains only
   * transactions of these addresses. Used, if the configuration allows it, to fill gaps whose blocks no upstream has any more.
   */
  addresses?(db: Store['read'], chain: ChainId, limit: number): Promise<readonly string[]>;
  /** Whether the processor can take more blocks. If not, the follower pauses and `/readyz` shows the reason. */
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
  /** A rollback of this slot discards the job if it has never been started. Null: independent of the chain. */
  readonly slot?: number | null;
  /** Order inside an ordered group. */
  readonly position?: number;
  /** Unix milliseconds; default now. */
  readonly runAt?: number;
  /** Adds the job as `held` for this reason; it waits until its owner releases it. */
  readonly held?: string;
}

export interface Job<Payload = unknown> {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly group: string;
  readonly payload: Payload;
  readonly slot: number | null;
  /** Finished attempts before this one. */
  readonly attempts: number;
  readonly createdAt: number;
  /** Requeued for a single attempt, without retry. */
  readonly once?: boolean;
  /** Claimed before, so an earlier attempt may have started. */
  readonly again?: boolean;
}

export type JobOutcome =
  | { readonly kind: 'done' }
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      readonly error: string;
      /** Does not count as an attempt. `untouched`: nothing was done at all, so a reorg may still discard the job. */
      readonly uncounted?: boolean | 'untouched';
    }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'discarded'; readonly error: string }
  | {
      readonly kind: 'held';
      /** One of the hold reasons of the kind; stored as `hold_reason`. */
      readonly reason: string;
      /** As for `retry`. */
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
  /** Maximum number of concurrent jobs of this kind. */
  readonly concurrency: number;
  /** Maximum number of concurrent jobs of one group; called at each claim. */
  readonly groupConcurrency?: (group: string) => number;
  /** Whether jobs of a group may be claimed before a slot is free (claim-ahead); default true. Called at each claim. */
  readonly groupAhead?: (group: string) => boolean;
  /** Time limit of an attempt. 30 s after it another runner may claim the job. */
  readonly timeoutMs: number;
  /**
   * A shorter lease: another runner may claim the job when the process has not renewed it for this time. If that process was only slow,
   * both may run the job at the same time.
   */
  readonly leaseMs?: number;
  /** Upper bound of a retry delay. A job scheduled further ahead, which only a wrong clock can cause, runs at once. */
  readonly longestDelayMs?: number;
  /** `run` enforces `timeoutMs` itself. All jobs then share one signal, which aborts only at stop: a signal per job is expensive. */
  readonly keepsTime?: boolean;
  /** Loads the data for all jobs of one claim in as few queries as possible; the result is passed to `run`. */
  readonly prepare?: (jobs: readonly Job[]) => Promise<unknown>;
  /** A throw counts as `retry` with the default backoff, and as `failed` after `jobs.maxAttempts`. Store errors do not count as attempts. */
  readonly run: (job: Job, prepared: unknown, signal: AbortSignal) => Promise<JobOutcome>;
  /** Writes rows in the transaction that stores the outcomes of many finished attempts. */
  readonly settle?: (tx: StoreTx, settled: readonly SettledJob[]) => Promise<void>;
  /** Called once per stored outcome, also if the answer to the commit was lost. Must not throw or wait. */
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
  /** The command line that starts this program, for printed commands that users copy. */
  readonly program: string;
  /**
   * Shows progress on standard error: a bar in a terminal, otherwise a JSON line every 10 s. `total` is in `unit`, or null if unknown.
   * Always call `end`, also after an error.
   */
  progress?(work: { readonly what: string; readonly unit: string; readonly total: number | null }): CommandProgress;
}

export interface CommandProgress {
  update(done: number): void;
  end(): void;
}
