import type { ChainBlock } from '../../../src/ports/block.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

export interface HistoryOptions {
  readonly seed: number;
  readonly transactions: number;
  /** Addresses that each transaction names. */
  readonly names: number;
}

/** Half of the names are of these. */
const HOT = 2_000;
/** The others of these, the earlier ones more often. */
const POPULATION = 20_000_000;
const WORDS = 8;

/** Blocks as far as a whole-chain index of addresses reads them. The same seed makes the same blocks. */
export function createHistoryBlocks({ seed, transactions, names }: HistoryOptions): (slot: number) => ChainBlock {
  const random = createSfc32(seed);
  const anyone = () => (random.float() < 0.5 ? random.below(HOT) : Math.floor(random.float() ** 2 * POPULATION));
  return (slot) => {
    const local = new Map<number, number>();
    const list = Array.from({ length: transactions }, (_, index) => {
      const keys = new Set<number>();
      while (keys.size < names) {
        const one = anyone();
        const id = local.get(one) ?? local.size;
        local.set(one, id);
        keys.add(id);
      }
      const signatures = [random.fill(new Uint8Array(64))];
      return { index, signatures, keys: Uint32Array.from(keys), preTokenBalances: [], postTokenBalances: [] };
    });
    const words = new Uint32Array(local.size * WORDS);
    for (const [one, id] of local)
      for (let word = 0; word < WORDS; word += 1)
        words[id * WORDS + word] =
          Math.imul(one + 1, 0x9e3779b1 + word * 40_503) ^ Math.imul(one ^ (word << 20), 0x85ebca6b);
    const bytes = new Uint8Array(words.buffer);
    const keys = { size: local.size, words, bytes: (id: number) => bytes.subarray(id * 32, id * 32 + 32) };
    return {
      slot,
      parentSlot: slot - 1,
      blockTime: 1_700_000_000 + slot,
      transactions: list,
      keys,
    } as unknown as ChainBlock;
  };
}
