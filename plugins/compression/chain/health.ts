import type { HealthCheck, Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { DeclaredTree } from '../config.ts';
import type { Db } from '../store/tables.ts';
import { knownTrees } from '../trees/known-trees.ts';

const MOST_NAMED = 3;

/** Fails while proofs of a tree that every client knows are refused; those of other trees are their users' matter. */
export function createTreeCheck(store: Store, declared: readonly DeclaredTree[]): HealthCheck {
  const own = new Set(declared.map(({ tree }) => tree));
  const keys = knownTrees(declared)
    .map(({ key }) => key)
    .filter((key) => !own.has(encode32(key)));
  return {
    name: 'compression trees',
    async run() {
      const rows = await (store.read as Db)
        .selectFrom('compression_trees')
        .select(['key', 'status', 'seq'])
        .where('key', 'in', keys)
        .where('status', 'in', ['gap', 'diverged'])
        .orderBy('id')
        .execute();
      if (rows.length === 0) return { ok: true, detail: 'no proofs are withheld' };
      const named = rows.slice(0, MOST_NAMED).map(({ key, status, seq }) => `${encode32(key)} (${status} at ${seq})`);
      const more = rows.length > MOST_NAMED ? ` and ${rows.length - MOST_NAMED} more` : '';
      return { ok: false, detail: `proofs are withheld of ${named.join(', ')}${more}` };
    },
  };
}
