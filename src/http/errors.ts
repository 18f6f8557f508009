import { CodedError, codeOf } from '../lib/coded-error.ts';
import {
  GateRefusal,
  type GateRefusalReason,
  RequestError,
  RPC_CODES,
  type RpcCodeName,
  RpcError,
} from '../plugin/plugin.ts';
import { isCallAborted } from '../runtime/lazy-signal.ts';

/** Any thrown value in protocol-independent form, without anything that a caller must not read. */
export interface Fault {
  /** HTTP status of a REST answer. */
  readonly status: number;
  /** Short text; exact where clients match it. */
  readonly message: string;
  /** One sentence, or undefined. */
  readonly details: string | undefined;
  readonly retryAfterS: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Further members of the body, whatever its shape. */
  readonly members?: Readonly<Record<string, unknown>> | undefined;
  readonly rpc: RpcFault;
  /** Set if the gate refused the call. */
  readonly refusal: GateRefusalReason | undefined;
  /** An unexpected error: it is logged with its stack and answered with only the request id. */
  readonly unexpected: boolean;
}

export interface RpcFault {
  readonly code: number;
  readonly message: string;
  /** HTTP status of the answer to a single call. */
  readonly status: number;
  readonly details: string | undefined;
  /** Further members of `data`. */
  readonly data?: Readonly<Record<string, unknown>> | undefined;
}

const UNAVAILABLE: Readonly<Record<string, string>> = {
  CHAIN_UNREACHABLE: 'No Solana upstream answers',
  CHAIN_BAD_BLOCK: 'The Solana upstreams contradict themselves',
  UPSTREAM_CONNECT: 'No Solana upstream answers',
  UPSTREAM_FAILED: 'The connection to a Solana upstream broke',
  ARCHIVE_UNREACHABLE: 'The archive does not answer',
  ARCHIVE_REFUSED: 'The archive cannot be read',
  LEDGER_IO: 'The ledger cannot be read',
  LEDGER_DAMAGED: 'A block of the ledger is damaged',
  STORE_BUSY: 'The database is busy',
  STORE_FULL: 'The database is full',
  STORE_READ_ONLY: 'The database cannot be written',
  STORE_IO: 'The database cannot be read or written',
  STORE_CORRUPT: 'The database is damaged',
  STORE_DESCRIPTORS: 'The database has too many connections open',
  STORE_UNREACHABLE: 'The database does not answer',
};
const TIMED_OUT = new Set(['CHAIN_TIMEOUT', 'UPSTREAM_TIMEOUT']);

interface RefusalText {
  readonly status: number;
  readonly message: string;
  readonly details?: string;
  readonly rpc: RpcCodeName;
  readonly rpcMessage?: string;
}

const REFUSALS: Readonly<Record<GateRefusalReason, RefusalText>> = {
  'no-key': {
    status: 401,
    message: 'API key required. Pass via ?api-key=xxx or X-Api-Key header',
    rpc: 'unauthorized',
  },
  'bad-key': { status: 401, message: 'Invalid API key', rpc: 'unauthorized' },
  ip: {
    status: 403,
    message: 'Forbidden',
    details: 'IP address not allowed for this API key',
    rpc: 'forbidden',
    rpcMessage: 'Forbidden: IP address not allowed for this API key',
  },
  plan: {
    status: 403,
    message: 'Forbidden',
    details: 'This endpoint requires a paid plan',
    rpc: 'forbidden',
    rpcMessage: 'Forbidden: the plan does not include this method',
  },
  permission: {
    status: 403,
    message: 'Forbidden',
    details: 'This API key lacks permission for this endpoint',
    rpc: 'forbidden',
    rpcMessage: 'Forbidden: this API key lacks permission for this method',
  },
  credits: {
    status: 429,
    message: 'max usage reached',
    details: 'Credits of this cycle are used up',
    rpc: 'tooManyRequests',
    rpcMessage: 'max usage reached',
  },
  rate: { status: 429, message: 'Too many requests', rpc: 'tooManyRequests' },
  batch: { status: 400, message: 'Invalid batch', rpc: 'invalidRequest' },
  budget: { status: 429, message: 'Too many requests', rpc: 'tooManyRequests' },
  room: { status: 503, message: 'Service unavailable', rpc: 'unavailable' },
};

/** Classifies any thrown value. The answer to an unexpected one contains only `requestId`. */
export function faultOf(error: unknown, requestId: string): Fault {
  if (error instanceof RequestError) return fromRequestError(error);
  if (error instanceof GateRefusal) return fromRefusal(error);
  if (error instanceof RpcError) return fromRpcError(error);
  if (isCallAborted(error)) return timeoutFault();
  const code = error instanceof CodedError ? codeOf(error) : undefined;
  if (code !== undefined && TIMED_OUT.has(code)) return timeoutFault('A Solana upstream did not answer in time');
  const unavailable = code === undefined ? undefined : UNAVAILABLE[code];
  if (unavailable !== undefined) return unavailableFault(unavailable);
  return { ...internalFault(requestId), unexpected: true };
}

function unavailableFault(details: string): Fault {
  return make(503, 'Service unavailable', 'unavailable', { details, rpcDetails: details, retryAfterS: 1 });
}

export function timeoutFault(details?: string): Fault {
  return make(504, 'Gateway timeout', 'timeout', { details, rpcDetails: details });
}

function internalFault(requestId: string): Fault {
  const details = `Request ${requestId}`;
  return make(500, 'Internal error', 'internal', { details, rpcDetails: details });
}

function fromRefusal(error: GateRefusal): Fault {
  const text = REFUSALS[error.reason];
  const retryAfterS =
    text.status === 429 || text.status === 503 ? Math.max(1, Math.ceil(error.retryAfterS ?? 1)) : undefined;
  const rateDetails = error.reason === 'rate' ? `Retry after ${retryAfterS} s` : undefined;
  return {
    ...make(text.status, text.message, text.rpc, {
      details: error.details ?? text.details ?? rateDetails,
      rpcMessage: text.rpcMessage,
      rpcDetails: error.details ?? rateDetails,
      retryAfterS,
      headers: error.headers,
    }),
    refusal: error.reason,
  };
}

function fromRequestError(error: RequestError): Fault {
  const { status, message, details, headers, members } = error;
  const usual = status === 429 || status === 503 ? 1 : undefined;
  const retryAfterS = error.retryAfterS === null ? undefined : (error.retryAfterS ?? usual);
  return make(status, message, rpcNameOf(status), {
    details,
    rpcDetails: details ?? message,
    retryAfterS,
    headers,
    members,
    // An oversized or encoded body is refused before it is parsed as JSON-RPC, so its HTTP status stays.
    rpcStatus: status === 413 || status === 415 ? status : undefined,
  });
}

function fromRpcError(error: RpcError): Fault {
  const restStatus: Record<number, number> = {
    [RPC_CODES.invalidParams.code]: 400,
    [RPC_CODES.invalidRequest.code]: 400,
    [RPC_CODES.parse.code]: 400,
    [RPC_CODES.methodNotFound.code]: 404,
    [RPC_CODES.notFound.code]: 404,
    [RPC_CODES.internal.code]: 500,
  };
  const retryAfterS = error.retryAfterS ?? (error.status === 429 || error.status === 503 ? 1 : undefined);
  return {
    status: error.status === 200 ? (restStatus[error.rpcCode] ?? 500) : error.status,
    message: error.message,
    details: error.details,
    retryAfterS,
    headers: {},
    rpc: {
      code: error.rpcCode,
      message: error.message,
      status: error.status,
      details: error.details,
      data: error.data,
    },
    refusal: undefined,
    unexpected: false,
  };
}

function rpcNameOf(status: number): RpcCodeName {
  if (status === 401) return 'unauthorized';
  if (status === 402) return 'paymentRequired';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'notFound';
  if (status === 413 || status === 415) return 'invalidRequest';
  if (status === 429) return 'tooManyRequests';
  if (status === 503) return 'unavailable';
  if (status === 504) return 'timeout';
  return status < 500 ? 'invalidParams' : 'internal';
}

interface MakeOptions {
  readonly details?: string | undefined;
  readonly rpcDetails?: string | undefined;
  readonly rpcMessage?: string | undefined;
  readonly rpcStatus?: number | undefined;
  readonly retryAfterS?: number | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly members?: Readonly<Record<string, unknown>> | undefined;
}

function make(status: number, message: string, rpc: RpcCodeName, options: MakeOptions): Fault {
  const entry = RPC_CODES[rpc];
  return {
    status,
    message,
    details: options.details,
    retryAfterS: options.retryAfterS,
    headers: options.headers ?? {},
    members: options.members,
    rpc: {
      code: entry.code,
      message: options.rpcMessage ?? entry.message,
      status: options.rpcStatus ?? entry.status,
      details: options.rpcDetails,
    },
    refusal: undefined,
    unexpected: false,
  };
}
