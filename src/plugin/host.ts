/**
 * The plugin API of the built-in plugins that are a part of the host: the gate, the JSON-RPC fallback, websockets, the tracer and parsers
 * of transactions. A third party needs none of it.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { Static, TObject } from '@sinclair/typebox';
import type { CoreConfig } from '../config/core.ts';
import type { Caller } from '../ports/access.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import type { ProvidedService } from '../ports/service.ts';
import type { Tracer } from '../ports/tracing.ts';
import type {
  BlockProcessor,
  Command,
  HealthCheck,
  JobKind,
  PluginContext,
  PluginDefinition,
  Price,
  RateGroup,
  Route,
  RpcMethod,
} from './plugin.ts';
import type { CallContext, GateRefusal } from './request.ts';

export interface HostContext<Config = unknown> extends PluginContext<Config> {
  /** The core sections of the configuration, secrets masked. */
  readonly core: CoreConfig;
}

/** A plugin that returns what it adds, beside what it registers through its context. */
export interface HostPluginDefinition<Config extends TObject = TObject>
  extends Omit<PluginDefinition<Config>, 'provision'> {
  provision(ctx: HostContext<Static<Config>>): Contribution | Promise<Contribution>;
}

export function defineHostPlugin<Config extends TObject>(
  definition: HostPluginDefinition<Config>,
): HostPluginDefinition<Config> {
  return definition;
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

// ------------------------------------------------------------------------------------------------------------ JSON-RPC

/** A call that goes to an upstream. */
export interface RpcForward extends CallContext {
  readonly method: string;
  /** The request object: the members `jsonrpc`, `id`, `method` and `params` as they were read, and no others; values as they came. */
  readonly body: Buffer;
  /** Start and end of the raw `params` value inside `body`, or null when absent. */
  readonly params: { readonly start: number; readonly end: number } | null;
  /** Raw JSON text of the id; undefined for a notification. */
  readonly id: string | undefined;
  /** Whether the answer becomes part of a batch: then it must come as one Buffer. */
  readonly inBatch: boolean;
}

/** What is asked of a fallback before a call is made: the same members as in the call, which has no id when it is none. */
export interface RpcQuestion extends Pick<RpcForward, 'method' | 'body' | 'params'> {
  readonly id: string;
}

/** A whole JSON-RPC response object as bytes. */
export interface RpcForwardReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Small answers are best given as a string: header and body then leave in one write. */
  readonly body: string | Buffer | Readable;
  /** Whether the upstream answered (result or its own error object): decides charging. */
  readonly answered: boolean;
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
