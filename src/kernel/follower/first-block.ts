import type { Held } from './buffer.ts';
import type { Run } from './run.ts';

/**
 * Nothing that was released can contradict what the first block of all, or behind a gap, says of its parent; and one that names a parent
 * too low would hide a block that nobody asks for any more. So its links are asked for a second time, elsewhere where that is possible.
 * False when the answer is another one; where there is none, the block is believed.
 */
export async function isLinkConfirmed({ source, follow, signal }: Run, { block, upstream }: Held): Promise<boolean> {
  const ask = { commitment: follow.commitment, signal } as const;
  const header = async (avoid: readonly string[]) =>
    await source.header(block.slot, { ...ask, avoid }).catch(() => null);
  const again = (source.upstreamCount > 1 ? await header([upstream]) : null) ?? (await header([]));
  signal.throwIfAborted();
  return (
    again === null ||
    (again.blockhash === block.blockhash &&
      again.parentSlot === block.parentSlot &&
      again.previousBlockhash === block.previousBlockhash)
  );
}
