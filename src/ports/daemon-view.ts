import type { BudgetUse, Caller } from './access.ts';
import type { AnswerTap } from './answer-tap.ts';
import { type ServiceToken, serviceToken } from './service.ts';
import type { Log, MetricSample } from './telemetry.ts';
import type { OpenableSignal } from './upstream.ts';

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

/** A call of a route from inside the daemon. */
export interface InjectedCall {
  readonly method: string;
  /** Including the query: `/v0/webhooks?limit=10`. `/`: a JSON-RPC call. */
  readonly path: string;
  /** The parsed JSON body; undefined: no body. */
  readonly body?: unknown;
  /** Null: a route of the admin listener; otherwise one of the API listener. */
  readonly caller: Caller | null;
  /** Whether it uses credits and rates of the project. Default: all but reads of routes; JSON-RPC calls always do. */
  readonly isCharged?: boolean;
  /**
   * The gate has admitted `caller` to the request that makes this call: the permissions of its key count, and its rates. Default: it is any
   * caller of its project, with all permissions.
   */
  readonly asAdmitted?: boolean;
  /** What a refused or failed call becomes: `thrown` (default) or `answered`, an answer with `fault`, in the texts of HTTP. */
  readonly faults?: 'thrown' | 'answered';
  readonly requestId: string;
  readonly log: Log;
  readonly signal: AbortSignal | OpenableSignal;
  readonly remoteAddress: string;
}

export interface InjectedReply {
  readonly status: number;
  /** JSON text; empty without a body. */
  readonly text: string;
  /** The body of a route that answers with bytes: the very object that the route gave. */
  readonly bytes?: Uint8Array;
  /** Why there is no answer; only of calls with `faults: 'answered'`. */
  readonly fault?: InjectedFault;
}

export interface InjectedFault {
  readonly message: string;
  readonly details: string | undefined;
  /** When a retry may help, in seconds. */
  readonly retryAfterS: number | undefined;
}

export type Inject = (call: InjectedCall) => Promise<InjectedReply>;

/** What `/readyz` answers, without the chains. */
export interface ReadinessView {
  readonly ready: boolean;
  readonly draining: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
    /** False if the daemon can serve without it; otherwise absent. */
    readonly required?: false;
  }[];
}

/** A key of the configuration. Secrets are masked in both values. */
export interface Setting {
  /** `http.port` */
  readonly key: string;
  readonly value: unknown;
  readonly default: unknown;
  /** Compared before masking. */
  readonly isChanged: boolean;
  readonly description: string;
}

/** A request of a project that the API listener has answered. It holds no key, query, address or body: those are in `RequestContent`. */
export interface AnsweredRequest {
  /** Unix milliseconds of its end. */
  readonly at: number;
  readonly requestId: string;
  readonly projectId: string;
  /** Null for calls without a key. */
  readonly keyId: string | null;
  readonly method: string;
  /** Route pattern. */
  readonly route: string;
  /** JSON-RPC method, or `batch(n)`; null for other requests. */
  readonly rpc: string | null;
  /** JSON-RPC calls of it that were answered with an error, where that is known. */
  readonly rpcFailed: number;
  /** 499: the client disconnected before the answer. */
  readonly status: number;
  readonly durationMs: number;
  readonly bytesOut: number;
  readonly credits: number;
}

/** What an answered request contained. Valid during the call of its listener: what is kept must be copied. Keys are not masked. */
export interface RequestContent {
  /** What the client called this host; undefined in requests of HTTP/1.0. */
  readonly host: string | undefined;
  readonly path: string;
  /** Without the `?`. */
  readonly query: string;
  /** Null: it has none, or was refused before it was read. */
  readonly body: Buffer | null;
  /** The answer of a request that failed, cut; null: it did not fail, or its answer was streamed. */
  readonly failure: string | null;
}

/** What a call costs, by the published prices. */
export interface Priced {
  /** Product of the usage record. */
  readonly product: string;
  readonly credits: number;
}

export type RequestListener = (request: AnsweredRequest, content: RequestContent) => void;

/** State of the daemon for the operator pages. */
export interface DaemonView {
  readonly version: string;
  /** Whether the admin listener uses TLS itself. */
  readonly isSecure: boolean;
  plugins(): readonly PluginView[];
  /** The whole configuration, with secrets masked. */
  config(): unknown;
  /** Every key of the configuration with its default, in the order of the file. */
  settings(): readonly Setting[];
  /** Runs the checks of all roles of this process. */
  readiness(): Promise<ReadinessView>;
  /** The metrics of this thread. */
  metrics(): Promise<readonly MetricSample[]>;
  /** Calls `listener` after each answered request of a project, in this process. It must not throw. The returned function ends it. */
  onRequest(listener: RequestListener): () => void;
  /** Lets `tap` see a share of the answers of this process; at most one plugin does. The returned function ends it. */
  tapAnswers(tap: AnswerTap): () => void;
  /** The price of a JSON-RPC method (`getAsset`) or route (`GET /v1/wallet/:wallet/balances`); undefined: it has none. */
  priceOf(name: string): Priced | undefined;
  /** Budgets that a project holds now: in-memory ones of this thread, stored ones of all processes. */
  budgets(projectId: string): Promise<readonly BudgetUse[]>;
  /** In-memory budgets of this thread by project: those that it holds, or was refused since the start. A bounded number of projects. */
  heldBudgets(): ReadonlyMap<string, readonly BudgetUse[]>;
  /**
   * Calls a route as its listener would, without authentication, which is the duty of the calling code. Throws the errors of the handler,
   * GateRefusal, RequestError 404 for an unknown path, and 405 and 400 as over HTTP. Errors of a JSON-RPC call are in its answer.
   */
  readonly call: Inject;
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

/** Creates the first operator login if none is configured. */
interface OperatorBootstrap {
  /**
   * Creates and returns the login token of the operators. Only its hash is stored, so it cannot be read again. Null if a token is
   * configured or was created before.
   */
  ensureOperatorToken(): Promise<string | null>;
}

export const operatorBootstrap: ServiceToken<OperatorBootstrap> = serviceToken('dashboard.operator');
