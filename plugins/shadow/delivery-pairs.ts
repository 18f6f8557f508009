import { isPlainObject } from '../../src/lib/json.ts';
import { compareAnswers, type Difference } from './compare.ts';
import { type Rules, rulesOf } from './rules.ts';

export type Side = 'ours' | 'theirs';

/** One event as one service delivered it. */
interface Arrived {
  /** Monotonic ms. */
  readonly at: number;
  /** Milliseconds after the time of its block; null: the event has none. */
  readonly afterBlockMs: number | null;
  readonly element: unknown;
}

interface Pair {
  readonly webhook: string;
  ours: Arrived | null;
  theirs: Arrived | null;
  /** When it is forgotten; what has one side then is missing on the other. */
  readonly untilMs: number;
}

export interface WebhookDeliveries {
  readonly webhook: string;
  /** Events that both delivered. */
  readonly matched: number;
  /** Events that only the other service delivered, after the wait. */
  readonly missingHere: number;
  readonly missingThere: number;
  /** Further deliveries of an event. */
  readonly doubledHere: number;
  readonly doubledThere: number;
  /** Matched events whose content differs. */
  readonly different: number;
  /** Matched events that arrived later than the other one by more than the allowed time. */
  readonly laterHere: number;
  readonly laterThere: number;
  /** Milliseconds from their delivery to ours: negative when ours came first. Null: nothing matched. */
  readonly medianLeadMs: number | null;
  /** After the block; null where events have no time. */
  readonly p95HereMs: number | null;
  readonly p95ThereMs: number | null;
  /** Members that differ, the most frequent first. */
  readonly members: readonly { readonly path: string; readonly kind: string; readonly count: number }[];
}

export interface DeliveryPairsOptions {
  /** How long the other delivery may take. */
  readonly waitMs: number;
  /** From this difference on one of two is later. */
  readonly laterMs: number;
}

/** Events that wait for their counterpart; beyond that the oldest counts as missing. */
const MAX_PAIRS = 50_000;
const MAX_SAMPLES = 10_000;
const MAX_MEMBERS = 200;
/** Members that only one of the two services adds to a transaction. */
const ADDED = ['indexWithinBlock', 'version'];

/** Deliveries of the same webhooks by two services, matched by webhook and signature. */
export class DeliveryPairs {
  readonly #options: DeliveryPairsOptions;
  readonly #pairs = new Map<string, Pair>();
  readonly #webhooks = new Map<string, Tally>();
  readonly #rules: Rules;
  /** Deliveries without a signature, such as messages for Discord. */
  unreadable = 0;

  constructor(options: DeliveryPairsOptions) {
    this.#options = options;
    const rules = rulesOf('POST /v0/transactions', []);
    this.#rules = { ...rules, oneSided: [...rules.oneSided, ...ADDED] };
  }

  /** A request of one service. `nowMs`: Unix ms; `at`: monotonic. */
  take(
    side: Side,
    webhook: string,
    body: unknown,
    { nowMs, at }: { readonly nowMs: number; readonly at: number },
  ): void {
    for (const element of Array.isArray(body) ? (body as unknown[]) : [body]) {
      const signature = signatureOf(element);
      if (signature === null) this.unreadable += 1;
      else this.#one(side, webhook, signature, { at, afterBlockMs: afterBlock(element, nowMs), element });
    }
    this.expire(at);
  }

  #one(side: Side, webhook: string, signature: string, arrived: Arrived): void {
    const tally = this.#tally(webhook);
    const key = `${webhook} ${signature}`;
    const pair = this.#pairs.get(key) ?? {
      webhook,
      ours: null,
      theirs: null,
      untilMs: arrived.at + this.#options.waitMs,
    };
    this.#pairs.set(key, pair);
    if (pair[side] !== null) {
      tally.doubled[side] += 1;
      return;
    }
    pair[side] = arrived;
    if (arrived.afterBlockMs !== null) keep(tally.afterBlock[side], arrived.afterBlockMs);
    const { ours, theirs } = pair;
    if (ours === null || theirs === null) return;
    tally.matched += 1;
    keep(tally.leads, ours.at - theirs.at);
    if (ours.at - theirs.at > this.#options.laterMs) tally.later.ours += 1;
    if (theirs.at - ours.at > this.#options.laterMs) tally.later.theirs += 1;
    const found = compareAnswers(answerOf(ours), answerOf(theirs), this.#rules, 0);
    if (found.length > 0) tally.differ(found);
    // What is compared is no longer needed; the pair stays to notice a double.
    pair.ours = { ...ours, element: null };
    pair.theirs = { ...theirs, element: null };
  }

  /** Ends the wait of what is due. */
  expire(at: number): void {
    for (const [key, pair] of this.#pairs) {
      if (pair.untilMs > at && this.#pairs.size <= MAX_PAIRS) break;
      this.#pairs.delete(key);
      if (pair.ours === null) this.#tally(pair.webhook).missing.ours += 1;
      if (pair.theirs === null) this.#tally(pair.webhook).missing.theirs += 1;
    }
  }

  /** Events that have arrived from one service only and still wait. */
  get open(): number {
    return [...this.#pairs.values()].filter(({ ours, theirs }) => ours === null || theirs === null).length;
  }

  report(): WebhookDeliveries[] {
    return [...this.#webhooks].map(([webhook, tally]) => ({
      webhook,
      matched: tally.matched,
      missingHere: tally.missing.ours,
      missingThere: tally.missing.theirs,
      doubledHere: tally.doubled.ours,
      doubledThere: tally.doubled.theirs,
      different: tally.different,
      laterHere: tally.later.ours,
      laterThere: tally.later.theirs,
      medianLeadMs: quantile(tally.leads, 0.5),
      p95HereMs: quantile(tally.afterBlock.ours, 0.95),
      p95ThereMs: quantile(tally.afterBlock.theirs, 0.95),
      members: [...tally.members.values()].sort((a, b) => b.count - a.count),
    }));
  }

  #tally(webhook: string): Tally {
    const known = this.#webhooks.get(webhook) ?? new Tally();
    this.#webhooks.set(webhook, known);
    return known;
  }
}

class Tally {
  matched = 0;
  different = 0;
  readonly missing = { ours: 0, theirs: 0 };
  readonly doubled = { ours: 0, theirs: 0 };
  readonly later = { ours: 0, theirs: 0 };
  readonly leads: number[] = [];
  readonly afterBlock = { ours: [] as number[], theirs: [] as number[] };
  readonly members = new Map<string, { path: string; kind: string; count: number }>();

  differ(found: readonly Difference[]): void {
    this.different += 1;
    for (const key of new Set(found.map(({ path, kind }) => `${kind} ${path}`))) {
      const [kind = '', path = ''] = [key.slice(0, key.indexOf(' ')), key.slice(key.indexOf(' ') + 1)];
      const member = this.members.get(key) ?? { path, kind, count: 0 };
      member.count += 1;
      if (this.members.size < MAX_MEMBERS) this.members.set(key, member);
    }
  }
}

const answerOf = ({ element }: Arrived) => ({ status: 200, value: element });

function keep(samples: number[], value: number): void {
  samples.push(value);
  if (samples.length > MAX_SAMPLES) samples.shift();
}

function quantile(samples: readonly number[], share: number): number | null {
  if (samples.length === 0) return null;
  const sorted = [...samples].sort((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!);
}

/** The signature in an enhanced or parsed element, or in a transaction as a node returns it. */
function signatureOf(element: unknown): string | null {
  if (!isPlainObject(element)) return null;
  const { signature, transaction } = element;
  if (typeof signature === 'string') return signature;
  const list = isPlainObject(transaction) ? transaction['signatures'] : null;
  const [first] = Array.isArray(list) ? (list as unknown[]) : [];
  return typeof first === 'string' ? first : null;
}

function afterBlock(element: unknown, nowMs: number): number | null {
  const { timestamp, blockTime } = element as Record<string, unknown>;
  const seconds = Number(timestamp ?? blockTime ?? Number.NaN);
  return Number.isFinite(seconds) ? nowMs - seconds * 1_000 : null;
}
