import { CodedError, codeOf } from '../../lib/coded-error.ts';
import type { OutboundFailure } from '../../ports/outbound.ts';

const BY_CODE: Readonly<Record<string, OutboundFailure>> = {
  UND_ERR_CONNECT_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_HEADERS_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_BODY_TIMEOUT: 'OUTBOUND_TIMEOUT',
  ETIMEDOUT: 'OUTBOUND_TIMEOUT',
  ECONNREFUSED: 'OUTBOUND_CONNECT',
  EHOSTUNREACH: 'OUTBOUND_CONNECT',
  ENETUNREACH: 'OUTBOUND_CONNECT',
  EADDRNOTAVAIL: 'OUTBOUND_CONNECT',
  EACCES: 'OUTBOUND_CONNECT',
  EMFILE: 'OUTBOUND_CONNECT',
  ERR_SOCKET_CONNECTION_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_SOCKET: 'OUTBOUND_RESET',
  ECONNRESET: 'OUTBOUND_RESET',
  EPIPE: 'OUTBOUND_RESET',
  UND_ERR_HEADERS_OVERFLOW: 'OUTBOUND_BAD_RESPONSE',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'OUTBOUND_BAD_RESPONSE',
  UND_ERR_INVALID_ARG: 'OUTBOUND_BAD_URL',
  EPROTO: 'OUTBOUND_TLS',
  CERT_HAS_EXPIRED: 'OUTBOUND_TLS',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'OUTBOUND_TLS',
  SELF_SIGNED_CERT_IN_CHAIN: 'OUTBOUND_TLS',
};
const BY_PREFIX: readonly (readonly [string, OutboundFailure])[] = [
  ['ERR_TLS_', 'OUTBOUND_TLS'],
  ['ERR_SSL_', 'OUTBOUND_TLS'],
  ['CERT_', 'OUTBOUND_TLS'],
  ['UNABLE_TO_', 'OUTBOUND_TLS'],
  ['HPE_', 'OUTBOUND_BAD_RESPONSE'],
];

const WORDS: Readonly<Record<OutboundFailure, string>> = {
  OUTBOUND_BAD_URL: 'the request cannot be sent',
  OUTBOUND_BLOCKED_ADDRESS: 'the address is not allowed',
  OUTBOUND_DNS: 'the host name could not be resolved',
  OUTBOUND_CONNECT: 'the connection could not be opened',
  OUTBOUND_TLS: 'the certificate or the TLS handshake failed',
  OUTBOUND_TIMEOUT: 'no answer in time',
  OUTBOUND_RESET: 'the connection broke',
  OUTBOUND_BAD_RESPONSE: 'the answer is no valid HTTP',
  OUTBOUND_TOO_LARGE: 'the answer is too large',
};

/** An error of this client. `facts` never hold the URL: it may carry a token in its query. */
export function outboundError(code: OutboundFailure, facts: Readonly<Record<string, unknown>> = {}): CodedError {
  return new CodedError(code, WORDS[code], { facts, retryable: code !== 'OUTBOUND_BAD_URL' });
}

/** Classifies whatever the HTTP client or the socket threw. */
export function toOutboundError(error: unknown): CodedError {
  if (error instanceof CodedError) return error;
  const raw = codeOf(error) ?? codeOf((error as { cause?: unknown } | null)?.cause) ?? 'unknown';
  if ((error as { name?: unknown } | null)?.name === 'HTTPParserError') return outboundError('OUTBOUND_BAD_RESPONSE');
  const code = BY_CODE[raw] ?? BY_PREFIX.find(([prefix]) => raw.startsWith(prefix))?.[1] ?? 'OUTBOUND_RESET';
  return outboundError(code, { reason: raw });
}
