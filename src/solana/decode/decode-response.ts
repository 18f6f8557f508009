import { isAscii } from 'node:buffer';
import { CodedError } from '../../lib/coded-error.ts';

/**
 * Parses the body of a JSON-RPC answer. Pure ASCII, the usual case, skips the cost of UTF-8; only log messages can hold more.
 * Throws CHAIN_BAD_RESPONSE when the body is not JSON.
 */
export function decodeResponse(body: Buffer): unknown {
  const text = isAscii(body) ? body.toString('latin1') : body.toString('utf8');
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the body, so it is not passed on.
    throw new CodedError('CHAIN_BAD_RESPONSE', `an answer of ${body.length} bytes is not JSON`, { retryable: true });
  }
}
