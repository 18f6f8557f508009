import type { Ledger } from '../ledger/index.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { ChainSource } from '../ports/chain.ts';
import { type Position, readHeaders, readMarks } from './cursor.ts';
import type { Run } from './run.ts';
import { LEDGER } from './state.ts';

/** The ledger next to the store: a block is in the ledger before it is in the store, so after a crash the ledger can only be ahead. */

/** Longer ranges are listed by upstreams. */
const LONGEST_LIST_SLOTS = 10_000;

/**
 * Opens the ledger and cuts off what the store does not confirm. A block counts as confirmed when it is a stored header, or final; where
 * no stored header is left to compare the newest final block with, an upstream decides. Errors: LEDGER_IO, LEDGER_FULL, those of store
 * and source.
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
  log.error({ chain, slot }, 'nothing confirms that the blocks of the ledger are of this chain: they are not used');
  await ledger.cut(-1, true);
}

/** Before the commit of a block: what the ledger has above the cursor is of a commit that failed, or the block itself. */
export async function keepReleased(
  { state: { ledger } }: Run,
  block: ChainBlock,
  cursor: Position | null,
): Promise<void> {
  if (ledger === null) return;
  const newest = ledger.newest();
  if (newest > (cursor?.slot ?? -1)) {
    const isBlock = newest === block.slot && (await ledger.header(newest))?.blockhash === block.blockhash;
    if (!isBlock) await ledger.cut(cursor?.slot ?? -1);
  }
  await ledger.append(block);
}

/**
 * Final blocks, and those up to the chain's cursor, come from the ledger where it has them, so that lanes, gaps and plugins that read a
 * range again do not ask upstreams for them. What is not final may be left by a fork that the ledger does not know yet: whoever applies
 * it compares its hash with the stored header. A damaged block is asked of an upstream.
 */
export function readLedgerFirst(
  source: ChainSource,
  run: {
    readonly ledger: () => Ledger | null;
    readonly cursor: () => Position | null;
    readonly log: Run['log'];
    readonly served: () => void;
  },
): Pick<ChainSource, 'block' | 'produced'> {
  const ledgerAt = (slot: number, avoid: readonly string[] = []) => {
    const ledger = run.ledger();
    if (ledger === null || avoid.includes(LEDGER)) return null;
    return slot <= Math.max(ledger.finalSlot, run.cursor()?.slot ?? -1) ? ledger : null;
  };
  const failed = (error: unknown) => {
    run.log.warn({ error: messageOf(error) }, 'a block cannot be read from the ledger; an upstream is asked');
    return null;
  };
  return {
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
  };
}
