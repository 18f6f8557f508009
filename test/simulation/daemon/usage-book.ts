/** Calls that were answered and cost something, against what the store counts of them. */
import type { Store } from '../../../src/ports/store.ts';
import type { ApiAnswer } from './client.ts';

/** `free` ones are of another product. */
export type CallKind = 'wallet' | 'write' | 'list' | 'free';

/** Usage is written so often; what was answered since the last time may be lost with the process. */
const FLUSH_MS = 1_000;
const SLACK_MS = 200;
const CREDITS = { wallet: 100, write: 100 } as const;

export interface ProcessEnd {
  /** Of the clock that never jumps. */
  readonly atMs: number;
  /** It stopped in order, and its last writes did not fail. */
  readonly isClean: boolean;
  /** Since when writes fail, if they do. */
  readonly failingSinceMs: number | null;
}

export interface UsageBook {
  note(kind: CallKind, answer: ApiAnswer): void;
  /** What the end of a process has taken must be little and new. In words what is wrong. */
  processEnded(store: Store, end: ProcessEnd): Promise<string | null>;
  /** `tried`: how many deliveries the messages had that were sent, however often. */
  endFault(store: Store, tried: number): Promise<string | null>;
}

interface Counted {
  readonly requests: number;
  readonly credits: number;
}

export function createUsageBook(): UsageBook {
  const answered: { readonly kind: CallKind; readonly atMs: number }[] = [];
  const unknown = { wallet: 0, write: 0, list: 0, free: 0 };
  /** Wallet calls that the store does not hold, and calls without an answer that it does. */
  let lost = 0;
  let extra = 0;
  let isLossless = true;
  const count = (kind: CallKind) => answered.filter((one) => one.kind === kind).length;

  async function walletsFault(store: Store): Promise<string | null> {
    const { requests, credits } = await countedOf(store, 'walletApi');
    const wanted = count('wallet') - lost + extra;
    if (requests !== wanted)
      return `${requests} wallet calls are counted and not ${wanted} (${lost} lost, ${extra} unanswered)`;
    return credits === requests * CREDITS.wallet
      ? null
      : `${requests} wallet calls are counted with ${credits} credits`;
  }

  /** Deliveries are counted with the calls of this product, each with one credit for its first attempt. */
  async function webhooksFault(store: Store, tried: number): Promise<string | null> {
    const { requests, credits } = await countedOf(store, 'webhooks');
    const calls = count('write') + count('list');
    const most = CREDITS.write * (count('write') + unknown.write) + tried;
    if (credits > most) return `${credits} credits of webhooks are counted, ${most} at most were spent`;
    if (requests > calls + unknown.write + unknown.list + tried) return `${requests} calls of webhooks are counted`;
    if (!isLossless || unknown.write + unknown.list > 0) return null;
    const deliveries = requests - calls;
    const wanted = CREDITS.write * count('write') + deliveries;
    return credits === wanted && deliveries >= 0
      ? null
      : `${credits} credits of webhooks are counted and not ${wanted}`;
  }

  return {
    note(kind, { status, atMs }) {
      if (status === null) unknown[kind] += 1;
      else if (status === 200) answered.push({ kind, atMs });
    },
    async processEnded(store, { atMs, isClean, failingSinceMs }) {
      const { requests } = await countedOf(store, 'walletApi');
      const missing = count('wallet') - lost + extra - requests;
      if (missing < 0) {
        extra -= missing;
        return extra > unknown.wallet ? `${-missing} wallet calls are counted twice` : null;
      }
      lost += missing;
      isLossless &&= isClean;
      if (isClean) return missing === 0 ? null : `${missing} wallet calls were lost in an orderly stop`;
      // What waited to be written when writing began to fail still does.
      const since = Math.min(atMs, failingSinceMs ?? atMs) - FLUSH_MS - SLACK_MS;
      const recent = answered.filter((one) => one.kind === 'wallet' && one.atMs >= since).length;
      return missing <= recent ? null : `${missing} wallet calls were lost, and ${recent} of them were new`;
    },
    endFault: async (store, tried) => (await walletsFault(store)) ?? (await webhooksFault(store, tried)),
  };
}

async function countedOf(store: Store, product: string): Promise<Counted> {
  const rows = await store.read.selectFrom('usage_days').selectAll().where('product', '=', product).execute();
  const sum = (column: 'requests' | 'credits') => rows.reduce((all, row) => all + Number(row[column]), 0);
  return { requests: sum('requests'), credits: sum('credits') };
}
