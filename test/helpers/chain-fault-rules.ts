import { createSeededRandom } from '../../packages/local-chain/in-process.ts';
import type { ForkRequest } from '../../packages/local-chain/ledger/state.ts';

const MAX_LOG = 10_000;
const SOCKET_ACTIONS = new Set(['wsDrop', 'wsSilent', 'wsSkipSlots', 'wsHalf', 'wsNoPong']);

/** What a rule is held against. */
interface FaultSubject {
  readonly method: string | null;
  readonly slot: number | null;
  readonly subscription: string | null;
  readonly item: number;
  readonly client: string;
}

export type FaultEngine = ReturnType<typeof createFaultEngine>;

/** Holds the rules and decides which of them fires; draws come from the script's seed, so that a run can be repeated. */
export function createFaultEngine(nowMs: () => number) {
  let rules: { readonly rule: FaultRule; readonly name: string; matched: number; fired: number }[] = [];
  let random = createSeededRandom(0);
  let entries: FaultLogEntry[] = [];

  function pick(subject: FaultSubject): FaultRule | null {
    for (const item of rules) {
      const { rule } = item;
      if (!applies(rule, subject) || item.fired >= (rule.times ?? Number.POSITIVE_INFINITY)) continue;
      item.matched += 1;
      if (item.matched <= (rule.after ?? 0) || random() >= (rule.rate ?? 1)) continue;
      item.fired += 1;
      const { method, subscription, slot } = subject;
      entries.push({ atMs: nowMs(), rule: item.name, action: rule.action, method, subscription, slot });
      if (entries.length > MAX_LOG) entries = entries.slice(-MAX_LOG / 2);
      return rule;
    }
    return null;
  }
  const faults: Faults = {
    set(script) {
      const { rules: list, seed = 0 } = 'rules' in script ? script : { rules: script };
      rules = list.map((rule, index) => ({ rule, name: rule.id ?? `rule-${index}`, matched: 0, fired: 0 }));
      random = createSeededRandom(seed);
    },
    clear() {
      rules = [];
    },
    log: () => [...entries],
  };
  return { faults, pick, random: (): number => random(), isIdle: (): boolean => rules.length === 0 };
}

function applies(rule: FaultRule, subject: FaultSubject): boolean {
  const match: FaultMatch = rule.match ?? {};
  const forSocket = SOCKET_ACTIONS.has(rule.action) || match.subscription !== undefined;
  if (forSocket !== (subject.subscription !== null)) return false;
  // Pings belong to no subscription: only the one action about them is asked for them.
  if ((rule.action === 'wsNoPong') !== (subject.subscription === 'ping')) return false;
  return (
    (match.method === undefined || match.method === subject.method) &&
    (match.slot === undefined || match.slot === subject.slot) &&
    (match.slots === undefined || inside(match.slots, subject.slot)) &&
    (match.subscription === undefined || match.subscription === subject.subscription) &&
    (match.item === undefined || match.item === subject.item) &&
    (match.client === undefined || subject.client.includes(match.client))
  );
}

function inside([from, to]: readonly [number, number], slot: number | null): boolean {
  return slot !== null && slot >= from && slot <= to;
}

/** What a rule applies to; all given fields must agree. */
interface FaultMatch {
  readonly method?: string;
  /** First parameter of the call. */
  readonly slot?: number;
  /** First and last slot, both included. */
  readonly slots?: readonly [number, number];
  /** Kind of a notification, such as `slot` or `logs`. */
  readonly subscription?: string;
  /** Index in a batch; 0 for a single call. */
  readonly item?: number;
  /** Part of the User-Agent. */
  readonly client?: string;
}

/** What happens to the HTTP exchange as a whole. */
type TransportFault =
  | { readonly action: 'latency'; readonly ms: number; readonly jitterMs?: number; readonly afterHeaders?: boolean }
  | {
      readonly action: 'status';
      readonly status: number;
      readonly retryAfter?: number;
      readonly body?: 'json' | 'html' | 'text' | 'empty';
    }
  | { readonly action: 'truncate'; readonly bytes: number; readonly mode?: 'close' | 'clean' | 'chunked' }
  | { readonly action: 'garbage'; readonly form?: 'contentType' | 'text' | 'bom' | 'trailing' }
  | { readonly action: 'oversize'; readonly bytes: number }
  | { readonly action: 'reset'; readonly during?: boolean }
  | { readonly action: 'hang' | 'noBatch' };

/** What happens to the answer of one call. */
type AnswerFault =
  | { readonly action: 'rpcError'; readonly code: number; readonly message?: string }
  | {
      readonly action:
        | 'wrongSkip'
        | 'notYet'
        | 'nullBlock'
        | 'wrongHash'
        | 'nullBlockTime'
        | 'nullMeta'
        | 'shuffleSlot';
    }
  | { readonly action: 'hideSlots'; readonly hidden: readonly number[] }
  | { readonly action: 'wrongParent' | 'tipBack'; readonly by?: number }
  | { readonly action: 'dropTx' | 'missingSignature'; readonly index?: number }
  | { readonly action: 'rollback'; readonly fork: ForkRequest }
  | { readonly action: 'lag'; readonly slots: number }
  | { readonly action: 'pruned'; readonly first: number };

/** What happens to the order: calls of a batch, parallel single calls, or notifications. */
type OrderFault =
  | { readonly action: 'duplicate' }
  /** Holds `window` calls or notifications and lets them go in reverse. */
  | { readonly action: 'outOfOrder'; readonly window?: number };

/** What happens to a WebSocket when a notification is due. */
type SocketFault =
  | { readonly action: 'wsDrop'; readonly code?: number }
  | { readonly action: 'wsSilent' | 'wsSkipSlots' | 'wsHalf' | 'wsNoPong' };

export type FaultRule = {
  readonly id?: string;
  readonly match?: FaultMatch;
  /** Leaves the first matches alone. */
  readonly after?: number;
  /** Fires so often and then no more. */
  readonly times?: number;
  /** Chance of each match, 0 to 1. */
  readonly rate?: number;
} & (TransportFault | AnswerFault | OrderFault | SocketFault);

export interface FaultScript {
  readonly seed?: number;
  readonly rules: readonly FaultRule[];
}

/** One firing. */
interface FaultLogEntry {
  readonly atMs: number;
  readonly rule: string;
  readonly action: string;
  readonly method: string | null;
  readonly subscription: string | null;
  readonly slot: number | null;
}

export interface Faults {
  /** Replaces all rules. */
  set(rules: FaultScript | readonly FaultRule[]): void;
  clear(): void;
  /** Firings, oldest first; at most the last 10,000. */
  log(): readonly FaultLogEntry[];
}
