import type { BudgetUse, Caller } from './access.ts';
import type { Log } from './log.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** A running plugin. */
export interface PluginView {
  readonly id: string;
  readonly summary: string;
  /** Paths and methods of its routes. */
  readonly routes: readonly string[];
  readonly rpcMethods: readonly string[];
  /** Names of its block processors. */
  readonly processors: readonly string[];
  /** Kinds of its jobs. */
  readonly jobs: readonly string[];
}

/** An internal call of a route. */
export interface InnerCall {
  readonly method: string;
  /** Including the query: `/v0/webhooks?limit=10`. */
  readonly path: string;
  /** The parsed JSON body; undefined: no body. */
  readonly body?: unknown;
  /** The caller; null only for operator routes. */
  readonly caller: Caller | null;
  readonly requestId: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly remoteAddress: string;
}

/** The answer of an internal call. */
export interface InnerReply {
  readonly status: number;
  /** JSON text; empty without a body. */
  readonly text: string;
}

/** State of the daemon for the operator pages. */
export interface DaemonView {
  readonly version: string;
  /** Whether the admin listener uses TLS itself. */
  readonly isSecure: boolean;
  plugins(): readonly PluginView[];
  /** The whole configuration, with secrets masked. */
  config(): unknown;
  /** Budgets that a project holds now: in-memory ones of this process, stored ones of all processes. */
  budgets(projectId: string): Promise<readonly BudgetUse[]>;
  /**
   * Calls a route as its listener would, without authentication, which is the duty of the calling code. For a project, calls other than
   * reads use the credits and rates of the project. Throws the errors of the handler, GateRefusal, RequestError 404 for an unknown path,
   * and 405 and 400 as over HTTP.
   */
  call(call: InnerCall): Promise<InnerReply>;
}

/** Offered by the kernel; usable from `start` on. */
export const kernelView: ServiceToken<DaemonView> = serviceToken('kernel.view');

/**
 * Role of a thread or process: `api` answers requests, `indexer` follows the chains and runs the block processors, `deliverer` runs the
 * jobs. A thread or process has its own plugins, store connections and upstream pools, and one or more roles.
 */
export type Role = 'api' | 'indexer' | 'deliverer';

/** All roles, in display order. */
export const ROLES: readonly Role[] = ['api', 'indexer', 'deliverer'];

export type Roles = ReadonlySet<Role>;
