import type { AddressEntry, AddressHistory, AskOptions } from '../../../ports/chain.ts';

export interface HistoryRange {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** Signatures of the range beyond which it is given up. */
  readonly most: number;
}

/** Nodes order the transactions of one slot differently, and late ones come in below: so many slots are read twice. */
const OVERLAP_SLOTS = 32;
const PAGE_ENTRIES = 1_000;

/**
 * Adds the transactions of a range that mention an address to `found`, by signature. Pages are read from the newest down until one is
 * empty at every upstream, or lies wholly below the range. False when there are too many. Errors: those of `page`.
 */
export async function collectHistory(
  history: AddressHistory,
  upstreamCount: number,
  address: string,
  range: HistoryRange,
  ask: AskOptions,
  found: Map<string, number>,
): Promise<boolean> {
  const used = new Set<string | null>();
  let before: string | null = null;
  for (;;) {
    used.add(before);
    const entries = await pageOf(history, upstreamCount, address, before, ask);
    for (const { signature, slot } of entries)
      if (slot >= range.fromSlot && slot <= range.toSlot) found.set(signature, slot);
    if (found.size > range.most) return false;
    if (entries.every(({ slot }) => slot < range.fromSlot - OVERLAP_SLOTS)) return true;
    const next = nextBefore(entries, used);
    if (next === null) return true;
    before = next;
  }
}

/** An empty page is the end only when every upstream says so: a node without the history behind `before` answers the same. */
async function pageOf(
  history: AddressHistory,
  upstreamCount: number,
  address: string,
  before: string | null,
  ask: AskOptions,
): Promise<readonly AddressEntry[]> {
  const avoid: string[] = [];
  while (avoid.length < Math.max(1, upstreamCount)) {
    const page = await history.page(address, { before, limit: PAGE_ENTRIES }, { ...ask, avoid });
    if (page.entries.length > 0) return page.entries;
    avoid.push(page.upstream);
  }
  return [];
}

/**
 * Where the next page begins: some slots above the end of this one, where that leads on. Each signature serves once, because orders that
 * differ can lead in a circle; null when all have.
 */
function nextBefore(entries: readonly AddressEntry[], used: ReadonlySet<string | null>): string | null {
  const lowest = Math.min(...entries.map(({ slot }) => slot));
  const candidates = [
    entries.findLast(({ slot }) => slot >= lowest + OVERLAP_SLOTS),
    entries.findLast(({ slot }) => slot > lowest),
    ...entries.toReversed(),
  ];
  return candidates.find((entry) => entry !== undefined && !used.has(entry.signature))?.signature ?? null;
}
