import type { Readable } from 'node:stream';
import type { TObject, TSchema } from '@sinclair/typebox';
import { AnswerError } from '../lib/answer-error.ts';
import type { Caller, Tenant } from '../ports/access.ts';
import type { Log } from '../ports/telemetry.ts';
import type { CallSignal } from '../ports/upstream.ts';

/**
 * Routes and JSON-RPC methods: what their handlers get and return, their errors, and at the end their declarations. Part of
 * `parhelion/plugin`.
 */

/** The context of a call, for handlers of all protocols. */
export interface CallContext {
  /** Also written to the log line and to `X-Request-Id`. */
  readonly requestId: string;
  readonly log: Log;
  /** Aborts when the client disconnects, the handler exceeds its deadline, or the drain deadline passes. */
  readonly signal: AbortSignal;
  /** Says the same as `signal`, which is made when it is read; absent where there is nothing cheaper. */
  readonly stop?: CallSignal | undefined;
  /** Null on routes without a key. */
  readonly caller: Caller | null;
  /** The tenant whose budgets the call uses; `OWN_WORK` where budgets are not counted. */
  readonly tenant: Tenant;
  /** Client address after `http.trustedProxies`. */
  readonly remoteAddress: string;
  /** Returns a header of the HTTP request by its lower-case name. Absent for calls without an HTTP request, as on a websocket. */
  readonly requestHeader?: ((name: string) => string | undefined) | undefined;
  /** Returns the decoded values of a query parameter, in order. Absent for calls without an HTTP request. */
  readonly requestQuery?: ((name: string) => readonly string[]) | undefined;
}

/** A REST request after routing, gate and validation. */
export interface RouteRequest<Params = Record<string, string>, Query = Record<string, unknown>, Body = unknown>
  extends CallContext {
  readonly method: string;
  /** The path as routed, without query and trailing slash. */
  readonly path: string;
  /** Percent-decoded. */
  readonly params: Params;
  /** Typed by the query schema of the route, with defaults filled in. Undeclared parameters are left out. */
  readonly query: Query;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed JSON, or undefined when the route declares no body. */
  readonly body: Body;
  /** The bytes of the body as received; absent when the route declares no body. */
  readonly rawBody?: Buffer;
  /** The caller lacks the credits; the call was admitted because its price says `neverRefused`, and costs nothing. */
  readonly isUnpaid?: boolean;
}

/** Finished JSON text that is written verbatim, as a body or as the result of a JSON-RPC method. */
export class JsonText {
  readonly text: string;
  /** What this answer costs, at most the announced price of its route or method; absent: the announced price. */
  readonly credits: number | undefined;
  /** Headers of the answer to a single call over HTTP; a batch and a websocket have none. */
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(text: string, credits?: number, headers?: Readonly<Record<string, string>>) {
    this.text = text;
    this.credits = credits;
    this.headers = headers;
  }
}

/**
 * Finished JSON bytes as the result of a JSON-RPC method, in pieces that are written one after the other: for long answers, of which a string
 * would be copied several times before it is sent.
 */
export class JsonBytes {
  readonly pieces: readonly Uint8Array[];

  constructor(pieces: readonly Uint8Array[]) {
    this.pieces = pieces;
  }
}

/** The answer of a REST handler. */
export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Written with bigint support, or a `JsonText` or `JsonBytes`; `undefined` sends no body and `Content-Length: 0`. */
  readonly json?: unknown;
  /** Finished JSON bytes, sent verbatim. For a finished string use `json: new JsonText(text)`. */
  readonly jsonBytes?: Uint8Array;
  /** Any other content; needs `contentType`. */
  readonly bytes?: Uint8Array;
  readonly contentType?: string;
  /** Server-sent events and other long answers; needs `contentType`. */
  readonly stream?: Readable;
}

export const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status,
  json: value,
  headers,
});
export const text = (value: string, status = 200): Reply => ({
  status,
  bytes: Buffer.from(value),
  contentType: 'text/plain; charset=utf-8',
});
export const empty = (status = 200): Reply => ({ status });

export interface RequestErrorOptions {
  /** The second sentence of the wallet error shape. */
  readonly details?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default for 429 and 503: 1. Null: a retry does not help. */
  readonly retryAfterS?: number | null;
  /** Charge the call despite the error, because it started work that continues in the background. */
  readonly isCharged?: boolean;
  /** Further members of the body, beside those of the error shape. */
  readonly members?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Thrown by handlers and the gate of REST routes; written in the error shape of the route. */
export class RequestError extends AnswerError {
  readonly status: number;
  readonly details: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly retryAfterS: number | null | undefined;
  readonly isCharged: boolean;
  readonly members: Readonly<Record<string, unknown>> | undefined;

  constructor(status: number, message: string, options: RequestErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'RequestError';
    this.status = status;
    this.details = options.details;
    this.headers = options.headers ?? {};
    this.retryAfterS = options.retryAfterS;
    this.isCharged = options.isCharged ?? false;
    this.members = options.members;
  }
}

/** The error codes of the hosted API and of JSON-RPC, with their exact messages and HTTP statuses. */
export const RPC_CODES = {
  parse: { code: -32700, message: 'Parse error', status: 200 },
  invalidRequest: { code: -32600, message: 'Invalid Request', status: 200 },
  methodNotFound: { code: -32601, message: 'Method not found', status: 200 },
  invalidParams: { code: -32602, message: 'Invalid params', status: 200 },
  internal: { code: -32603, message: 'Internal error', status: 200 },
  notFound: { code: -32000, message: 'Record Not Found', status: 200 },
  unsupportedVersion: { code: -32015, message: 'Transaction version is not supported', status: 200 },
  minContextSlot: { code: -32016, message: 'Minimum context slot has not been reached', status: 200 },
  transactionNotFound: { code: -32020, message: 'Transaction not found', status: 200 },
  unauthorized: { code: -32001, message: 'Unauthorized', status: 401 },
  paymentRequired: { code: -32402, message: 'Payment required', status: 402 },
  forbidden: { code: -32403, message: 'Forbidden', status: 403 },
  tooManyRequests: { code: -32005, message: 'Too many requests', status: 429 },
  unavailable: { code: -32002, message: 'Service unavailable', status: 503 },
  timeout: { code: -32003, message: 'Gateway timeout', status: 504 },
  // Errors of subscriptions of parsed transactions: their clients know only these codes.
  streamLimit: { code: -32000, message: 'The filter exceeds a limit', status: 200 },
  streamNotReady: { code: -32001, message: 'Server not ready', status: 200 },
  streamRate: { code: -32002, message: 'Rate limited', status: 200 },
  streamCount: { code: -32006, message: 'Too many subscriptions on this connection', status: 200 },
} as const;

export type RpcCodeName = keyof typeof RPC_CODES;

export interface RpcErrorOptions {
  /** One plain sentence for `error.data.details`. */
  readonly details?: string;
  /** Further members of `error.data`, for clients that read them. */
  readonly data?: Readonly<Record<string, unknown>>;
  /** Replaces the table's message where the wire contract has a longer text (`Record Not Found: …`, `Forbidden: …`). */
  readonly message?: string;
  readonly retryAfterS?: number;
  readonly cause?: unknown;
}

/** Thrown by JSON-RPC methods and the gate; becomes the `error` of the envelope and the HTTP status of the table. */
export class RpcError extends Error {
  readonly rpcCode: number;
  readonly status: number;
  readonly details: string | undefined;
  readonly data: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterS: number | undefined;

  constructor(name: RpcCodeName, options: RpcErrorOptions = {}) {
    super(
      options.message ?? RPC_CODES[name].message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'RpcError';
    this.rpcCode = RPC_CODES[name].code;
    this.status = RPC_CODES[name].status;
    this.details = options.details;
    this.data = options.data;
    this.retryAfterS = options.retryAfterS;
  }
}

/** A call of a JSON-RPC method that a plugin registered. */
export interface RpcCall<Params = unknown> extends CallContext {
  readonly method: string;
  readonly params: Params;
}

/**
 * `batch`: the batch exceeds a limit of the plan; JSON-RPC only, answered with an array of -32600 items with `details`. `budget`: the
 * project has reached the limit of its plan for a shared budget. `room`: the shared limit is reached, and the project is above its fair share.
 */
export type GateRefusalReason =
  | 'no-key'
  | 'bad-key'
  | 'ip'
  | 'plan'
  | 'permission'
  | 'credits'
  | 'rate'
  | 'batch'
  | 'budget'
  | 'room';

export class GateRefusal extends Error {
  readonly reason: GateRefusalReason;
  readonly retryAfterS: number | undefined;
  /** Index of the refused item, or null for the whole request. */
  readonly item: number | null;
  /** Replaces the default sentence of the front. */
  readonly details: string | undefined;
  /** Rate headers for the refusal. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    reason: GateRefusalReason,
    options: { retryAfterS?: number; item?: number; details?: string; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(`refused: ${reason}`);
    this.name = 'GateRefusal';
    this.reason = reason;
    this.retryAfterS = options.retryAfterS;
    this.item = options.item ?? null;
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

// -------------------------------------------------------------------------------------------------------- declarations

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
  /** Credits for a refusal that is charged (`RequestErrorOptions.isCharged`). Default `credits`, and never less. */
  readonly refusedCredits?: number;
  /** Each of these groups loses one token. */
  readonly groups: readonly RateGroup[];
  /** HTTP statuses that are charged in addition to 2xx. */
  readonly chargedStatuses?: readonly number[];
  /** Admitted even when the credits are used up, and then not charged. For calls that end a cost, such as a deletion. */
  readonly neverRefused?: boolean;
}

/** A group of routes and methods in the documents. */
export interface Tag {
  /** Name of the group, such as `Webhooks`; equal in all its routes and methods. */
  readonly name: string;
  /** One sentence. One route or method of the group is enough to give it. */
  readonly description: string;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/v0/webhooks/:webhookID`; parameters are whole segments. */
  readonly path: string;
  readonly summary: string;
  /** More than the summary, for the documents; Markdown. */
  readonly description?: string;
  /** Groups the OpenAPI document and the docs page. */
  readonly tag: Tag | string;
  /** Marked as deprecated in the documents. */
  readonly deprecated?: boolean;
  /** `none`: open; `key`: checked by the gate; `optional-key`: a key, if given, must be valid; `admin`: admin listener only. */
  readonly auth: 'none' | 'key' | 'optional-key' | 'admin';
  /** Name of the cookie whose session the handler demands, for the documents. */
  readonly session?: string;
  /** The handler demands the token of an operator as `Authorization: Bearer`; for the documents. */
  readonly operatorToken?: boolean;
  readonly errors: ErrorShape;
  readonly price?: Price;
  /** Name of the permission that the key needs; absent: that of the product of its price; null: none, any key may call it. */
  readonly permission?: string | null;
  /** Default `http.bodyLimitBytes`. */
  readonly bodyLimitBytes?: number;
  /** Deadline of the handler, default `http.handlerTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Path parameters; strings, checked before the handler runs. */
  readonly params?: TObject;
  /** Integers, booleans, strings and enumerations. A value out of range is answered with 400, never clamped. */
  readonly query?: TObject;
  /**
   * If present, the body is read, parsed as JSON and checked. The formats `base58-32` and `base58-64` are checked too: that many bytes in
   * base58. Examples of the schema and its parts are shown in the documents.
   */
  readonly body?: TSchema;
  /** Throws the error of this endpoint for a body that the schema refuses. When it throws nothing, the general error is sent. */
  readonly explain?: (body: unknown) => unknown;
  /** Whether the body may be absent; `request.body` is then undefined. */
  readonly bodyOptional?: boolean;
  /** Instead of `body`: `request.body` is a Buffer with the received bytes, up to the limit, not parsed and not checked. */
  readonly rawBody?: boolean;
  /** What the handler checks itself, for the OpenAPI document: in place of `params` and a raw body; members of the query that are required. */
  readonly documented?: {
    readonly params?: Readonly<Record<string, TSchema>>;
    readonly body?: TSchema;
    readonly required?: readonly string[];
  };
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

export interface RpcMethod {
  readonly name: string;
  /** Other names of the same method: the documents show them with it. */
  readonly aliases?: readonly string[];
  /** The method that this is another name of. The daemon makes these from `aliases`. */
  readonly aliasOf?: string;
  readonly summary: string;
  /** More than the summary, for the documents; Markdown. */
  readonly description?: string;
  readonly tag: Tag | string;
  readonly auth: 'none' | 'key';
  readonly price: Price;
  /** The price of a call whose parameters decide it, unchecked; then `price` is that of a call without parameters. */
  readonly priceOf?: (params: unknown) => Price;
  readonly permission?: string;
  readonly timeoutMs?: number;
  /** Schema of the whole `params` value. A mismatch is answered with -32602 and the reason in `data.details`. */
  readonly params: TSchema;
  /** The handler checks `params` itself, with its own texts, by the same rules as the schema. The handler gets an object or an array. */
  readonly checksParams?: boolean;
  /** Integers in `params` that a double cannot hold arrive as bigints; needs `checksParams`. */
  readonly exactIntegers?: boolean;
  /** Its errors besides those that any call may have (`invalidParams`, the gate's, `unavailable`, `timeout`, `internal`), for the documents. */
  readonly errors?: readonly RpcCodeName[];
  /** HTTP status of all errors of the method, for clients that read the body of certain statuses only, such as 200. */
  readonly errorStatus?: number;
  readonly result: TSchema;
  /** Returns the result as a value (bigints are written as bare integers) or, on hot paths, as a `JsonText` or `JsonBytes`. */
  // biome-ignore lint/suspicious/noExplicitAny: typed by `params`.
  readonly handler: (call: RpcCall<any>) => unknown;
}

export type AddMethod = <P extends Typed>(
  method: Omit<RpcMethod, 'params' | 'handler'> & {
    readonly params: P;
    readonly handler: (call: RpcCall<P['static']>) => unknown;
  },
) => void;
