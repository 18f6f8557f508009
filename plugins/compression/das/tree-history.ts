import { encode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import { LayoutError } from '../../../src/solana/byte-reader.ts';
import {
  CONCURRENT_HEADER_BYTES,
  CONCURRENT_PROGRAMS,
  readConcurrentTree,
} from '../../../src/solana/concurrent/tree.ts';
import { createRowBook, INDEXED_LEAVES, TREES } from '../store/row-book.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { type Hashing, HISTORY } from '../trees/hashing.ts';
import { createPageBook } from '../trees/page-book.ts';
import { createTreeBook } from '../trees/tree-book.ts';
import { CONCURRENT_TREE, type ConcurrentHashing } from './cnft-block.ts';

interface TreeHistoryParts {
  readonly store: Store;
  readonly account: AccountReader;
  readonly hashing: ConcurrentHashing;
  readonly lightHashing: Hashing;
  readonly log: Log;
}

/** How far the past of trees goes. */
export interface TreeHistory {
  /** Adds those of these trees that no block has named yet, as the chain has them. Errors: of the store; a silent chain is tried again. */
  plant(keys: readonly Uint8Array[], signal: AbortSignal): Promise<void>;
  /** The sequence number at which the past of a tree ends; null when the chain does not say. */
  goal(tree: TreeRow, signal: AbortSignal): Promise<number | null>;
  /** A tree whose past has been read is proved again. */
  complete(tree: TreeRow): Promise<void>;
}

export function createTreeHistory({ store, account, hashing, lightHashing, log }: TreeHistoryParts): TreeHistory {
  /** By key; what the account said when it was first asked. */
  const goals = new Map<string, number>();

  async function ask(key: Uint8Array, signal: AbortSignal) {
    try {
      return await account(key, signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ tree: encode32(key), error: messageOf(error) }, 'the account of a concurrent tree cannot be read');
      return null;
    }
  }

  async function plantOne(key: Uint8Array, height: number, seq: number): Promise<void> {
    await store.write(async (tx) => {
      const [treeRows, leaves, pages] = [
        createRowBook(tx, TREES),
        createRowBook(tx, INDEXED_LEAVES),
        createPageBook(tx),
      ];
      const trees = createTreeBook({ tx, hashing: lightHashing, trees: treeRows, leaves, pages });
      await trees.load([key]);
      if (trees.find(key) !== null) return;
      await trees.insert([{ key, type: CONCURRENT_TREE, queue: null, height, rootCapacity: null, nextTree: null }]);
      const { id } = trees.find(key) as TreeRow;
      const status = seq === 0 ? { status: 'unverified' } : { status: 'gap', reason: HISTORY };
      trees.change(id, { root: hashing.emptyRoot(height), ...status });
      await treeRows.flush();
    });
  }

  return {
    async plant(keys, signal) {
      if (keys.length === 0) return;
      const rows = await (store.read as Db)
        .selectFrom('compression_trees')
        .select('key')
        .where('key', 'in', [...keys])
        .execute();
      const known = new Set(rows.map((row) => encode32(row.key)));
      for (const key of keys) {
        const found = known.has(encode32(key)) ? null : await ask(key, signal);
        if (found !== null) await plantOne(key, found.height, found.seq);
      }
    },
    async goal(tree, signal) {
      const name = encode32(tree.key);
      const known = goals.get(name);
      if (known !== undefined) return known;
      const found = await ask(tree.key, signal);
      if (found !== null) goals.set(name, found.seq);
      return found?.seq ?? null;
    },
    async complete({ id, key, seq }) {
      const { numUpdatedRows } = await store.write((tx) =>
        (tx.db as Db)
          .updateTable('compression_trees')
          .set({ status: 'ok', reason: null })
          .where('id', '=', id)
          .where('status', '=', 'gap')
          .where('reason', '=', HISTORY)
          .where('seq', '>=', seq)
          .executeTakeFirst(),
      );
      goals.delete(encode32(key));
      if (numUpdatedRows > 0n) log.info({ tree: encode32(key), seq }, 'the past of a concurrent tree is complete');
    },
  };
}

/** What the account of a concurrent tree says now. */
interface TreeNow {
  readonly height: number;
  readonly seq: number;
}

/** Null when there is no such tree. Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
export type AccountReader = (key: Uint8Array, signal: AbortSignal) => Promise<TreeNow | null>;

const TIMEOUT_MS = 10_000;

export function createAccountReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): AccountReader {
  const dataSlice = { offset: 0, length: CONCURRENT_HEADER_BYTES };
  return async (key, signal) => {
    const { value } = await chain.call<{
      readonly value: { readonly data: [string, string]; readonly owner: string } | null;
    }>('getAccountInfo', [encode32(key), { encoding: 'base64', commitment, dataSlice }], {
      signal,
      timeoutMs: TIMEOUT_MS,
    });
    if (value === null || !CONCURRENT_PROGRAMS.includes(value.owner)) return null;
    try {
      const { height, seq } = readConcurrentTree(Buffer.from(value.data[0], 'base64'));
      return { height, seq: Number(seq) };
    } catch (error) {
      if (error instanceof LayoutError) return null;
      throw error;
    }
  };
}
