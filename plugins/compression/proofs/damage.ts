import { type Log, messageOf, type Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Db } from '../store/tables.ts';
import { DamagedPage, type PathTree } from './path-reader.ts';
import { diverged } from './refusal.ts';

/** Runs reads of paths; a tree with a damaged page is marked, so that it is repaired. Errors: -32603 that names it; those of `work`. */
export type DamageGuard = <T>(work: () => Promise<T>) => Promise<T>;

/** Why a tree is diverged. */
const REASON = 'page';

export function createDamageGuard(store: Store, log: Log): DamageGuard {
  async function mark(tree: PathTree): Promise<void> {
    await store.write(async (tx) => {
      await (tx.db as Db)
        .updateTable('compression_trees')
        .set({ status: 'diverged', reason: REASON })
        .where('id', '=', tree.id)
        .where('status', '<>', 'diverged')
        .execute();
    });
  }
  return async (work) => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DamagedPage)) throw error;
      const { key, seq } = error.tree;
      log.error({ tree: encode32(key), seq }, 'a stored page of a Merkle tree is damaged');
      // The answer is refused all the same when the mark cannot be written.
      await mark(error.tree).catch((failure: unknown) => {
        log.error({ tree: encode32(key), error: messageOf(failure) }, 'the damaged tree could not be marked');
      });
      throw diverged(key, seq, REASON);
    }
  };
}
