import { RpcError, type UpstreamPool } from '../../src/kernel/plugin.ts';
import { type Exchange, exchange } from './exchange.ts';

/** The first upstream that takes the transaction decides; an error object counts only when none takes it. */
export type BroadcastOutcome = { readonly kind: 'accepted' } | { readonly kind: 'refused'; readonly errorText: string };

/**
 * Sends a transaction to all upstreams at once. Resolves with the first acceptance, or with the first error object when all have
 * answered. The other transmissions go on, each until its deadline. Throws -32002 or -32003 when no upstream answered.
 */
export function broadcast(pool: UpstreamPool, body: string, timeoutMs: number): Promise<BroadcastOutcome> {
  const upstreams = pool.candidates();
  return new Promise((resolve, reject) => {
    const made: Exchange[] = [];
    const onMade = (one: Exchange) => {
      if (one.kind === 'accepted') resolve({ kind: 'accepted' });
      made.push(one);
      if (made.length < upstreams.length) return;
      const refused = made.find((other) => other.kind === 'refused');
      if (refused !== undefined) resolve(refused);
      else reject(noAnswer(made));
    };
    if (upstreams.length === 0) reject(noAnswer(made));
    for (const upstream of upstreams) void exchange(pool, upstream, body, timeoutMs).then(onMade);
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
