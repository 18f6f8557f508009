import type { Readable } from 'node:stream';
import type { Caller, Tenant } from '../ports/access.ts';
import type { Log } from '../ports/log.ts';

/** What every handler gets, whatever the protocol. */
export interface CallContext {
  /** Also in the log line and in `X-Request-Id`. */
  readonly requestId: string;
  readonly log: Log;
  /** Aborts when the client goes away, the handler's time is up, or the drain deadline passes. */
  readonly signal: AbortSignal;
  /** Null on routes without a key. */
  readonly caller: Caller | null;
  /** Whose budgets the call holds: its project's, or those of the client's address. Absent where nobody counts. */
  readonly tenant?: Tenant | undefined;
  /** Client address after `http.trustedProxies`. */
  readonly remoteAddress: string;
  /** A header of the HTTP request by its name in lower case. Absent where there is no such request, as on a websocket. */
  readonly requestHeader?: ((name: string) => string | undefined) | undefined;
  /** The values of a query parameter as decoded, in order. Absent like the former. */
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
  /** Typed by the route's query schema: integers are numbers, booleans booleans, defaults filled in. Undeclared ones are left out. */
  readonly query: Query;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed JSON, or undefined when the route declares no body. */
  readonly body: Body;
  /** The bytes of the body as received; absent when the route declares no body. */
  readonly rawBody?: Buffer;
}

/** A finished JSON text that is written as it is, bare or as the result of a JSON-RPC method. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What a REST handler answers. */
export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Written with bigint support; `undefined` sends no body and `Content-Length: 0`. */
  readonly json?: unknown;
  /** Ready JSON bytes, sent as they are. For a finished string give `json: new JsonText(text)`. */
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
  /** Default of 429 and 503: 1. Null: coming again does not help. */
  readonly retryAfterS?: number | null;
  /** The call is charged all the same: it started work that goes on behind it. */
  readonly isCharged?: boolean;
  readonly cause?: unknown;
}

/** Thrown by handlers and gate of REST routes; the error mapper writes it in the shape of the route's group. */
export class RequestError extends Error {
  readonly status: number;
  readonly details: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly retryAfterS: number | null | undefined;
  readonly isCharged: boolean;

  constructor(status: number, message: string, options: RequestErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'RequestError';
    this.status = status;
    this.details = options.details;
    this.headers = options.headers ?? {};
    this.retryAfterS = options.retryAfterS;
    this.isCharged = options.isCharged ?? false;
  }
}

/** The codes of the interface document and of JSON-RPC itself, with their exact messages and HTTP statuses. */
export const RPC_CODES = {
  parse: { code: -32700, message: 'Parse error', status: 200 },
  invalidRequest: { code: -32600, message: 'Invalid Request', status: 200 },
  methodNotFound: { code: -32601, message: 'Method not found', status: 200 },
  invalidParams: { code: -32602, message: 'Invalid params', status: 200 },
  internal: { code: -32603, message: 'Internal error', status: 200 },
  notFound: { code: -32000, message: 'Record Not Found', status: 200 },
  unauthorized: { code: -32001, message: 'Unauthorized', status: 401 },
  forbidden: { code: -32403, message: 'Forbidden', status: 403 },
  tooManyRequests: { code: -32005, message: 'Too many requests', status: 429 },
  unavailable: { code: -32002, message: 'Service unavailable', status: 503 },
  timeout: { code: -32003, message: 'Gateway timeout', status: 504 },
} as const;

export type RpcCodeName = keyof typeof RPC_CODES;

export interface RpcErrorOptions {
  /** One plain sentence for `error.data.details`. */
  readonly details?: string;
  /** Replaces the table's message where the wire contract has a longer text (`Record Not Found: …`, `Forbidden: …`). */
  readonly message?: string;
  readonly retryAfterS?: number;
  readonly cause?: unknown;
}

/** Thrown by JSON-RPC methods and gate; becomes the envelope's `error` and the HTTP status of the table. */
export class RpcError extends Error {
  readonly rpcCode: number;
  readonly status: number;
  readonly details: string | undefined;
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
    this.retryAfterS = options.retryAfterS;
  }
}

/** A method call that a plugin answers itself. */
export interface RpcCall<Params = unknown> extends CallContext {
  readonly method: string;
  readonly params: Params;
}

/**
 * `batch`: the batch breaks a limit of the plan; JSON-RPC only, answered by an array of -32600 items with `details`. `budget`: the project
 * holds as much as its plan allows of something that all share; `room`: all together hold too much of it, and the project more than its share.
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
  /** Index into the admitted items, or null for the whole request. */
  readonly item: number | null;
  /** Replaces the front's own sentence. */
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
