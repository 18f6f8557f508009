/** Indexing and proofs of compressed NFTs on a store, without a daemon around them. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { CONCURRENT_TREE } from '../../plugins/compression/indexing/cnft.ts';
import { createCnft } from '../../plugins/compression/plugin.ts';
import { createSlotWatch } from '../../plugins/compression/rpc/method.ts';
import * as shapes from '../../plugins/compression/store/row-book.ts';
import { createRowBook } from '../../plugins/compression/store/row-book.ts';
import type { CompressionDb } from '../../plugins/compression/store/tables.ts';
import { createHashing } from '../../plugins/compression/trees/hashing.ts';
import { createPageBook, pageRange } from '../../plugins/compression/trees/page-book.ts';
import { createTreeBook } from '../../plugins/compression/trees/tree-book.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { decode32, encode32 } from '../../src/lib/base58.ts';
import { type RpcCall, RpcError } from '../../src/plugin/plugin.ts';
import type { Store } from '../../src/ports/store.ts';
import { decodeTransaction } from '../../src/solana/decode/decode-block.ts';
import { createCompressionTables, setHead } from './compression-rows.ts';
import { createMemoryLog, type LogLine } from './memory-log.ts';

export interface AssetProof {
  readonly root: string;
  readonly proof: readonly string[];
  readonly node_index: number;
  readonly leaf: string;
  readonly tree_id: string;
}

export interface CnftBed {
  /** A block that holds these results of `getTransaction`. */
  apply(slot: number, transactions: readonly object[]): Promise<void>;
  /** Every row of concurrent trees, with keys in place of the ids of trees. */
  rows(): Promise<Record<string, readonly unknown[]>>;
  call<T = AssetProof>(method: string, params: unknown): Promise<T>;
  /** Code and text of the error. */
  refusal(method: string, params: unknown): Promise<string>;
  readonly lines: readonly LogLine[];
}

export async function createCnftBed(store: Store, trees: readonly string[] | 'all' = 'all'): Promise<CnftBed> {
  await createCompressionTables(store);
  const log = createMemoryLog();
  const counter = { add: () => undefined, with: () => counter };
  const config = { cnft: { trees }, pageCacheBytes: 1_000_000, verifyOnRead: false };
  const cnft = createCnft({ config, log, metrics: { counter: () => counter } });
  if (cnft === null) throw new Error('no tree is wanted');
  const hashing = createHashing(counter);
  const slots = createSlotWatch({ store, clock: createSystemClock(), chain: null, log });
  const methods = new Map(
    cnft
      .methods({ store, slots })
      .flatMap((method) => [method.name, ...(method.aliases ?? [])].map((name) => [name, method] as const)),
  );
  const call = async <T>(name: string, params: unknown): Promise<T> =>
    (await methods.get(name)!.handler({ params, signal: new AbortController().signal } as RpcCall)) as T;
  let highest = 0;
  return {
    lines: log.lines,
    call,
    async apply(slot, transactions) {
      const blocks = transactions.map((transaction) => cnft.decode({ ...decodeTransaction(transaction), slot }));
      await store.write(async (tx) => {
        const [treeRows, leaves] = [createRowBook(tx, shapes.TREES), createRowBook(tx, shapes.INDEXED_LEAVES)];
        const [pending, assets] = [createRowBook(tx, shapes.PENDING), createRowBook(tx, shapes.ASSETS)];
        const [metadata, changes] = [createRowBook(tx, shapes.METADATA), createRowBook(tx, shapes.CHANGE_ROWS)];
        const pages = createPageBook(tx);
        const books = {
          tx,
          pages,
          pending,
          assets,
          metadata,
          changes,
          trees: createTreeBook({ tx, hashing, trees: treeRows, leaves, pages }),
        };
        const found = blocks.filter((block) => block !== null);
        const block = found.length === 0 ? null : joined(slot, found);
        await cnft.apply(books, block, { slot });
        for (const book of [treeRows, leaves, pending, assets, metadata, changes, pages]) await book.flush();
      });
      highest = Math.max(highest, slot);
      await setHead(store, highest);
    },
    async rows() {
      const db = store.read as CompressionDb;
      const all = await db.selectFrom('compression_trees').selectAll().where('type', '=', CONCURRENT_TREE).execute();
      const pages = await db.selectFrom('compression_pages').selectAll().orderBy('id').execute();
      const assets = await db.selectFrom('compression_assets').selectAll().execute();
      const changes = await db.selectFrom('compression_changes').selectAll().execute();
      const pending = await db.selectFrom('compression_pending').selectAll().execute();
      const name = (id: number): string => encode32(all.find((tree) => tree.id === id)!.key);
      const ofTree = ({ id }: { readonly id: number }) => {
        const tree = all.find((one) => id >= pageRange(one.id).from && id <= pageRange(one.id).to)!;
        return { tree: encode32(tree.key), page: id - pageRange(tree.id).from };
      };
      return {
        trees: sorted(all.map(({ id: _, ...tree }) => tree)),
        pages: sorted(pages.map((page) => ({ ...ofTree(page), bytes: page.bytes }))),
        assets: sorted(assets.map((asset) => ({ ...asset, tree: name(asset.tree) }))),
        metadata: sorted(await db.selectFrom('compression_metadata').selectAll().execute()),
        changes: sorted(changes.map((row) => ({ ...row, tree: name(row.tree) }))),
        pending: sorted(pending.map((row) => ({ ...row, tree: name(row.tree) }))),
      };
    },
    async refusal(name, params) {
      try {
        return `no refusal: ${JSON.stringify(await call(name, params))}`;
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        return `${error.rpcCode} ${error.details ?? error.message}`;
      }
    },
  };
}

type Block = NonNullable<ReturnType<NonNullable<ReturnType<typeof createCnft>>['decode']>>;

const joined = (slot: number, blocks: readonly Block[]): Block => ({
  slot,
  steps: blocks.flatMap(({ steps }) => steps),
  changes: blocks.flatMap(({ changes }) => changes),
  trees: blocks.flatMap(({ trees }) => trees),
  suspects: blocks.flatMap(({ suspects }) => suspects),
  faults: blocks.flatMap(({ faults }) => faults),
});

const textOf = (row: unknown): string =>
  JSON.stringify(row, (_, value) => (value?.type === 'Buffer' ? Buffer.from(value.data).toString('hex') : value));
const sorted = (rows: readonly object[]): readonly unknown[] => rows.map(textOf).sort();

/** Hashes a proof from its leaf up. */
export function foldProof({ proof, leaf, node_index }: AssetProof): string {
  let [node, index] = [decode32(leaf)!, node_index];
  for (const text of proof) {
    const sibling = decode32(text)!;
    node = keccak_256(Buffer.concat(index % 2 === 0 ? [node, sibling] : [sibling, node]));
    index = Math.floor(index / 2);
  }
  return encode32(node);
}
