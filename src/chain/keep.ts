import { decode32 } from '../lib/base58.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { AddressEntry, ChainSource, HistoryRange, KeptHistory } from '../ports/chain.ts';
import type { LedgerReader } from '../ports/ledger.ts';
import { type BlockPosition, readHeaders, readMarks } from './cursor.ts';
import type { KeptFirst } from './fetch.ts';
import type { Run } from './run.ts';
import { LEDGER } from './state.ts';

/** The ledger next to the store: a block is in the ledger before it is in the store, so after a crash the ledger can only be ahead. */

/** Longer ranges are listed by upstreams. */
const LONGEST_LIST_SLOTS = 10_000;

/**
 * Opens the ledger and cuts off blocks that are neither final nor stored headers. If the newest final block is not a stored header either,
 * an upstream must confirm it; otherwise the whole ledger is discarded. Errors: LEDGER_IO, LEDGER_FULL, those of store and source.
 */
export async function openKeptBlocks(run: Run): Promise<void> {
  const { state, store, chain, source, signal, log } = run;
  state.ledger ??= (await run.openLedger?.()) ?? null;
  const { ledger } = state;
  if (ledger === null) return;
  const stored = await readHeaders(store.read, chain, 0);
  const hashes = new Map(stored.map(({ slot, blockhash }) => [slot, blockhash]));
  const isStored = async (slot: number) => {
    const hash = hashes.get(slot);
    return hash !== undefined && (await ledger.header(slot))?.blockhash === hash;
  };
  let slot = ledger.newest();
  while (slot > ledger.finalSlot && !(await isStored(slot))) slot = ledger.newest(slot - 1);
  await ledger.cut(slot);
  if (slot < 0) return;
  if (await isStored(slot)) {
    const marks = await readMarks(store.read, chain);
    return await ledger.finalize(Math.min(slot, marks?.finalizedSlot ?? -1));
  }
  const ours = await ledger.header(slot);
  const theirs = await source.header(slot, { commitment: 'finalized', signal });
  if (ours !== null && theirs?.blockhash === ours.blockhash) return;
  log.error({ chain, slot }, 'no upstream confirms the newest final block of the ledger: the ledger is discarded');
  await ledger.cut(-1, true);
}

/** Blocks behind the next one that are looked at, to begin with their encoding. */
const MAX_AHEAD = 32;

/**
 * While the chain catches up, blocks that continue the next one wait in the buffer: the ledger encodes them on other threads. What does not
 * continue it, as the blocks of a stream at the tip, is not appended for long.
 */
export function prepareNext({ state: { ledger }, buffer }: Run, next: ChainBlock): void {
  let last = next;
  for (let looked = 0; ledger !== null && looked < MAX_AHEAD; looked += 1) {
    const block = buffer.after(last.slot)?.block;
    if (block?.previousBlockhash !== last.blockhash || !ledger.prepare(block)) return;
    last = block;
  }
}

/** Before the commit of a block: what the ledger has above the cursor is of a commit that failed, or the block itself. */
export async function keepReleased(
  { state: { ledger } }: Run,
  block: ChainBlock,
  cursor: BlockPosition | null,
): Promise<void> {
  if (ledger === null) return;
  const newest = ledger.newest();
  if (newest > (cursor?.slot ?? -1)) {
    const isBlock = newest === block.slot && (await ledger.header(newest))?.blockhash === block.blockhash;
    if (!isBlock) await ledger.cut(cursor?.slot ?? -1);
  }
  await ledger.append(block);
}

/** Entries of an address that are read at once. */
const PAGE_ENTRIES = 1_000;

/**
 * Final blocks, and those up to the chain's cursor, come from the ledger where it has them, so that lanes, gaps and plugins that read a
 * range again do not ask upstreams for them. A block that is not final may be on a dropped fork that the ledger does not know yet: whoever
 * applies it compares its hash with the stored header. Damaged blocks come from an upstream.
 */
export function readLedgerFirst(
  source: ChainSource,
  run: {
    readonly ledger: () => LedgerReader | null;
    readonly cursor: () => BlockPosition | null;
    readonly log: Run['log'];
    readonly served: () => void;
  },
): KeptFirst {
  const finalLedgerAt = (slot: number, avoid: readonly string[] = []) => {
    const ledger = run.ledger();
    return ledger === null || avoid.includes(LEDGER) || slot > ledger.finalSlot ? null : ledger;
  };
  const ledgerAt = (slot: number, avoid: readonly string[] = []) =>
    slot <= (run.cursor()?.slot ?? -1) && !avoid.includes(LEDGER) ? run.ledger() : finalLedgerAt(slot, avoid);
  const failed = (error: unknown) => {
    run.log.warn({ error: messageOf(error) }, 'the ledger cannot be read; an upstream answers instead');
    return null;
  };
  const { history } = source;
  return {
    async headerFirst(slot, options) {
      const header = await finalLedgerAt(slot, options.avoid)?.header(slot).catch(failed);
      return header ?? (await source.header(slot, options));
    },
    firstKept() {
      const first = run.ledger()?.firstOfRun() ?? -1;
      return first < 0 ? Number.POSITIVE_INFINITY : first;
    },
    async block(slot, options) {
      const block = (await ledgerAt(slot, options.avoid)?.block(slot).catch(failed)) ?? null;
      if (block === null) return await source.block(slot, options);
      run.served();
      return { kind: 'block', block, upstream: LEDGER };
    },
    async produced(from, to, options) {
      const ledger = ledgerAt(to, options.avoid);
      if (ledger === null || to - from >= LONGEST_LIST_SLOTS) return await source.produced(from, to, options);
      const slots: number[] = [];
      for (let slot = from; slot <= to; slot++) {
        const state = ledger.state(slot);
        if (state === 'unknown') return await source.produced(from, to, options);
        if (state === 'block') slots.push(slot);
      }
      return slots;
    },
    ...(history === undefined
      ? {}
      : {
          history: {
            page: history.page,
            async partialBlock(slot, signatures, options) {
              const part = (await finalLedgerAt(slot, options.avoid)?.part(slot, signatures).catch(failed)) ?? null;
              if (part === null) return await history.partialBlock(slot, signatures, options);
              run.served();
              return part;
            },
            async kept(address, range) {
              const ledger = finalLedgerAt(range.toSlot);
              return ledger === null ? null : await keptHistory(ledger, address, range).catch(failed);
            },
          },
        }),
  };
}

/** What the index of the ledger has of an address in a range of final slots; null when it does not reach to its end. Errors: as `addressPage`. */
async function keptHistory(
  ledger: LedgerReader,
  address: string,
  { fromSlot, toSlot, most }: HistoryRange,
): Promise<KeptHistory | null> {
  const key = decode32(address);
  if (key === null) return null;
  const entries: AddressEntry[] = [];
  const above = { slot: fromSlot, index: -1 };
  let below = { slot: toSlot + 1, index: -1 };
  let from = fromSlot;
  for (let hasMore = true; hasMore && entries.length <= most; ) {
    const asked = { address: key, reasons: 'keys', order: 'newest', above, below, limit: PAGE_ENTRIES } as const;
    const page = await ledger.addressPage(asked);
    if (page === null || page.inVotes || page.to < toSlot) return null;
    entries.push(...page.rows);
    below = page.rows.at(-1) ?? below;
    hasMore = page.hasMore && page.rows.length > 0;
    // The retention may have removed the lowest blocks since.
    from = Math.max(from, page.from, ledger.firstOfRun());
  }
  return from > toSlot ? null : { from, entries: entries.filter(({ slot }) => slot >= from) };
}
