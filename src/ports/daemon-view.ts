import type { Caller } from './access.ts';
import type { Log } from './log.ts';
import { serviceToken } from './service.ts';

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
  /**
   * Calls a route as its listener would, past the gate: whoever calls has decided that the caller may, and nothing is charged. Throws
   * what the handler throws, RequestError 404 for an unknown path, 405 and 400 as over HTTP.
   */
  call(call: InnerCall): Promise<InnerReply>;
}

/** Offered by the kernel; usable from `start` on. */
export const kernelView = serviceToken<DaemonView>('kernel.view');
