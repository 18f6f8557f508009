import type { ChainBlock } from '../ports/block.ts';

export interface Held {
  readonly block: ChainBlock;
  readonly upstream: string;
}

/** Blocks that were fetched and not yet released, by slot, within a bound of count and bytes. */
export interface BlockBuffer {
  readonly size: number;
  /** The one with the lowest slot. */
  first(): Held | null;
  /** The one with the lowest slot above this one. */
  after(slot: number): Held | null;
  get(slot: number): Held | null;
  has(slot: number): boolean;
  /** Replaces what was held for the slot. */
  put(held: Held): void;
  remove(slot: number): void;
  /** Forgets everything at or below a slot. */
  dropThrough(slot: number): void;
  /** Whether a block of this slot may come while `coming` others are on their way. One below all others always may. */
  hasRoomFor(slot: number, coming?: number): boolean;
  clear(): void;
}

/** Wire, meta and decoded form of an average transaction together; what a block occupies is not known exactly. */
const BYTES_PER_TRANSACTION = 8_192;
/** Blocks below all others that come although there is no room. */
const SLACK_BLOCKS = 32;
export const sizeOf = ({ block }: Held) => 65_536 + block.transactions.length * BYTES_PER_TRANSACTION;

export function createBlockBuffer(maxBlocks: number, maxBytes: number): BlockBuffer {
  const held = new Map<number, Held>();
  let bytes = 0;

  const lowest = () => (held.size === 0 ? Number.POSITIVE_INFINITY : Math.min(...held.keys()));

  function remove(slot: number): void {
    const known = held.get(slot);
    if (known === undefined) return;
    bytes -= sizeOf(known);
    held.delete(slot);
  }

  return {
    get size() {
      return held.size;
    },
    first: () => held.get(lowest()) ?? null,
    after: (slot) => held.get(Math.min(...[...held.keys()].filter((known) => known > slot))) ?? null,
    get: (slot) => held.get(slot) ?? null,
    has: (slot) => held.has(slot),
    put(entry) {
      remove(entry.block.slot);
      // What was fetched and thrown away would be fetched again: only what comes far beyond the bound goes.
      while (held.size >= maxBlocks + SLACK_BLOCKS || (held.size > 0 && bytes + sizeOf(entry) > maxBytes * 2)) {
        const highest = Math.max(...held.keys());
        if (highest < entry.block.slot) return;
        remove(highest);
      }
      held.set(entry.block.slot, entry);
      bytes += sizeOf(entry);
    },
    remove,
    dropThrough(slot) {
      for (const known of [...held.keys()]) if (known <= slot) remove(known);
    },
    hasRoomFor(slot, coming = 0) {
      const expected = held.size === 0 ? 0 : (bytes / held.size) * coming;
      return (held.size + coming < maxBlocks && bytes + expected < maxBytes) || slot < lowest();
    },
    clear() {
      held.clear();
      bytes = 0;
    },
  };
}
