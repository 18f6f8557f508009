import type { ChainReader, Clock, Log, Metrics } from '../../src/plugin/plugin.ts';
import type { Counter } from '../../src/ports/metrics.ts';
import type { Targets } from './broadcast.ts';
import { type SignedTransaction, usesNonce } from './transaction.ts';

/** Sends accepted transactions again until the chain has them or can not have them any more. */
export interface Rebroadcast {
  hasRoom(signature: string): boolean;
  /** Repetitions go where the first transmission went. */
  add(transaction: SignedTransaction, targets: Targets): void;
  size(): number;
  stop(): void;
}

export interface RebroadcastParts {
  /** Null: nobody can tell whether a transaction was seen, so each is repeated until it is too old. */
  readonly reader: ChainReader | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly intervalMs: number;
  readonly maxQueued: number;
  readonly maxAgeMs: number;
  readonly concurrency: number;
  /** Never throws. */
  send(transaction: SignedTransaction, targets: Targets): Promise<void>;
}

interface Entry {
  readonly transaction: SignedTransaction;
  readonly targets: Targets;
  readonly signature: string;
  /** Null for a transaction that lives by a nonce. */
  readonly blockhash: string | null;
  readonly addedAt: number;
}

/** What a node takes in one call of getSignatureStatuses. */
const STATUS_BATCH = 256;
/** Blockhashes asked about in one round; the others wait for the next. */
const MAX_HASHES = 64;
/** A node that lags may not know a fresh blockhash yet: younger transactions are not dropped for it. */
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
  const repeats = parts.metrics.counter('rebroadcasts_total', 'transmissions beside the first');
  parts.metrics.observe('rebroadcast_queued', 'transactions that wait to be seen', () => entries.size);
  let scheduled = false;
  let cancel = () => {};

  function schedule(): void {
    if (scheduled || entries.size === 0 || controller.signal.aborted) return;
    scheduled = true;
    cancel = clock.timeout(parts.intervalMs, () => {
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
      if (clock.monotonic() - entry.addedAt >= parts.maxAgeMs) end(entry, 'gave-up');
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

  /** Undefined when the chain does not answer: then nothing is concluded. */
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
    await Promise.all(Array.from({ length: parts.concurrency }, worker));
  }

  return {
    hasRoom: (signature) => entries.size < parts.maxQueued || entries.has(signature),
    add(transaction, targets) {
      const { signature, recentBlockhash } = transaction.peek;
      if (entries.has(signature)) return;
      const blockhash = usesNonce(transaction.peek) ? null : recentBlockhash;
      entries.set(signature, { transaction, targets, signature, blockhash, addedAt: clock.monotonic() });
      schedule();
    },
    size: () => entries.size,
    stop() {
      controller.abort(new Error('the sender stops'));
      cancel();
      entries.clear();
    },
  };
}
