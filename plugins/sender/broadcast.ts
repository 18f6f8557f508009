import { admits } from '../../src/lib/fair-share.ts';
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
import { OWN_WORK, type Tenant } from '../../src/ports/access.ts';
import type { Counter } from '../../src/ports/telemetry.ts';
import type { Upstream, UpstreamRequest } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import {
  isDenied,
  isMoreUseful,
  meaningOfErrorText,
  type NodeErrorMeaning,
  outcomeOf,
} from '../../src/solana/node-errors.ts';
import type { SenderConfig } from './config.ts';
import { type SignedTransaction, usesNonce } from './transaction.ts';

/** The first acceptance decides; an error object counts only when no upstream accepts. */
type BroadcastOutcome = Extract<SendOutcome, { readonly kind: 'accepted' | 'refused' }>;

/** Target upstreams and the query parameters of the address. */
export interface Targets {
  readonly pool: UpstreamPool;
  /** Labels; null: all upstreams of the pool. */
  readonly only: ReadonlySet<string> | null;
  readonly query?: string;
}

/**
 * Sends a transaction to all targets at once. Resolves with the first acceptance, or with the most useful error object when all have
 * answered. The other transmissions continue until their deadlines. Throws -32002 or -32003 when no upstream answered.
 */
export function broadcast(
  targets: Targets,
  body: string,
  timeoutMs: number,
  tenant: Tenant,
): Promise<BroadcastOutcome> {
  const { pool, only, query } = targets;
  const upstreams = pool.candidates().filter(({ label }) => only === null || only.has(label));
  return new Promise((resolve, reject) => {
    const made: SendOutcome[] = [];
    const onMade = (one: SendOutcome) => {
      if (one.kind === 'accepted') resolve(one);
      made.push(one);
      if (made.length < upstreams.length) return;
      const [refused] = made
        .filter((other) => other.kind === 'refused')
        .sort((a, b) => (isMoreUseful(a.meaning, b.meaning) ? -1 : 1));
      if (refused !== undefined) resolve(refused);
      else reject(noAnswer(made));
    };
    if (upstreams.length === 0) reject(noAnswer(made));
    const more = query === undefined ? { tenant } : { query, tenant };
    for (const upstream of upstreams) void exchange(pool, upstream, body, timeoutMs, more).then(onMade);
  });
}

/** Error of a call that no upstream answered. */
export function noAnswer(made: readonly SendOutcome[]): RpcError {
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
export type SendOutcome =
  | { readonly kind: 'accepted'; readonly resultText: string }
  | { readonly kind: 'refused'; readonly errorText: string; readonly meaning: NodeErrorMeaning }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'late' }
  /** `sent`: the upstream may have received the call. */
  | { readonly kind: 'failed'; readonly sent: boolean };

const MAX_ANSWER_BYTES = 1_048_576;
/** JSON-RPC id of the requests that this module sends. */
const OUR_ID = '1';

/** Sends one call and reports its outcome to the pool. Never throws. */
export async function exchange(
  pool: UpstreamPool,
  upstream: Upstream,
  body: string,
  timeoutMs: number,
  more: Pick<UpstreamRequest, 'headers' | 'query' | 'tenant'>,
): Promise<SendOutcome> {
  const made = await talk(pool, upstream, body, timeoutMs, more);
  if (made.kind === 'accepted') pool.report(upstream, { kind: 'ok' });
  else if (made.kind === 'refused') pool.report(upstream, outcomeOf(made.meaning, null));
  else if (made.kind === 'limited') pool.report(upstream, made);
  return made;
}

async function talk(
  pool: UpstreamPool,
  upstream: Upstream,
  body: string,
  timeoutMs: number,
  more: Pick<UpstreamRequest, 'headers' | 'query' | 'tenant'>,
): Promise<SendOutcome> {
  try {
    const reply = await pool.send(upstream, { body, timeoutMs, maxBytes: MAX_ANSWER_BYTES, ...more });
    const { bytes } = await gather(reply.body, MAX_ANSWER_BYTES);
    if (reply.status === 429)
      return { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after'], null, 86_400_000) };
    if (isDenied(reply.status)) {
      pool.report(upstream, { kind: 'denied', status: reply.status });
      return { kind: 'failed', sent: true };
    }
    const parts = readRpcReply(bytes);
    const isOurs = parts?.id != null && bytes.toString('utf8', parts.id.start, parts.id.end) === OUR_ID;
    if (parts?.error && (isOurs || parts.id === null || isNull(bytes, parts.id))) {
      const errorText = bytes.toString('utf8', parts.error.start, parts.error.end);
      const meaning = meaningOfErrorText(errorText, 'sendTransaction');
      return { kind: 'refused', errorText, meaning };
    }
    if (parts?.result && isOurs && reply.status < 300 && !isNull(bytes, parts.result)) {
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

/**
 * Repeats accepted transactions until they are final or have expired. One that is in a block which is not final yet waits: if a fork drops
 * the block, it is sent again.
 */
export interface Rebroadcast {
  /**
   * Takes a place for a transaction before it is sent for the first time. Null: the sender has no room left. All senders share the queue
   * as they share budgets: a quarter more is for those below their fair share.
   */
  reserve(signature: string, sender: Sender): BroadcastPlace | null;
  size(): number;
  stop(): void;
}

/** Sender of a transaction. Without a key, all transactions of one address have one sender. */
export interface Sender {
  /** Undefined where no tenants are counted. */
  readonly tenant: Tenant;
  readonly hasKey: boolean;
}

/** To be used once: a transaction is kept, or the place is free again. */
export interface BroadcastPlace {
  /** Repetitions go to the targets of the first transmission. */
  keep(transaction: SignedTransaction, targets: Targets): void;
  release(): void;
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
  send(transaction: SignedTransaction, targets: Targets, tenant: Tenant): Promise<void>;
}

interface PendingTransaction {
  readonly transaction: SignedTransaction;
  readonly targets: Targets;
  readonly signature: string;
  /** Null for a transaction with a durable nonce. */
  readonly blockhash: string | null;
  readonly sender: Sender;
  readonly addedAt: number;
  /** Transmissions after the first. */
  repeats: number;
  /** Whether the last look found it in a block. */
  isInBlock: boolean;
}

/** One of `getSignatureStatuses`. */
interface Status {
  readonly confirmations?: number | null;
  readonly confirmationStatus?: string | null;
}

/** Nodes that do not name the level have no confirmations for what is final. */
const isFinal = ({ confirmations, confirmationStatus }: Status): boolean =>
  confirmationStatus === 'finalized' || (confirmationStatus == null && confirmations === null);

/** Limit of a node per call of getSignatureStatuses. */
const STATUS_BATCH = 256;
/** Blockhashes checked per round: those that were never checked first, then those whose check is oldest. */
const MAX_HASHES = 64;
/** A lagging node may not know a fresh blockhash: younger transactions are not dropped for it. */
const FRESH_MS = 10_000;

/**
 * Transactions that wait for their end, by signature. `places` counts those that wait and those that are reserved for a call; each place is
 * given back once, by `end` or by whoever reserved it. One round runs at a time.
 */
class Rebroadcaster implements Rebroadcast {
  private readonly parts: RebroadcastParts;
  private readonly entries = new Map<string, PendingTransaction>();
  private readonly controller = new AbortController();
  private readonly ended: Counter;
  /** Places that are taken, by tenant. */
  private readonly placesOf = new Map<string, number>();
  private places = 0;
  /** When a blockhash was last checked, monotonic. */
  private readonly checkedAt = new Map<string, number>();
  private readonly reasons: Record<'final' | 'expired' | 'gave-up' | 'unseen', Counter>;
  private readonly repeats: Counter;
  private scheduled = false;
  private cancel = () => {};

  constructor(parts: RebroadcastParts) {
    this.parts = parts;
    this.ended = parts.metrics.counter('rebroadcast_ended_total', 'transactions no longer repeated, by reason', [
      'reason',
    ]);
    this.reasons = {
      final: this.ended.with('final'),
      unseen: this.ended.with('unseen'),
      expired: this.ended.with('expired'),
      'gave-up': this.ended.with('gave-up'),
    };
    this.repeats = parts.metrics.counter('rebroadcasts_total', 'transmissions after the first');
    parts.metrics.observe(
      'rebroadcast_queued',
      'transactions that are neither final nor expired',
      () => this.entries.size,
    );
  }

  private schedule(): void {
    if (this.scheduled || this.entries.size === 0 || this.controller.signal.aborted) return;
    this.scheduled = true;
    this.cancel = this.parts.clock.timeout(this.parts.limits.intervalMs, () => {
      void this.round()
        .catch((error: unknown) => this.parts.log.error({ err: error }, 'a round of rebroadcasts failed'))
        .finally(() => {
          this.scheduled = false;
          this.schedule();
        });
    });
  }

  private async round(): Promise<void> {
    for (const entry of [...this.entries.values()]) {
      if (this.parts.clock.monotonic() - entry.addedAt >= this.parts.limits.maxAgeMs) this.end(entry, 'gave-up');
      else if (!entry.sender.hasKey && entry.repeats >= this.parts.limits.maxRepeatsWithoutKey)
        this.end(entry, 'unseen');
    }
    await this.dropFinal();
    await this.dropExpired();
    await this.sendAgain(inTurns([...this.entries.values()].filter(({ isInBlock }) => !isInBlock)));
  }

  private end(entry: PendingTransaction, reason: keyof typeof this.reasons): void {
    if (!this.entries.delete(entry.signature)) return;
    this.free(entry.sender);
    this.reasons[reason].add();
  }

  private async dropFinal(): Promise<void> {
    const waiting = [...this.entries.values()];
    for (let from = 0; from < waiting.length; from += STATUS_BATCH) {
      const some = waiting.slice(from, from + STATUS_BATCH);
      const statuses = await this.ask<{ value: readonly unknown[] }>('getSignatureStatuses', [
        some.map((e) => e.signature),
      ]);
      if (!Array.isArray(statuses?.value)) {
        // What a fork may have dropped meanwhile is sent again.
        for (const entry of some) entry.isInBlock = false;
        continue;
      }
      some.forEach((entry, index) => {
        const status = (statuses.value[index] ?? null) as Status | null;
        entry.isInBlock = status !== null;
        if (status !== null && isFinal(status)) this.end(entry, 'final');
      });
    }
  }

  private async dropExpired(): Promise<void> {
    const old = [...this.entries.values()].filter((entry) => this.parts.clock.monotonic() - entry.addedAt >= FRESH_MS);
    const hashes = [...new Set(old.flatMap(({ blockhash }) => (blockhash === null ? [] : [blockhash])))];
    for (const blockhash of this.checkedAt.keys()) if (!hashes.includes(blockhash)) this.checkedAt.delete(blockhash);
    hashes.sort((one, other) => (this.checkedAt.get(one) ?? -1) - (this.checkedAt.get(other) ?? -1));
    for (const blockhash of hashes.slice(0, MAX_HASHES)) {
      this.checkedAt.set(blockhash, this.parts.clock.monotonic());
      const params = [blockhash, { commitment: 'processed' }];
      const valid = await this.ask<{ value: unknown }>('isBlockhashValid', params);
      if (valid?.value !== false) continue;
      for (const entry of old) if (entry.blockhash === blockhash) this.end(entry, 'expired');
    }
  }

  /** Undefined without an answer: nothing is concluded then. */
  private async ask<T>(method: string, params: readonly unknown[]): Promise<T | undefined> {
    try {
      return await this.parts.reader?.call<T>(method, params, { signal: this.controller.signal, tenant: OWN_WORK });
    } catch {
      return undefined;
    }
  }

  private async sendAgain(list: readonly PendingTransaction[]): Promise<void> {
    const next = list[Symbol.iterator]();
    const worker = async () => {
      for (const entry of { [Symbol.iterator]: () => next }) {
        if (this.controller.signal.aborted) return;
        if (!this.entries.has(entry.signature)) continue;
        this.repeats.add();
        entry.repeats += 1;
        await this.parts.send(entry.transaction, entry.targets, entry.sender.tenant);
      }
    };
    await Promise.all(Array.from({ length: this.parts.limits.concurrency }, worker));
  }

  private tenantIdOf({ tenant }: Sender) {
    return tenant.id;
  }

  private free(sender: Sender): void {
    const name = this.tenantIdOf(sender);
    const left = (this.placesOf.get(name) ?? 1) - 1;
    this.places -= 1;
    if (left === 0) this.placesOf.delete(name);
    else this.placesOf.set(name, left);
  }

  private keep(transaction: SignedTransaction, targets: Targets, sender: Sender): void {
    const { signature, recentBlockhash } = transaction.peek;
    if (this.entries.has(signature) || this.controller.signal.aborted) {
      this.free(sender);
      return;
    }
    const blockhash = usesNonce(transaction.peek) ? null : recentBlockhash;
    const addedAt = this.parts.clock.monotonic();
    this.entries.set(signature, {
      transaction,
      targets,
      signature,
      blockhash,
      sender,
      addedAt,
      repeats: 0,
      isInBlock: false,
    });
    this.schedule();
  }

  readonly reserve: Rebroadcast['reserve'] = (signature, sender) => {
    const name = this.tenantIdOf(sender);
    const held = this.placesOf.get(name) ?? 0;
    const room = { room: this.parts.limits.maxQueued, used: this.places, holders: this.placesOf.size };
    // One that waits already needs no further place.
    if (!this.entries.has(signature) && !admits(room, held, 1)) return null;
    this.places += 1;
    this.placesOf.set(name, held + 1);
    let isOpen = true;
    const once = (work: () => void) => {
      if (isOpen) work();
      isOpen = false;
    };
    return {
      keep: (transaction, targets) => once(() => this.keep(transaction, targets, sender)),
      release: () => once(() => this.free(sender)),
    };
  };

  size(): number {
    return this.entries.size;
  }

  stop(): void {
    this.controller.abort(new Error('the sender is stopping'));
    this.cancel();
    this.entries.clear();
  }
}

export const createRebroadcast = (parts: RebroadcastParts): Rebroadcast => new Rebroadcaster(parts);

/** Senders with a key first; within both groups round-robin over the senders. */
function inTurns(list: readonly PendingTransaction[]): readonly PendingTransaction[] {
  const ordered: PendingTransaction[] = [];
  for (const hasKey of [true, false]) {
    const bySender = new Map<string, PendingTransaction[]>();
    for (const entry of list) {
      if (entry.sender.hasKey !== hasKey) continue;
      const name = entry.sender.tenant.id;
      const own = bySender.get(name);
      if (own === undefined) bySender.set(name, [entry]);
      else own.push(entry);
    }
    const queues = [...bySender.values()];
    for (let at = 0; queues.some((queue) => at < queue.length); at += 1)
      for (const queue of queues) if (at < queue.length) ordered.push(queue[at]!);
  }
  return ordered;
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
