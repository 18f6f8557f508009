/** What was answered and sent and costs something, against what the store counts of it. */
import type { Store } from '../../../src/ports/store.ts';
import { countedOf, type Failing, outside, unwrittenSince } from '../../helpers/usage-bounds.ts';
import type { Request } from '../webhooks/network.ts';
import type { ApiAnswer } from './client.ts';
import { pairsOf } from './hook-book.ts';

/** `free` ones are of another product. */
export type CallKind = 'wallet' | 'write' | 'list' | 'free';

/** Usage is written so often; what was answered since the last time may be lost with the process. */
const FLUSH_MS = 1_000;
const SLACK_MS = 200;
/** Outcomes of deliveries that could not be written are tried again after such a pause at most, and cost something only then. */
const LONGEST_PAUSE_MS = 5_000;
const CREDITS = { wallet: 100, write: 100 } as const;

export interface ProcessEnd {
  /** Of the clock that never jumps. */
  readonly atMs: number;
  /** It stopped in order, and its last writes did not fail. */
  readonly isClean: boolean;
  readonly failing: Failing | null;
}

export interface UsageBook {
  note(kind: CallKind, answer: ApiAnswer): void;
  /** What the end of a process has taken must be little and new. In words what is wrong. */
  processEnded(store: Store, end: ProcessEnd): Promise<string | null>;
  endFault(store: Store): Promise<string | null>;
}

/** `requests`: all that receivers got; the book sees them grow. */
export function createUsageBook(requests: readonly Request[]): UsageBook {
  const answered: { readonly kind: CallKind; readonly atMs: number }[] = [];
  const unknown = { wallet: 0, write: 0, list: 0, free: 0 };
  /** What may have gone with the processes that held it: each of them takes what was new. */
  const mayBeLost = { write: 0, list: 0, events: 0 };
  /** Wallet calls that the store does not hold, and calls without an answer that it does. */
  let lost = 0;
  let extra = 0;
  /** Wallet calls that were answered 503: one that started an index is charged all the same. */
  let started = 0;
  const count = (kind: CallKind, sinceMs = 0) =>
    answered.filter((one) => one.kind === kind && one.atMs >= sinceMs).length;

  async function walletsFault(store: Store): Promise<string | null> {
    const { requests, credits } = await countedOf(store, 'walletApi');
    const wanted = count('wallet') - lost + extra;
    // What of them is in `extra` already came with the end of a process.
    if (requests < wanted || requests > wanted + Math.max(0, started - extra))
      return `${requests} wallet calls are counted and not ${wanted} (${lost} lost, ${extra} unanswered)`;
    return credits === requests * CREDITS.wallet
      ? null
      : `${requests} wallet calls are counted with ${credits} credits`;
  }

  /**
   * Deliveries are counted with the calls of this product. Each pair of webhook and transaction costs one credit, however often and in
   * whichever messages it was sent: when the outcome of its first attempt is written. Where nothing may be lost or unknown, the bounds meet,
   * except for what was only ever sent in attempts that were given up on the way.
   */
  async function webhooksFault(store: Store): Promise<string | null> {
    const counted = await countedOf(store, 'webhooks');
    const ended = pairsOf(requests.filter(({ status }) => status !== null)).size;
    const least = { writes: count('write') - mayBeLost.write, lists: count('list') - mayBeLost.list };
    const events = Math.max(0, ended - mayBeLost.events);
    const most = { writes: count('write') + unknown.write, lists: count('list') + unknown.list };
    const tried = pairsOf(requests).size;
    const calls = [least.writes + least.lists + events, most.writes + most.lists + tried] as const;
    const credits = [CREDITS.write * least.writes + events, CREDITS.write * most.writes + tried] as const;
    return (
      outside('calls of webhooks', counted.requests, calls) ?? outside('credits of webhooks', counted.credits, credits)
    );
  }

  function loseSince(sinceMs: number, eventsSinceMs: number): void {
    mayBeLost.write += count('write', sinceMs);
    mayBeLost.list += count('list', sinceMs);
    mayBeLost.events += pairsOf(requests.filter(({ endedMs }) => endedMs === null || endedMs >= eventsSinceMs)).size;
  }

  return {
    note(kind, { status, atMs }) {
      if (status === null) unknown[kind] += 1;
      else if (kind === 'wallet' && status === 503) started += 1;
      else if (status === 200) answered.push({ kind, atMs });
    },
    async processEnded(store, { atMs, isClean, failing }) {
      const sinceMs = unwrittenSince(atMs, failing, FLUSH_MS + SLACK_MS);
      if (!isClean) loseSince(sinceMs, unwrittenSince(atMs, failing, FLUSH_MS + SLACK_MS, LONGEST_PAUSE_MS));
      const wallets = await countedOf(store, 'walletApi');
      const missing = count('wallet') - lost + extra - wallets.requests;
      if (missing < 0) {
        extra -= missing;
        return extra > unknown.wallet + started ? `${-missing} wallet calls are counted twice` : null;
      }
      lost += missing;
      if (isClean) return missing === 0 ? null : `${missing} wallet calls were lost in an orderly stop`;
      const recent = count('wallet', sinceMs);
      return missing <= recent ? null : `${missing} wallet calls were lost, and ${recent} of them were new`;
    },
    endFault: async (store) => (await walletsFault(store)) ?? (await webhooksFault(store)),
  };
}
