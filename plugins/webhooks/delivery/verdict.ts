import { codeOf } from '../../../src/lib/coded-error.ts';
import type { OutboundFailure, OutboundResponse } from '../../../src/ports/outbound.ts';

/** What became of one attempt. */
export interface Verdict {
  readonly status: number | null;
  /** Null on success. */
  readonly failure: Failure | null;
  readonly retryable: boolean;
  /** The receiver wants no more deliveries at all. */
  readonly gone: boolean;
  /** Send one at a time from now on. */
  readonly throttle: boolean;
  /** Wait longer before the next attempt. */
  readonly overloaded: boolean;
  readonly retryAfter: string | undefined;
  readonly excerpt: Buffer | null;
}

export type Failure = 'timeout' | 'connection' | 'dns' | 'tls' | 'blocked_address' | 'http_status' | 'unsendable';

const FAILURES: Readonly<Record<OutboundFailure, Failure>> = {
  OUTBOUND_BAD_URL: 'unsendable',
  OUTBOUND_BLOCKED_ADDRESS: 'blocked_address',
  OUTBOUND_DNS: 'dns',
  OUTBOUND_CONNECT: 'connection',
  OUTBOUND_TLS: 'tls',
  OUTBOUND_TIMEOUT: 'timeout',
  OUTBOUND_RESET: 'connection',
  OUTBOUND_BAD_RESPONSE: 'connection',
  OUTBOUND_TOO_LARGE: 'connection',
};

/** A day: whoever says more is not believed. */
const MAX_WAIT_SECONDS = 86_400;

/** Any 2xx is a success; a redirect is a failure like any other, because it is not followed. */
export function judgeResponse({ status, headers, body }: OutboundResponse): Verdict {
  const ok = status >= 200 && status < 300;
  return {
    status,
    failure: ok ? null : 'http_status',
    retryable: status !== 403 && status !== 410,
    gone: status === 410,
    throttle: status === 429 || status === 502 || status === 504,
    overloaded: status === 429,
    retryAfter: ok ? undefined : laterOf(headers['retry-after'], status === 429 ? body : null),
    excerpt: body.length === 0 ? null : body,
  };
}

/** Discord says in the body, in seconds with fractions, how long to wait: the longer of both counts. */
function laterOf(header: string | undefined, body: Buffer | null): string | undefined {
  if (body === null || body.length === 0) return header;
  let seconds: unknown;
  try {
    seconds = (JSON.parse(body.toString()) as { readonly retry_after?: unknown } | null)?.retry_after;
  } catch {
    return header;
  }
  if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= MAX_WAIT_SECONDS)) return header;
  const named = Number(header);
  return header !== undefined && !(named < seconds) ? header : String(seconds);
}

/** Rethrows what is no failure of the guarded client: that is a bug and not the receiver's fault. */
export function judgeError(error: unknown): Verdict {
  const failure = FAILURES[codeOf(error) as OutboundFailure];
  if (failure === undefined) throw error;
  return {
    status: null,
    failure,
    retryable: failure !== 'blocked_address' && failure !== 'unsendable',
    gone: false,
    throttle: failure === 'timeout',
    overloaded: failure === 'timeout',
    retryAfter: undefined,
    excerpt: null,
  };
}

/** A connection that broke or was refused: worth one more try at once. */
export const isConnectionFailure = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === 'OUTBOUND_CONNECT' || code === 'OUTBOUND_RESET';
};
