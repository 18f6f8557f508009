import { gather } from '../../src/lib/gather.ts';
import { isNull, readRpcReply, rpcRequest } from '../../src/lib/json-rpc.ts';
import {
  type ChainReader,
  type Clock,
  codeOf,
  GateRefusal,
  type Log,
  type Metrics,
  RpcError,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { Counter } from '../../src/ports/telemetry.ts';
import type { Upstream, UpstreamRequest } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import type { SenderConfig } from './config.ts';
import { type SignedTransaction, usesNonce } from './transaction.ts';

/** The first acceptance decides; an error object counts only when no upstream accepts. */
type BroadcastOutcome = Extract<Exchange, { readonly kind: 'accepted' | 'refused' }>;

/** Target upstreams and the query parameters of the address. */
export interface Targets {
  readonly pool: UpstreamPool;
  /** Labels; null: all upstreams of the pool. */
  readonly only: ReadonlySet<string> | null;
  readonly query?: string;
}

/**
 * Sends a transaction to all targets at once. Resolves with the first acceptance, or with the first error object when all have
 * answered. The other transmissions continue until their deadlines. Throws -32002 or -32003 when no upstream answered.
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

/** Error of a call that no upstream answered. */
export function noAnswer(made: readonly Exchange[]): RpcError {
  if (made.some(({ kind }) => kind === 'late')) return new RpcError('timeout');
  const waitsMs = made.flatMap((one) =>
    one.kind === 'limited' && one.retryAfterMs !== null ? [one.retryAfterMs] : [],
  );
  const waitMs = waitsMs.length === 0 ? 1000 : Math.min(...waitsMs);
  return new RpcError('unavailable', { retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)) });
}

/** JSON-RPC body for a node. */
export function sendBody(wire: Buffer, options: Readonly<Record<string, unknown>>): string {
  const params = [wire.toString('base64'), { ...options, encoding: 'base64' }];
  return rpcRequest('sendTransaction', params);
}

/** Outcome of a call at one upstream. Texts are raw JSON. */
export type Exchange =
  | { readonly kind: 'accepted'; readonly resultText: string }
  | { readonly kind: 'refused'; readonly errorText: string }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'late' }
  /** `sent`: the upstream may have received the call. */
  | { readonly kind: 'failed'; readonly sent: boolean };

const MAX_ANSWER_BYTES = 1_048_576;

/** Sends one call and reports its outcome to the pool. Never throws. */
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
    // Too many waiting calls of the tenant say nothing about the upstream.
    if (error instanceof GateRefusal) return { kind: 'failed', sent: false };
    if (codeOf(error) === 'UPSTREAM_TIMEOUT') return { kind: 'late' };
    const sent = codeOf(error) !== 'UPSTREAM_CONNECT';
    pool.report(upstream, { kind: 'failed', reason: sent ? 'the connection broke' : 'no connection' });
    return { kind: 'failed', sent };
  }
}

/** Repeats accepted transactions until the chain has them or they have expired. */
export interface Rebroadcast {
  hasRoom(signature: string): boolean;
  /** Repetitions go to the targets of the first transmission. */
  add(transaction: SignedTransaction, targets: Targets): void;
  size(): number;
  stop(): void;
}

export interface RebroadcastParts {
  /** Null: it is unknown whether a transaction was seen, so each is repeated until it is too old. */
  readonly reader: ChainReader | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Read at each use. */
  readonly limits: SenderConfig['rebroadcast'];
  /** Never throws. */
  send(transaction: SignedTransaction, targets: Targets): Promise<void>;
}

interface Entry {
  readonly transaction: SignedTransaction;
  readonly targets: Targets;
  readonly signature: string;
  /** Null for a transaction with a durable nonce. */
  readonly blockhash: string | null;
  readonly addedAt: number;
}

/** Limit of a node per call of getSignatureStatuses. */
const STATUS_BATCH = 256;
/** Blockhashes checked per round; the others wait for the next round. */
const MAX_HASHES = 64;
/** A lagging node may not know a fresh blockhash: younger transactions are not dropped for it. */
const FRESH_MS = 10_000;

export function createRebroadcast(parts: RebroadcastParts): Rebroadcast {
  const { reader, clock } = parts;
  const entries = new Map<string, Entry>();
  const controller = new AbortController();
  const ended = parts.metrics.counter('rebroadcast_ended_total', 'transactions no longer repeated, by reason', [
    'reason',
  ]);
  const reasons: Record<'seen' | 'expired' | 'gave-up', Counter> = {
    seen: ended.with('seen'),
    expired: ended.with('expired'),
    'gave-up': ended.with('gave-up'),
  };
  const repeats = parts.metrics.counter('rebroadcasts_total', 'transmissions after the first');
  parts.metrics.observe('rebroadcast_queued', 'transactions waiting to be seen', () => entries.size);
  let scheduled = false;
  let cancel = () => {};

  function schedule(): void {
    if (scheduled || entries.size === 0 || controller.signal.aborted) return;
    scheduled = true;
    cancel = clock.timeout(parts.limits.intervalMs, () => {
      void round()
        .catch((error: unknown) => parts.log.error({ err: error }, 'a round of rebroadcasts failed'))
        .finally(() => {
          scheduled = false;
          schedule();
        });
    });
  }

  async function round(): Promise<void> {
    for (const entry of [...entries.values()]) {
      if (clock.monotonic() - entry.addedAt >= parts.limits.maxAgeMs) end(entry, 'gave-up');
    }
    await dropSeen();
    await dropExpired();
    await sendAgain([...entries.values()]);
  }

  function end(entry: Entry, reason: keyof typeof reasons): void {
    if (entries.delete(entry.signature)) reasons[reason].add();
  }

  async function dropSeen(): Promise<void> {
    const waiting = [...entries.values()];
    for (let from = 0; from < waiting.length; from += STATUS_BATCH) {
      const some = waiting.slice(from, from + STATUS_BATCH);
      const statuses = await ask<{ value: readonly unknown[] }>('getSignatureStatuses', [some.map((e) => e.signature)]);
      if (!Array.isArray(statuses?.value)) return;
      some.forEach((entry, index) => {
        const status: unknown = statuses.value[index];
        if (status !== null && status !== undefined) end(entry, 'seen');
      });
    }
  }

  async function dropExpired(): Promise<void> {
    const old = [...entries.values()].filter((entry) => clock.monotonic() - entry.addedAt >= FRESH_MS);
    const hashes = [...new Set(old.flatMap(({ blockhash }) => (blockhash === null ? [] : [blockhash])))];
    for (const blockhash of hashes.slice(0, MAX_HASHES)) {
      const params = [blockhash, { commitment: 'processed' }];
      const valid = await ask<{ value: unknown }>('isBlockhashValid', params);
      if (valid?.value !== false) continue;
      for (const entry of old) if (entry.blockhash === blockhash) end(entry, 'expired');
    }
  }

  /** Undefined without an answer: nothing is concluded then. */
  async function ask<T>(method: string, params: readonly unknown[]): Promise<T | undefined> {
    try {
      return await reader?.call<T>(method, params, { signal: controller.signal });
    } catch {
      return undefined;
    }
  }

  async function sendAgain(list: readonly Entry[]): Promise<void> {
    const next = list[Symbol.iterator]();
    const worker = async () => {
      for (const entry of { [Symbol.iterator]: () => next }) {
        if (controller.signal.aborted) return;
        if (!entries.has(entry.signature)) continue;
        repeats.add();
        await parts.send(entry.transaction, entry.targets);
      }
    };
    await Promise.all(Array.from({ length: parts.limits.concurrency }, worker));
  }

  return {
    hasRoom: (signature) => entries.size < parts.limits.maxQueued || entries.has(signature),
    add(transaction, targets) {
      const { signature, recentBlockhash } = transaction.peek;
      if (entries.has(signature)) return;
      const blockhash = usesNonce(transaction.peek) ? null : recentBlockhash;
      entries.set(signature, { transaction, targets, signature, blockhash, addedAt: clock.monotonic() });
      schedule();
    },
    size: () => entries.size,
    stop() {
      controller.abort(new Error('the sender is stopping'));
      cancel();
      entries.clear();
    },
  };
}

/** Targets of transactions and bundles with `mev-protect`. The option is never ignored silently. */
export interface Protection {
  /** Reads the values of the query parameter. Throws -32602 for anything but `true` and `false`. */
  wanted(values: readonly string[]): boolean;
  /** Null: no send upstream offers it, and the response reports `missing`. Throws -32602 when that is not acceptable. */
  targets(): Targets | null;
  readonly missing: Readonly<Record<string, string>>;
}

/** `entries`: those of the pool, in its order. */
export function createProtection(
  pool: UpstreamPool | null,
  entries: SenderConfig['urls'] | SenderConfig['bundleUrls'],
  config: Pick<SenderConfig, 'mevProtect'>,
): Protection {
  const marked = entries.flatMap((entry, order) =>
    pool !== null && typeof entry === 'object' && entry.mevProtect === true ? [`${pool.label}-${order}`] : [],
  );
  const only = new Set(marked);
  return {
    missing: { 'x-mev-protect': 'not-available' },
    wanted(values) {
      const given = values.filter((value) => value !== '');
      if (given.some((value) => value !== 'true' && value !== 'false') || new Set(given).size > 1) {
        throw new RpcError('invalidParams', { details: 'mev-protect has to be true or false' });
      }
      return given[0] === 'true';
    },
    targets() {
      if (pool !== null && only.size > 0) return { pool, only, query: 'mev-protect=true' };
      if (config.mevProtect === 'ignore') return null;
      throw new RpcError('invalidParams', { details: 'no send upstream offers mev-protect' });
    },
  };
}
