import { encode32 } from '../../../src/lib/base58.ts';
import { withheld } from '../rpc/errors.ts';
import type { TreeRow } from '../store/tables.ts';

/** Throws when the proofs of the tree could be wrong. Errors: -32603 that names it. */
export function requireProvable({
  key,
  seq,
  status,
  reason,
}: Pick<TreeRow, 'key' | 'seq' | 'status' | 'reason'>): void {
  if (status === 'diverged') throw diverged(key, seq, reason ?? 'root');
  if (status === 'gap') {
    const why = `is missing updates after sequence ${seq}; its proofs are withheld while they are fetched`;
    throw withheld(`Merkle tree ${encode32(key)} ${why}`);
  }
}

export function diverged(key: Uint8Array, seq: number, reason: string) {
  const why = `has diverged from the chain at sequence ${seq} (${reason}); its proofs are withheld`;
  return withheld(`Merkle tree ${encode32(key)} ${why}`);
}
