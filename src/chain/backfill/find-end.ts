import type { BlockHeader } from '../../ports/block.ts';
import type { ChainSource } from '../../ports/chain.ts';
import type { GapEnd } from './gap-record.ts';

const LONGEST_REACH_SLOTS = 100_000;

/**
 * Asks for the first final block above a slot, and walks down along the links to be sure that none comes before it. Null when it is
 * not to be had now. Errors: those of the source.
 */
export async function findEnd(
  source: ChainSource,
  slot: number,
  limits: { readonly finalSlot: number; readonly window: number; readonly signal: AbortSignal },
): Promise<GapEnd | null> {
  const ask = { commitment: 'finalized', signal: limits.signal } as const;
  let above: number | undefined;
  let reach = limits.window;
  for (let from = slot + 1; above === undefined && from <= limits.finalSlot; from += reach) {
    reach = Math.min(reach * 2, LONGEST_REACH_SLOTS);
    [above] = await source.produced(from, Math.min(limits.finalSlot, from + reach - 1), ask);
  }
  if (above === undefined) return null;
  let block: BlockHeader | null = await source.header(above, ask);
  while (block !== null && block.parentSlot > slot) {
    const parent: BlockHeader | null = await source.header(block.parentSlot, ask);
    if (parent !== null && parent.blockhash !== block.previousBlockhash) return null;
    block = parent;
  }
  return block === null
    ? null
    : { slot: block.slot, parentSlot: block.parentSlot, previousBlockhash: block.previousBlockhash };
}
