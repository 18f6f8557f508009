import type { VmAccount } from '../vm/vm.ts';
import { view } from './accounts.ts';
import { type Bank, imageIn } from './bank.ts';
import type { Commitment, LedgerBlock } from './types.ts';

const CLOCK = 'SysvarC1ock11111111111111111111111111111111';

/** Account state at a commitment. */
export interface AccountView {
  /** Slot of the responses. */
  readonly slot: number;
  get(key: string): VmAccount | null;
  /** The earlier state of an account that was written since; undefined when the engine's state applies. */
  older(key: string): VmAccount | null | undefined;
  ofProgram(program: string): Map<string, VmAccount>;
}

/** Newest slot of a commitment. */
export function slotOf(bank: Bank, commitment: Commitment): number {
  const slot = newestOf(bank, commitment);
  if (bank.lagSlots === 0) return slot;
  const blocks = bank.state.blocks();
  return (blocks.findLast((block) => block.slot <= slot - bank.lagSlots) ?? blocks[0]!).slot;
}

function newestOf(bank: Bank, commitment: Commitment): number {
  if (commitment === 'processed') return bank.pending.slot;
  return commitment === 'confirmed' ? bank.state.tip().slot : bank.state.finalized().slot;
}

/**
 * The engine holds only the newest state; accounts written by later blocks are looked up in their pre-images, oldest first.
 */
export function viewOf(bank: Bank, commitment: Commitment): AccountView {
  const slot = slotOf(bank, commitment);
  return viewAt(bank, slot, commitment !== 'processed');
}

/** State at the end of `slot`, which must not be below the finalized one. */
export function viewAt(bank: Bank, slot: number, sealedOnly: boolean): AccountView {
  const later: Pick<LedgerBlock, 'preImages'>[] = blocksAbove(bank, slot);
  if (sealedOnly) later.push(bank.pending);
  const older = (key: string) => (key === CLOCK ? clockAt(bank, slot) : imageIn(later, key));
  return {
    slot,
    older,
    get(key) {
      const image = older(key);
      return image === undefined ? bank.accounts.get(key) : image;
    },
    ofProgram(program) {
      const found = bank.accounts.ofProgram(program);
      for (const key of new Set(later.flatMap((block) => [...block.preImages.keys()]))) {
        const image = imageIn(later, key);
        if (image === undefined) continue;
        if (image !== null && image.owner === program) found.set(key, image);
        else found.delete(key);
      }
      return found;
    },
  };
}

/** The clock of a sealed slot: the engine's is that of the open slot. */
function clockAt(bank: Bank, slot: number): VmAccount | null | undefined {
  const block = bank.state.block(slot);
  const newest = block === undefined ? null : bank.accounts.get(CLOCK);
  if (block === undefined || newest === null) return undefined;
  const data = Uint8Array.from(newest.data);
  view(data).setBigUint64(0, BigInt(slot), true);
  view(data).setBigInt64(32, BigInt(block.time), true);
  return { ...newest, data };
}

function blocksAbove(bank: Bank, slot: number): LedgerBlock[] {
  const blocks = bank.state.blocks();
  let from = blocks.length;
  while (from > 0 && blocks[from - 1]!.slot > slot) from -= 1;
  return blocks.slice(from);
}
