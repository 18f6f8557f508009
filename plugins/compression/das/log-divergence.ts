import type { Log } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { TreeRow } from '../store/tables.ts';

/** Says that a tree is not the chain's any more. */
export function logDivergence(log: Log, { key, seq, reason, expected_root, computed_root }: TreeRow): void {
  const text = (root: Uint8Array | null) => (root === null ? null : encode32(root));
  log.error(
    { tree: encode32(key), seq, reason, expectedRoot: text(expected_root), computedRoot: text(computed_root) },
    'a concurrent tree has diverged from the chain',
  );
}
