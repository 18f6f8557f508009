/**
 * The public plugin API, `parhelion/plugin`. A plugin is a folder or package whose default export is `definePlugin({...})`. What it
 * declares of routes and JSON-RPC methods is in `request.ts`, of jobs in `jobs.ts`; `host.ts` adds the API for host plugins.
 */
import type { Static, TObject } from '@sinclair/typebox';
import type { Caller, Tenant } from '../ports/access.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Role, Roles } from '../ports/daemon-view.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import type { Hints } from '../ports/processes.ts';
import type { ServiceToken } from '../ports/service.ts';
import type { Migration, Store, StoreTx } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';
import type { JobKind, NewJob } from './jobs.ts';
import type { AddMethod, AddRoute } from './request.ts';

export { type Static, Type } from '@sinclair/typebox';
export { sql } from 'kysely';
export { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
export { derived, reloadable, reloadableWhenSet } from '../lib/reloadable.ts';
export { OWN_WORK } from '../ports/access.ts';
export { serviceToken } from '../ports/service.ts';
export type * from '../ports/sink.ts';
export { sinkKinds } from '../ports/sink.ts';
export type * from './jobs.ts';
export * from './request.ts';
export { API_VERSION } from './version.ts';
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
  Random,
  Role,
  Roles,
  ServiceToken,
  Store,
  StoreTx,
  Tenant,
  UpstreamConfig,
  UpstreamPool,
};

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
  /** A condition of readiness; with `required: false` readiness only shows it. `detail` is shown in /readyz; no secrets. */
  check(name: string, run: HealthCheck['run'], options?: Pick<HealthCheck, 'required'>): void;
  /** A command of the CLI that works on the store. */
  command(command: Command): void;
  /** Classifies transactions for enhanced transactions and webhooks, before the built-in parsers. */
  parser(parser: ContributedParser): void;
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
   * once and in order. Gaps are filled only for such processors; default false: the plugin must index again instead.
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

/** A condition of readiness. */
export interface HealthCheck {
  readonly name: string;
  /** False: shown only; the daemon is ready without it. Default: true. */
  readonly required?: boolean;
  /** `detail` is shown in /readyz; no secrets. */
  run(signal: AbortSignal): Promise<{ readonly ok: boolean; readonly detail: string }>;
}

/** What was given for the options of a command and its argument, by name. commander names `--billing-day` `billingDay`. */
export type CommandValues = Readonly<Record<string, string | boolean | undefined>>;

/** A command of the CLI that works on the store. */
export interface Command {
  /** `['keys', 'create']` */
  readonly path: readonly string[];
  readonly summary: string;
  /** One positional argument, which is required; its value is among the options. */
  readonly argument?: { readonly name: string; readonly description: string };
  readonly options: readonly CommandOption[];
  /** Refused while a daemon of this data folder runs; default false. */
  readonly needsStoppedDaemon?: boolean;
  run(options: CommandValues, io: CommandIo): Promise<void>;
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
