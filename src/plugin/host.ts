/**
 * The additional API for host plugins: the gate, the JSON-RPC fallback, websockets and the tracer. Third-party plugins do not need it.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { Static, TObject, TSchema } from '@sinclair/typebox';
import type { CoreConfig } from '../config/core.ts';
import type { Environment, EnvironmentReading } from '../config/env.ts';
import type { Caller, Tenant } from '../ports/access.ts';
import type { BlockHeader, ChainBlock, ChainId } from '../ports/block.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import { type ProvidedService, type ServiceToken, serviceToken } from '../ports/service.ts';
import type { Migration } from '../ports/store.ts';
import type { Tracer } from '../ports/telemetry.ts';
import type { CallSignal } from '../ports/upstream.ts';
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
  Tag,
} from './plugin.ts';
import type { CallContext, GateRefusal, RpcError } from './request.ts';

export { API_VERSION } from './version.ts';

export interface HostContext<Config = unknown> extends PluginContext<Config> {
  /** The core sections of the configuration, with secrets masked. */
  readonly core: CoreConfig;
  /** Parts that at most one plugin registers. */
  readonly host: {
    /** Without a gate, routes that need a key answer 401. */
    gate(gate: Gate): void;
    /** Takes payments for calls without a key. Without one, they answer 401. */
    paywall(paywall: Paywall): void;
    /** Answers JSON-RPC methods that no plugin registered. */
    rpcFallback(fallback: RpcFallback): void;
    /** Handles websocket upgrades of the API listener. */
    sockets(sockets: SocketHandler): void;
    /** Receives a span for each unit of work. */
    tracer(tracer: Tracer): void;
  };
  /** Hears of the blocks that are released in this thread; any number of plugins may. Only the role `indexer` follows the chains. */
  listen(listener: BlockListener): void;
  /**
   * Checks the configuration against files that it names, for `check-config` and before a start opens anything. `run` throws a coded error
   * with exit code 78 and, in its facts, the `path` of the key.
   */
  checkConfig(run: () => void | Promise<void>): void;
}

/**
 * What a plugin is, known without loading what it does: the command line reads all definitions and loads few plugins. A built-in plugin
 * imports the rest of its modules in `provision` and `migrations`.
 */
export interface HostPluginDefinition<Config extends TObject = TObject>
  extends Omit<PluginDefinition<Config>, 'provision' | 'migrations'> {
  /** Reads variables of the environment that others define; they come before the file and after `PARHELION_*`. */
  environment?(env: Environment): EnvironmentReading;
  /** A function imports the steps when a store is opened. */
  readonly migrations?: readonly Migration[] | (() => Promise<readonly Migration[]>);
  /** The commands that `provision` may register; it registers no others. A plugin that is not built in has no list: it is provisioned to find them. */
  readonly commands?: readonly CommandDescription[];
  /** Whether sections of the kernel ask for it: then it is loaded, listed or not. */
  isNeeded?(core: CoreConfig): boolean;
  provision(ctx: HostContext<Static<Config>>): void | Promise<void>;
}

export type { Environment, EnvironmentReading };

export function defineHostPlugin<Config extends TObject>(
  definition: HostPluginDefinition<Config>,
): HostPluginDefinition<Config> {
  return definition;
}

/** A command without what it does. */
export interface CommandDescription extends Omit<Command, 'run'> {
  /**
   * Other plugins take part in what it does, such as in the deletion of a project: all are provisioned. Default: its plugin, and those whose
   * services this one uses.
   */
  readonly concernsAllPlugins?: boolean;
  /** Services of other plugins without which it is not registered. */
  readonly needs?: readonly ServiceToken<unknown>[];
}

/** Everything that a plugin registered. All parts are optional. */
export interface Contribution {
  readonly routes?: readonly Route[];
  readonly rpc?: readonly RpcMethod[];
  readonly rpcFallback?: RpcFallback;
  readonly sockets?: SocketHandler;
  readonly processors?: readonly BlockProcessor[];
  readonly listeners?: readonly BlockListener[];
  readonly jobs?: readonly JobKind[];
  readonly checks?: readonly HealthCheck[];
  readonly gate?: Gate;
  readonly paywall?: Paywall;
  readonly services?: readonly ProvidedService[];
  readonly commands?: readonly Command[];
  readonly tracer?: Tracer;
  readonly parsers?: readonly ContributedParser[];
  checkConfig?(): Promise<void>;
  start?(signal: AbortSignal): void | Promise<void>;
  drain?(): void | Promise<void>;
  stop?(signal: AbortSignal): void | Promise<void>;
}

// ------------------------------------------------------------------------------------------------------------ JSON-RPC

/** A call that goes to an upstream. */
export interface RpcForward extends CallContext {
  readonly method: string;
  /** The request object: only the members `jsonrpc`, `id`, `method` and `params`, with the values unchanged. */
  readonly body: Buffer;
  /** Start and end of the raw `params` value inside `body`, or null when absent. */
  readonly params: { readonly start: number; readonly end: number } | null;
  /** Raw JSON text of the id; undefined for a notification. */
  readonly id: string | undefined;
  /** Its place in a batch, whose answers must each be one Buffer; null: the answer may be a stream. */
  readonly seat: RpcBatchSeat | null;
  /** Says the same as `signal`, which is created when it is read. */
  readonly stop: CallSignal;
}

/** A call among those of its batch: they can wait for each other, to be sent together. */
export interface RpcBatchSeat {
  /** Equal for the calls of one batch; null: the call is alone. */
  readonly batch: object | null;
  /**
   * The call waits, and no longer counts as one that runs. `listener` is called when every call of the batch waits or is answered; it is
   * kept until then.
   */
  park(listener: () => void): void;
  /** The call runs again. */
  resume(): void;
}

/** The part of a call that decides its answer. Notifications are excluded, so the id is always present. */
export interface RpcQuestion extends Pick<RpcForward, 'method' | 'body' | 'params'> {
  readonly id: string;
}

/** A whole JSON-RPC response object as bytes. */
export interface RpcForwardReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Prefer a string for small answers: header and body then leave in one write. */
  readonly body: string | Buffer | Readable;
  /** Whether the upstream answered with a result or an error object. Only then is the call charged. */
  readonly answered: boolean;
}

/** A method that the fallback forwards, for the documents. */
export interface ForwardedMethod {
  readonly name: string;
  readonly summary: string;
  readonly tag: Tag | string;
  /** By position. */
  readonly params: readonly { readonly name: string; readonly required: boolean; readonly schema: TSchema }[];
  readonly result: TSchema;
  /** Only a websocket carries it. */
  readonly isSubscription?: boolean;
}

export interface RpcFallback {
  /** What is known of the methods that it forwards; others are forwarded as well. */
  readonly methods?: readonly ForwardedMethod[];
  /** The price of a method that goes upstream. `params` is parsed lazily because few prices depend on it. */
  price(method: string, params: () => unknown): Price;
  /** An answer that is already in memory; null sends the call to `forward`. */
  atHand?(question: RpcQuestion): RpcForwardReply | null;
  forward(call: RpcForward): Promise<RpcForwardReply>;
}

/**
 * Runs a websocket message of a client, single or batch, through the same pipeline as HTTP: gate, local methods, fallback. Subscription
 * calls go to `calls`; without it they are refused.
 */
export type RpcDispatch = (message: Buffer, context: CallContext, calls?: SocketCalls) => Promise<Buffer | null>;

/** Calls that only a websocket can carry: `…Subscribe` and `…Unsubscribe`. The front checks, admits and answers them like all others. */
export interface SocketCalls {
  /** The largest answer that the socket can take; a larger one becomes an error. */
  readonly maxAnswerBytes?: number;
  price(method: string): Price;
  /** Called for each call of a method that is no subscription, before the gate. Throws `RpcError`, for one that the connection may not make now. */
  admit(method: string): void;
  /** Called after the gate admitted the call. Throws `RpcError`. */
  run(call: SocketCall): Promise<SocketOutcome>;
}

export interface SocketCall {
  readonly method: string;
  /** May be parsed when it is read: ask for the size of `paramsText` before. */
  readonly params: unknown;
  /** Raw JSON, or null when absent. */
  readonly paramsText: string | null;
}

/** Raw JSON of a result, or of the error object of an upstream. */
export type SocketOutcome = { readonly resultText: string } | { readonly errorText: string };

export interface SocketContext extends CallContext {
  /**
   * Aborts when the caller loses its rights. The reason is one sentence that may be shown to the client. The handler then closes the
   * socket without sending anything else.
   */
  readonly revoked: AbortSignal;
  /** Sets what is called after each change of the plan of the caller's project. */
  onPlan(listener: () => void): void;
}

export interface SocketHandler {
  /** Price of opening a socket. */
  readonly price?: Price;
  /** Called after the gate admitted the upgrade. The handler owns the socket from then on. Returns false, uncharged, if it was not opened. */
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

/** What becomes of a subscription that this daemon answers from the blocks that it follows. */
export interface FollowedSubscriber {
  accepted(): void;
  /** The last call. */
  refused(reason: { readonly error: RpcError }): void;
  /** A whole notification; `at`: where the number of the subscription is. */
  notified(bytes: Buffer, at: { readonly start: number; readonly end: number }, last: boolean): void;
  /** It cannot go on. The last call. */
  lost(close?: { readonly code: number; readonly reason: string }): void;
  /** Resolves when the client takes more of a replay, or has gone. */
  ready(): Promise<void>;
}

/** What a kind of subscription demands of its connection. */
export interface SocketRules {
  /** Price of a notification, instead of a price of its bytes. */
  readonly creditsPerNotification: number;
  /** On one connection. */
  readonly maxSubscriptions: number;
  /** Calls about this kind of subscription, and those of `methods` on a connection that has one. */
  readonly maxCallsPerSecond: number;
  readonly methods: ReadonlySet<string>;
  /** Notifications that may wait for the client. */
  readonly maxBehind: number;
  /** Without a notification a connection is closed after this time, if it has no other kind of subscription. */
  readonly quietMs: number;
  /** Without a message or ping of the client. */
  readonly silentMs: number;
}

/** Subscriptions of websockets that need no upstream. */
export interface FollowedSubscriptions {
  /** `always`: it is answered here; `otherwise`: if no upstream does; null: never. */
  serves(call: SocketCall): 'always' | 'otherwise' | null;
  /** The largest size of the parameters of one. */
  maxParamsBytes(): number;
  /** Null: only the rules of all subscriptions. */
  rules(call: Pick<SocketCall, 'method'>): SocketRules | null;
  /** Calls back synchronously or later. The returned function unsubscribes. */
  subscribe(call: SocketCall, subscriber: FollowedSubscriber, tenant: Tenant): () => void;
}

/** Offered by `streams`, for the plugin that has the websockets. */
export const followedSubscriptions: ServiceToken<FollowedSubscriptions> = serviceToken('streams.followed');

// -------------------------------------------------------------------------------------------------------------- blocks

/**
 * Hears what the follower of a chain did, after the commit and in its order. Unlike a block processor it has no cursor and no
 * transaction: nothing is repeated for it after a restart, and it can fail no block. Its methods must not throw or wait.
 */
export interface BlockListener {
  readonly chain: ChainId;
  /** The block that follows the last one, or the first of all or above a gap. */
  released(block: ChainBlock): void;
  /** Blocks that are no longer part of the chain, newest first. */
  reverted(headers: readonly BlockHeader[]): void;
  /** All released blocks up to this slot are final. */
  finalized(slot: number): void;
}

// ---------------------------------------------------------------------------------------------------------------- gate

/** The gate, for plugins with listeners of their own; offered by `access`. */
export const gateService: ServiceToken<Gate> = serviceToken('access.gate');

export interface Credentials {
  /** `api-key` values of the query, in order. */
  readonly query: readonly string[];
  /** `X-Api-Key`. */
  readonly header: string | undefined;
  /** Token of `Authorization: Bearer`. */
  readonly bearer: string | undefined;
  /** `Origin` header: the page that made a browser's call. */
  readonly origin?: string | undefined;
}

export interface GateItem {
  /** Route pattern or JSON-RPC method. */
  readonly name: string;
  readonly price: Price | undefined;
  /** Undefined: the permission of the price's product. Null: no permission is needed. */
  readonly permission: string | null | undefined;
}

export interface Admission {
  /** Rate headers for the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** The credits are used up; the call was admitted because of `neverRefused`, and is not charged. */
  readonly isWaived?: boolean;
  /**
   * Called once with an outcome per item: whether it is charged, the bytes sent, and its credits when they are fewer than the price.
   * Returns the credits charged. Must not throw or wait.
   */
  charge(
    outcomes: readonly {
      readonly charged: boolean;
      readonly bytesOut: number;
      readonly credits?: number | undefined;
    }[],
  ): number;
}

/** Access control. `authenticate` and `admit` throw `GateRefusal`, which the front writes in the error shape of the protocol. */
export interface Gate {
  authenticate(credentials: Credentials, remoteAddress: string): Promise<Caller> | Caller;
  admit(caller: Caller, items: readonly GateItem[]): Promise<Admission> | Admission;
  /**
   * Takes tokens of a rate group for work that is not an admitted call: refused requests, and the opening of a websocket. The group may
   * be overdrawn. Throws `rate`, and takes nothing, if no token is left. 0 tokens only checks.
   */
  spend?(caller: Caller, group: RateGroup, tokens: number): void;
  /** Takes further tokens for an admitted call that is large. The group may be overdrawn; nothing is refused. */
  debit?(caller: Caller, group: RateGroup, tokens: number): void;
  /**
   * Watches a long-lived caller such as an open websocket. Calls `onRefused` once, within a second, after its key was revoked, expired,
   * or is no longer allowed for this client. Calls `onPlan` as soon after each change of the project's plan. A gate without `watch` never
   * ends such callers.
   */
  watch?(
    caller: Caller,
    client: StayingClient,
    onRefused: (refusal: GateRefusal) => void,
    onPlan?: () => void,
  ): Watched;
  /** A caller for calls of a project that are made without a key. Throws `bad-key` for an unknown project. */
  callerOf?(projectId: string): Promise<Caller>;
  /** Why no project with this plan may make these calls, whatever credits it has; null: it may. */
  planRefusal?(plan: string, items: readonly GateItem[]): GateRefusal | null;
}

/** Takes payments for calls that bring no key. */
export interface Paywall {
  /** Plan of the projects of those who pay: what it does not include is refused before a payment. */
  readonly plan: string;
  /**
   * Takes the payment that a request brings. Throws a RequestError 402 with the price if it brings none, and with the reason if it does not
   * count.
   */
  take(call: PaidCall): Promise<CallPayment>;
}

/** Calls without a key. */
export interface PaidCall {
  /** Path of the request, for the offer. */
  readonly path: string;
  /** What the calls cost together, in credits. More than 0. */
  readonly credits: number;
  readonly remoteAddress: string;
  header(name: string): string | undefined;
}

/** A payment that has bought credits, and gives the right to one answer. */
export interface CallPayment {
  /** The project that has the credits. */
  readonly projectId: string;
  /** For the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Uses up the right, durably. False: it was used before, so the answer must not be sent. */
  use(): Promise<boolean>;
  /** Writes what the calls were charged. */
  charged(): Promise<void>;
  /**
   * To be called when the request has ended. `hasLeft`: its client has gone while the calls ran. What they did stays, so the right is used up; the
   * credits stay with the project.
   */
  end(hasLeft: boolean): void;
}

/** The client of a long-lived caller. */
export interface StayingClient {
  readonly remoteAddress: string;
  readonly origin: string | undefined;
}

export interface Watched {
  /** A caller object for this client only; its calls are admitted by the same rules. */
  readonly caller: Caller;
  /** To be called when the client has disconnected. */
  end(): void;
}
