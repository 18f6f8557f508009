import { codeOf, type UpstreamPool } from '../../src/kernel/plugin.ts';
import { gather } from '../../src/lib/gather.ts';
import { isNull, readRpcReply } from '../../src/lib/rpc-reply.ts';
import type { Upstream } from '../../src/ports/upstream.ts';

/** What one upstream made of a call. Texts are raw JSON. */
export type Exchange =
  | { readonly kind: 'accepted'; readonly resultText: string }
  | { readonly kind: 'refused'; readonly errorText: string }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'late' }
  /** `sent`: the upstream may have seen the call. */
  | { readonly kind: 'failed'; readonly sent: boolean };

const MAX_ANSWER_BYTES = 1_048_576;

/** Sends one call and tells the pool how it went. Never throws. */
export async function exchange(
  pool: UpstreamPool,
  upstream: Upstream,
  body: string,
  timeoutMs: number,
): Promise<Exchange> {
  const made = await talk(pool, upstream, body, timeoutMs);
  if (made.kind === 'accepted' || made.kind === 'refused') pool.report(upstream, { kind: 'ok' });
  else if (made.kind === 'limited') pool.report(upstream, made);
  return made;
}

async function talk(pool: UpstreamPool, upstream: Upstream, body: string, timeoutMs: number): Promise<Exchange> {
  try {
    const reply = await pool.send(upstream, { body, timeoutMs, maxBytes: MAX_ANSWER_BYTES });
    const { bytes } = await gather(reply.body, MAX_ANSWER_BYTES);
    if (reply.status === 429) return { kind: 'limited', retryAfterMs: seconds(reply.headers['retry-after']) };
    if (reply.status === 401 || reply.status === 403) {
      pool.report(upstream, { kind: 'denied', status: reply.status });
      return { kind: 'failed', sent: true };
    }
    const parts = readRpcReply(bytes);
    if (parts?.error) return { kind: 'refused', errorText: bytes.toString('utf8', parts.error.start, parts.error.end) };
    if (parts?.result && reply.status < 300 && !isNull(bytes, parts.result)) {
      return { kind: 'accepted', resultText: bytes.toString('utf8', parts.result.start, parts.result.end) };
    }
    pool.report(upstream, { kind: 'failed', reason: `no usable answer, HTTP status ${reply.status}` });
    return { kind: 'failed', sent: true };
  } catch (error) {
    if (codeOf(error) === 'UPSTREAM_TIMEOUT') return { kind: 'late' };
    const sent = codeOf(error) !== 'UPSTREAM_CONNECT';
    pool.report(upstream, { kind: 'failed', reason: sent ? 'the connection broke' : 'no connection' });
    return { kind: 'failed', sent };
  }
}

function seconds(header: string | undefined): number | null {
  return header !== undefined && /^\d{1,5}$/.test(header.trim()) ? Number(header) * 1000 : null;
}
