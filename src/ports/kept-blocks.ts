import type { ChainBlock, ChainId } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** `unknown`: nobody kept whether the slot has a block. */
export type SlotState = 'block' | 'skipped' | 'unknown';

/** The blocks of one chain that the ledger has. */
export interface KeptBlocks {
  /** Blocks up to it are never taken back; -1 without one. */
  readonly finalSlot: number;
  /** The newest known slot at or below this one; -1 without one. */
  newest(atMost?: number): number;
  /** A slot from which on every slot up to the newest block is known; -1 without a block. */
  firstOfRun(): number;
  state(slot: number): SlotState;
  /** The block, decoded; null when it is unknown or damaged on disk. Errors: those of the file system. */
  block(slot: number): Promise<ChainBlock | null>;
}

/** The ledger of a chain, in the thread that follows it; null before it is open, and without `ledger.retain`. */
export const kernelKeptBlocks: ServiceToken<(chain: ChainId) => KeptBlocks | null> = serviceToken('kernel.kept-blocks');
