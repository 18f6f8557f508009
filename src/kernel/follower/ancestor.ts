import type { BlockHeader } from '../../ports/block.ts';
import type { ChainSource, Commitment } from '../../ports/chain.ts';

export type AncestorVerdict =
  /** The newest block that both branches have. */
  | { readonly kind: 'found'; readonly header: BlockHeader }
  /** None within the stored headers. */
  | { readonly kind: 'none' }
  /** The block that was walked from hangs in the air: the chain has other blocks below it by now. */
  | { readonly kind: 'stale' }
  /** A header could not be had; try again. */
  | { readonly kind: 'unknown' };

export interface AncestorSearch {
  readonly source: ChainSource;
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Where the part behind the newest gap begins: nothing below it links to what is above. */
  readonly floor: number;
  /** Stored headers, newest first. */
  readonly stored: readonly BlockHeader[];
  /** A header that is at hand, so that it need not be asked for. */
  readonly held: (slot: number) => BlockHeader | null;
}

/** Which block one names as its parent. */
export type ChildLink = Pick<BlockHeader, 'parentSlot' | 'previousBlockhash'>;

/** Walks from a block of another branch down, link by link, until it meets a stored header in slot and hash. */
export async function findAncestor(from: ChildLink, search: AncestorSearch): Promise<AncestorVerdict> {
  const bySlot = new Map(search.stored.map((header) => [header.slot, header]));
  const oldest = search.stored.at(-1)?.slot ?? Number.POSITIVE_INFINITY;
  let child: ChildLink = from;
  for (;;) {
    const known = bySlot.get(child.parentSlot);
    if (known !== undefined && known.blockhash === child.previousBlockhash) return { kind: 'found', header: known };
    // The first block behind a gap was accepted without its parent: what is below the gap stays, as far as anyone can tell.
    if (child.parentSlot < search.floor) {
      const below = search.stored.find((header) => header.slot < search.floor);
      return below === undefined ? { kind: 'none' } : { kind: 'found', header: below };
    }
    if (child.parentSlot < oldest) return { kind: 'none' };
    const held = search.held(child.parentSlot);
    const parent: BlockHeader | null =
      held !== null && held.blockhash === child.previousBlockhash
        ? held
        : await search.source.header(child.parentSlot, { commitment: search.commitment, signal: search.signal });
    if (parent === null) return { kind: 'unknown' };
    if (parent.blockhash !== child.previousBlockhash || parent.slot !== child.parentSlot) return { kind: 'stale' };
    child = parent;
  }
}
