import type { VmAccount } from '../vm/vm.ts';
import type { LedgerBlock, PreImages, TransactionRecord } from './types.ts';

/** The slot under construction. */
export interface Pending {
  slot: number;
  time: number;
  records: TransactionRecord[];
  written: Set<string>;
  preImages: PreImages;
}

export function newPending(slot: number, time: number): Pending {
  return { slot, time, records: [], written: new Set(), preImages: new Map() };
}

/** Notes what an account is before the block's first write to it. */
export function keepPreImage(images: PreImages, key: string, read: () => VmAccount | null): void {
  if (!images.has(key)) images.set(key, { state: read(), overwritten: false });
}

/** Marks a key as set by hand: blocks keep what rollback needs, but show the newest state to readers of older states. */
export function markOverwritten(images: PreImages, key: string): void {
  const image = images.get(key);
  if (image !== undefined) images.set(key, { ...image, overwritten: true });
}

/** The oldest noted state of a key in `blocks` (ascending); undefined where none wrote it. */
export function imageIn(blocks: readonly Pick<LedgerBlock, 'preImages'>[], key: string): VmAccount | null | undefined {
  for (const block of blocks) {
    const image = block.preImages.get(key);
    if (image !== undefined) return image.overwritten ? undefined : image.state;
  }
  return undefined;
}
