import { encode32 } from '../../lib/base58.ts';
import type { KeyTable } from '../../ports/block.ts';

/** Keys of a block, and those that only occur inside the data of an instruction. */
export interface MovementKeys {
  /** base58; empty for -1. */
  base58(id: number): string;
  /** 32 bytes, a view; null for -1. */
  bytes(id: number): Uint8Array | null;
}

export interface KeysBeyond extends MovementKeys {
  /** The id of the 32 bytes at `at`; -1 when they end too early. */
  idOf(data: Uint8Array, at: number): number;
}

/** Ids from `table.size` on are keys that the block's table does not hold. */
export function createKeysBeyond(table: KeyTable): KeysBeyond {
  const extra: Uint8Array[] = [];
  return {
    idOf(data, at) {
      if (at + 32 > data.length) return -1;
      const key = data.subarray(at, at + 32);
      const known = table.find(key);
      if (known >= 0) return known;
      const found = extra.findIndex((other) => Buffer.compare(other, key) === 0);
      return table.size + (found >= 0 ? found : extra.push(key) - 1);
    },
    base58: (id) => (id < 0 ? '' : id < table.size ? table.base58(id) : encode32(extra[id - table.size]!)),
    bytes: (id) => (id < 0 ? null : id < table.size ? table.bytes(id) : extra[id - table.size]!),
  };
}
