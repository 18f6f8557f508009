import { createSeededRandom } from '../seeded-random.ts';
import type { FaultLogEntry, FaultMatch, FaultRule, Faults } from './rule.ts';

const MAX_LOG = 10_000;
const SOCKET_ACTIONS = new Set(['wsDrop', 'wsSilent', 'wsSkipSlots', 'wsHalf', 'wsNoPong']);

/** What a rule is held against. */
export interface FaultSubject {
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
