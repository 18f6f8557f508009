import { statSync } from 'node:fs';
import { serialize } from 'node:v8';
import { migrations } from '../../../plugins/compression/store/tables.ts';
import { createHashing, type Hashing } from '../../../plugins/compression/trees/hashing.ts';
import { createPageBook } from '../../../plugins/compression/trees/page-book.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { UpdatedTree } from '../../../src/solana/merkle/update-trees.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';

export const TREE = 1;
export const HEIGHT = 26;

/** A V1 state tree in a database on disk, written as the indexer writes it. */
export interface StoredTree {
  readonly store: Store;
  readonly hashing: Hashing;
  readonly size: number;
  readonly root: Uint8Array;
  /** Puts leaves behind the last one and commits. With `undo` also what would take them back. */
  append(hashes: Uint8Array, options: { readonly undo: boolean }): Promise<void>;
  /** Bytes of the database with everything in its file. */
  bytes(): Promise<number>;
  close(): Promise<void>;
}

export async function openStoredTree(path: string): Promise<StoredTree> {
  const store = openSqliteStore({ path, busyTimeoutMs: 5_000 });
  await migrate(store, [{ scope: 'compression', migrations }]);
  const hashing = createHashing({ add: () => undefined });
  let [size, slot] = [0, 0];
  let root: Uint8Array = hashing.zeros.slice(HEIGHT * 32, HEIGHT * 32 + 32);
  return {
    store,
    hashing,
    get size() {
      return size;
    },
    get root() {
      return root;
    },
    async append(hashes, { undo }) {
      const leaves = Array.from({ length: hashes.length / 32 }, (_, i) => ({
        index: size + i,
        hash: hashes.subarray(32 * i, 32 * i + 32),
      }));
      slot += 1;
      await store.write(async (tx) => {
        const pages = createPageBook(tx);
        await pages.load([{ id: TREE, height: HEIGHT, leaves }]);
        const [updated] = hashing.update([{ height: HEIGHT, page: (key) => pages.page(TREE, key), leaves }]);
        pages.accept(TREE, updated as UpdatedTree);
        root = (updated as UpdatedTree).root;
        await pages.flush();
        if (undo) await tx.insertMany('compression_undo', ['slot', 'body'], [[slot, serialize(pages.undo())]]);
      });
      size += leaves.length;
    },
    async bytes() {
      await store.close();
      return statSync(path).size;
    },
    close: () => store.close(),
  };
}
