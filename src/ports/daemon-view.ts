import type { BudgetUse, Caller } from './access.ts';
import type { Log } from './log.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** A plugin as the daemon runs it. */
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

/** A call of a route from inside. */
export interface InnerCall {
  readonly method: string;
  /** With its query: `/v0/webhooks?limit=10`. */
  readonly path: string;
  /** What JSON would give; undefined for none. */
  readonly body?: unknown;
  /** On whose behalf; null only for routes of operators. */
  readonly caller: Caller | null;
  readonly requestId: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly remoteAddress: string;
}

/** What a handler answered. */
export interface InnerReply {
  readonly status: number;
  /** JSON text; empty when there is no body. */
  readonly text: string;
}

/** What the daemon knows of itself, for pages of operators. */
export interface DaemonView {
  readonly version: string;
  /** The admin listener speaks TLS itself. */
  readonly isSecure: boolean;
  plugins(): readonly PluginView[];
  /** All keys, secrets masked. */
  config(): unknown;
  /** What a project holds at this moment of what all share: in memory in this process, stored in all. */
  budgets(projectId: string): Promise<readonly BudgetUse[]>;
  /**
   * Calls a route as its listener would: whoever calls has decided that the caller may. On behalf of a project, what is no read has the
   * credits and rates of the project. Throws what the handler throws, GateRefusal, RequestError 404 for an unknown path, 405 and 400 as
   * over HTTP.
   */
  call(call: InnerCall): Promise<InnerReply>;
}

/** Offered by the kernel; usable from `start` on. */
export const kernelView: ServiceToken<DaemonView> = serviceToken('kernel.view');

/**
 * What a part of a daemon does: `api` answers requests, `indexer` follows the chains and runs the block processors, `deliverer` runs the
 * jobs. Every role has its own plugins, store connections and upstream pools, in a thread or a process of its own, or together with others.
 */
export type Role = 'api' | 'indexer' | 'deliverer';

/** All of them, in the order in which they are named. */
export const ROLES: readonly Role[] = ['api', 'indexer', 'deliverer'];

export type Roles = ReadonlySet<Role>;
