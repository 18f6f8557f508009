import type { ChainBlock } from '../ports/block.ts';
import type { AddressEntry, AskOptions, HistoryRange, KeptHistory, NodeAddressHistory } from '../ports/chain.ts';
import { prepareBlock } from './commit.ts';
import type { FillMember, FillOptions, FillOutcome } from './fill-blocks.ts';
import { finishFills, moveFills } from './gap-fills.ts';
import type { GapRecord } from './gap-records.ts';

/** Maximum of signatures of one gap in memory; a gap with more cannot be filled in this mode. */
const MAX_SIGNATURES = 250_000;
const PAUSE_MS = 1_000;

/**
 * Fills a gap whose blocks are gone with the transactions of the addresses that its processors watch, or one that wants only those of
 * some addresses. Only when all addresses are finished it counts as filled. `pruned` says why blocks cannot be had; null when the gap
 * names its addresses. Errors: FOLLOW_GAP_TAKEN, those of source, store and processors.
 */
export async function fillAddresses(
  options: FillOptions,
  gap: GapRecord,
  members: readonly FillMember[],
  pruned: string | null,
): Promise<FillOutcome> {
  const { follow, source, store, exclusive, clock, log, chain } = options;
  const { history } = source;
  const able = members.filter(({ processor }) => processor.addresses !== undefined);
  const isAllowed = pruned === null || follow.gapBackfill.addressMode;
  const why = pruned === null ? '' : `${pruned}, and `;
  if (!isAllowed || history === undefined || able.length === 0)
    return {
      kind: 'stuck',
      reason: pruned ?? 'transactions of single addresses are not available, or no processor accepts them',
    };
  const addresses = gap.addresses ?? (await addressesOf(options, able));
  if (addresses === null)
    return {
      kind: 'stuck',
      reason: `${why}more than ${follow.gapBackfill.maxAddresses} addresses are watched (follow.gapBackfill.maxAddresses)`,
    };
  log.info({ chain, gap: gap.id, addresses: addresses.length }, 'filling a gap by addresses');
  const slots = await slotsOf(options, history, gap, addresses);
  if (slots === null) return { kind: 'stuck', reason: `${why}there are too many transactions to request one by one` };
  const trouble = await applySlots(options, history, gap, able, slots);
  if (trouble !== null) return { kind: 'stuck', reason: trouble };
  const owners = able.map(({ fill }) => fill);
  const isFilled = await exclusive(() => store.write((tx) => finishFills(tx, gap, owners, clock.now())));
  options.filled({ blocks: 0, slots: gap.toSlot - gap.fromSlot + 1 });
  return { kind: isFilled ? 'filled' : 'more' };
}

/** Null when there are more than allowed. */
async function addressesOf(options: FillOptions, members: readonly FillMember[]): Promise<readonly string[] | null> {
  const { maxAddresses } = options.follow.gapBackfill;
  const all = new Set<string>();
  for (const { processor } of members) {
    const own = (await processor.addresses?.(options.store.read, options.chain, maxAddresses + 1)) ?? [];
    for (const address of own) all.add(address);
    if (all.size > maxAddresses) return null;
  }
  return [...all];
}

/** The signatures of each slot, both in the order of the chain as far as it is known; null when there are too many. */
async function slotsOf(
  options: FillOptions,
  history: NodeAddressHistory,
  gap: GapRecord,
  addresses: readonly string[],
): Promise<ReadonlyMap<number, readonly string[]> | null> {
  const { source, signal } = options;
  const found = new Map<string, number>();
  const range = { fromSlot: gap.fromSlot, toSlot: gap.toSlot, most: MAX_SIGNATURES };
  for (const address of addresses) {
    const ask = { commitment: 'finalized', signal } as const;
    if (!(await collectHistory(history, source.upstreamCount(), address, range, ask, found))) return null;
    await unhindered(options);
  }
  const slots = new Map<number, string[]>();
  // Pages are newest first.
  for (const [signature, slot] of [...found].reverse()) {
    const known = slots.get(slot);
    if (known === undefined) slots.set(slot, [signature]);
    else known.push(signature);
  }
  return new Map([...slots].sort(([a], [b]) => a - b));
}

/** Returns why it ended early, or null. */
async function applySlots(
  options: FillOptions,
  history: NodeAddressHistory,
  gap: GapRecord,
  members: readonly FillMember[],
  slots: ReadonlyMap<number, readonly string[]>,
): Promise<string | null> {
  const { signal } = options;
  let current = members;
  for (const [slot, signatures] of slots) {
    if (slot <= (current[0]?.fill.position?.slot ?? -1)) continue;
    await unhindered(options);
    const block = await history.partialBlock(slot, signatures, { commitment: 'finalized', signal });
    if (!(await options.source.confirmChain(signal))) return 'no upstream is confirmed to serve this chain';
    if (block === null) return `an upstream lists transactions of slot ${slot} that no upstream has`;
    current = await applyOne(options, gap, current, block);
  }
  return null;
}

async function applyOne(
  { store, exclusive, chain, filled }: FillOptions,
  gap: GapRecord,
  members: readonly FillMember[],
  block: ChainBlock,
): Promise<readonly FillMember[]> {
  const position = { slot: block.slot, blockhash: '' };
  const fills = members.map(({ fill }) => fill);
  await prepareBlock(
    members.map(({ processor }) => processor),
    block,
    chain,
  );
  await exclusive(() =>
    store.write(async (tx) => {
      await moveFills(tx, gap, fills, position);
      for (const { processor } of members) await processor.apply(tx, block, chain, { isFinal: true });
    }),
  );
  filled({ blocks: 1, slots: 0 });
  return members.map(({ processor, fill }) => ({ processor, fill: { ...fill, position } }));
}

/** Waits here, because leaving would lose what was collected. */
async function unhindered({ hindrance, clock, signal }: FillOptions): Promise<void> {
  while (hindrance() !== null) await clock.sleep(PAUSE_MS, signal);
  signal.throwIfAborted();
}

/** Nodes order the transactions of one slot differently, and late ones come in below: so many slots are read twice. */
const OVERLAP_SLOTS = 32;
const PAGE_ENTRIES = 1_000;

/**
 * Adds the transactions of a range that mention an address to `found`, by signature: first what is known without an upstream, then pages,
 * from the newest down until one is empty at every upstream, or lies wholly below the range. False when there are more than `most`.
 * Errors: those of `page`.
 */
export async function collectHistory(
  history: NodeAddressHistory,
  upstreamCount: number,
  address: string,
  range: HistoryRange,
  ask: AskOptions,
  found: Map<string, number>,
): Promise<boolean> {
  const used = new Set<string | null>();
  const kept = (await history.kept?.(address, range)) ?? null;
  for (const { signature, slot } of kept?.entries ?? []) found.set(signature, slot);
  if (found.size > range.most) return false;
  if (kept !== null && kept.from <= range.fromSlot) return true;
  let before = kept === null ? null : startBelow(kept);
  for (;;) {
    used.add(before);
    const entries = await pageOf(history, upstreamCount, address, before, ask);
    for (const { signature, slot } of entries)
      if (slot >= range.fromSlot && slot < (kept?.from ?? range.toSlot + 1)) found.set(signature, slot);
    if (found.size > range.most) return false;
    if (entries.every(({ slot }) => slot < range.fromSlot - OVERLAP_SLOTS)) return true;
    const next = nextBefore(entries, used);
    if (next === null) return true;
    before = next;
  }
}

const startBelow = ({ from, entries }: KeptHistory): string | null =>
  entries.findLast(({ slot }) => slot >= from + OVERLAP_SLOTS)?.signature ?? null;

/** An empty page is the end only when every upstream says so: a node without the history behind `before` answers the same. */
async function pageOf(
  history: NodeAddressHistory,
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
