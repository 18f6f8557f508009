import { gather } from '../../src/lib/gather.ts';
import { isNull, readRpcReply } from '../../src/lib/rpc-reply.ts';
import { codeOf, GateRefusal, RpcError, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { Upstream, UpstreamRequest } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/retry-after.ts';

/** The first upstream that takes the transaction decides; an error object counts only when none takes it. */
type BroadcastOutcome = Extract<Exchange, { readonly kind: 'accepted' | 'refused' }>;

/** Where a transaction goes, and what the address is asked for beside it. */
export interface Targets {
  readonly pool: UpstreamPool;
  /** Labels; null: all of the pool. */
  readonly only: ReadonlySet<string> | null;
  readonly query?: string;
}

/**
 * Sends a transaction to all targets at once. Resolves with the first acceptance, or with the first error object when all have
 * answered. The other transmissions go on, each until its deadline. Throws -32002 or -32003 when no upstream answered.
 */
export function broadcast(
  targets: Targets,
  body: string,
  timeoutMs: number,
  tenant?: Tenant,
): Promise<BroadcastOutcome> {
  const { pool, only, query } = targets;
  const upstreams = pool.candidates().filter(({ label }) => only === null || only.has(label));
  return new Promise((resolve, reject) => {
    const made: Exchange[] = [];
    const onMade = (one: Exchange) => {
      if (one.kind === 'accepted') resolve(one);
      made.push(one);
      if (made.length < upstreams.length) return;
      const refused = made.find((other) => other.kind === 'refused');
      if (refused !== undefined) resolve(refused);
      else reject(noAnswer(made));
    };
    if (upstreams.length === 0) reject(noAnswer(made));
    const more = query === undefined ? { tenant } : { query, tenant };
    for (const upstream of upstreams) void exchange(pool, upstream, body, timeoutMs, more).then(onMade);
  });
}

/** The error for a call that no upstream answered. */
export function noAnswer(made: readonly Exchange[]): RpcError {
  if (made.some(({ kind }) => kind === 'late')) return new RpcError('timeout');
  const waitsMs = made.flatMap((one) =>
    one.kind === 'limited' && one.retryAfterMs !== null ? [one.retryAfterMs] : [],
  );
  const waitMs = waitsMs.length === 0 ? 1000 : Math.min(...waitsMs);
  return new RpcError('unavailable', { retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)) });
}

/** The call that a node gets. */
export function sendBody(wire: Buffer, options: Readonly<Record<string, unknown>>): string {
  const params = [wire.toString('base64'), { ...options, encoding: 'base64' }];
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params });
}

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
  more: Pick<UpstreamRequest, 'headers' | 'query' | 'tenant'> = {},
): Promise<Exchange> {
  const made = await talk(pool, upstream, body, timeoutMs, more);
  if (made.kind === 'accepted' || made.kind === 'refused') pool.report(upstream, { kind: 'ok' });
  else if (made.kind === 'limited') pool.report(upstream, made);
  return made;
}

async function talk(
  pool: UpstreamPool,
  upstream: Upstream,
  body: string,
  timeoutMs: number,
  more: Pick<UpstreamRequest, 'headers' | 'query' | 'tenant'>,
): Promise<Exchange> {
  try {
    const reply = await pool.send(upstream, { body, timeoutMs, maxBytes: MAX_ANSWER_BYTES, ...more });
    const { bytes } = await gather(reply.body, MAX_ANSWER_BYTES);
    if (reply.status === 429)
      return { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after'], null, 86_400_000) };
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
    // Too many calls of the sender wait: that says nothing about the upstream.
    if (error instanceof GateRefusal) return { kind: 'failed', sent: false };
    if (codeOf(error) === 'UPSTREAM_TIMEOUT') return { kind: 'late' };
    const sent = codeOf(error) !== 'UPSTREAM_CONNECT';
    pool.report(upstream, { kind: 'failed', reason: sent ? 'the connection broke' : 'no connection' });
    return { kind: 'failed', sent };
  }
}
