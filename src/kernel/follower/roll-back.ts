import type { BlockHeader } from '../../ports/block.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Store } from '../../ports/store.ts';
import type { BlockProcessor } from '../plugin.ts';
import type { Position } from './decide.ts';
import { forgetEnds } from './gaps.ts';
import { joinGaps } from './join-gaps.ts';
import { moveCursors, readCursor, readHeaders, removeCursors } from './positions.ts';
import { followTables, MAIN } from './tables.ts';

export interface RollBackOptions {
  readonly store: Store;
  readonly chain: ChainId;
  readonly processors: readonly BlockProcessor[];
  /** Unix ms. */
  readonly now: number;
}

/**
 * Takes back, newest first and in one transaction, every released block above the ancestor, or all blocks when there is none.
 * Processors that are catching up lose only what they have seen. Returns the headers that went, newest first.
 * Errors: FOLLOW_FENCED, those of the store, those of a processor.
 */
export async function rollBack(
  { store, chain, processors, now }: RollBackOptions,
  cursor: Position,
  ancestor: BlockHeader | null,
): Promise<readonly BlockHeader[]> {
  const keepSlot = ancestor?.slot ?? -1;
  return await store.write(async (tx) => {
    if (ancestor === null) {
      await moveCursors(tx, chain, [MAIN], cursor, { ...cursor, blockTime: null });
      await removeCursors(tx, chain, [MAIN]);
    } else await moveCursors(tx, chain, [MAIN], cursor, ancestor);
    await forgetEnds(tx, chain, keepSlot);
    const gone = await readHeaders(tx.db, chain, keepSlot + 1);
    const behind = [];
    const atAncestor: BlockProcessor[] = [];
    for (const processor of processors) {
      const position = await readCursor(tx.db, chain, processor);
      if (position !== null && position.slot >= keepSlot && processor.wantsGaps !== false) atAncestor.push(processor);
      if (position === null || position.slot <= keepSlot) continue;
      behind.push({ processor, position });
      if (ancestor === null) await removeCursors(tx, chain, [processor]);
      else await moveCursors(tx, chain, [processor], position, ancestor);
    }
    for (const header of gone)
      for (const { processor, position } of behind)
        if (header.slot <= position.slot) await processor.revert(tx, header, chain);
    await followTables(tx.db)
      .deleteFrom('follow_headers')
      .where('chain', '=', chain)
      .where('slot', '>', keepSlot)
      .execute();
    if (ancestor !== null) await joinGaps(tx, chain, ancestor, atAncestor, now);
    return gone;
  });
}
