import { defineRoute, json, type Route, type Store, Type } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { readAtOneSlot } from '../store/snapshot-read.ts';
import type { Db, TreeRow } from '../store/tables.ts';

const MOST_TREES = 1_000;
const nullable = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

const treeState = Type.Object({
  tree: Type.String(),
  queue: nullable('base58'),
  type: Type.Integer({ description: '1 state V1, 2 address V1, 3 state V2, 4 address V2, 5 compressed NFTs' }),
  size: Type.Integer({ description: 'leaves' }),
  root: Type.String(),
  rootSeq: Type.Integer(),
  state: Type.String({ description: 'ok, unverified, gap or diverged; proofs of the last two are withheld' }),
  reason: nullable('why it is not ok'),
  expectedRoot: nullable('what the chain has where we differ'),
  computedRoot: nullable('what we have there'),
  verifiedSeq: Type.Union([Type.Integer(), Type.Null()], { description: 'newest root that was found on the chain' }),
  lag: Type.Union([Type.Integer(), Type.Null()], { description: 'slots since then' }),
});

/** `GET /v0/admin/compression/trees`: how the trees stand. */
export function treesRoute(store: Store): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/compression/trees',
    summary: 'State of the Merkle trees of compressed accounts',
    tag: 'Operation',
    auth: 'admin',
    errors: 'plain',
    replies: { 200: Type.Object({ slot: Type.Integer(), trees: Type.Array(treeState) }) },
    async handler() {
      const { slot, value } = await readAtOneSlot(store, (db) => readTrees(db));
      return json({ slot, trees: value.map((row) => viewOf(row, slot)) });
    },
  });
}

const readTrees = (db: Db): Promise<TreeRow[]> =>
  db.selectFrom('compression_trees').selectAll().orderBy('id').limit(MOST_TREES).execute();

const text = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));

const viewOf = (row: TreeRow, slot: number) => ({
  ...{ tree: encode32(row.key), queue: text(row.queue), type: row.type, size: row.next_index },
  ...{ root: encode32(row.root), rootSeq: row.seq, state: row.status, reason: row.reason },
  ...{ expectedRoot: text(row.expected_root), computedRoot: text(row.computed_root) },
  ...{ verifiedSeq: row.verified_seq, lag: row.verified_slot === null ? null : Math.max(0, slot - row.verified_slot) },
});
