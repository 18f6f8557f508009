import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import type {
  ChangesPage,
  CompressedAsset,
  CompressedAssets,
  WithheldAsset,
} from '../../../src/ports/compressed-assets.ts';
import { CONCURRENT_TREE } from '../indexing/cnft.ts';
import { type AssetRow, type Db, LEAF_STATE, readAtOneSlot, type TreeRow } from '../store/tables.ts';

/** Changes behind the newest one of a tree among which holes are looked for. */
const MOST_CHANGES = 50_000;

interface Row extends AssetRow {
  readonly key: Uint8Array;
  readonly status: string;
  readonly body: Uint8Array | null;
}

/** What the index knows of compressed NFTs, for the asset API. */
export function createAssetIndex(store: Store, followsAll: boolean): CompressedAssets {
  return {
    async find(ids) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        if (ids.length === 0) return [];
        return await show(db, await rowsOf(db).where('a.id', 'in', distinct(ids)).execute());
      });
      return { slot, assets: new Map(value.map(({ id, shown }) => [encode32(id), shown])) };
    },
    async list(by, most) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        const tree = by !== 'all' && 'tree' in by ? await treeOf(db, by.tree) : null;
        if (tree === undefined) return null;
        // What a tree that is missing changes holds is unknown. Where all are followed there are always such; what they hold is not listed.
        const lacking = await incompleteTree(db, tree?.id);
        if (lacking !== undefined && (tree !== null || !followsAll)) return withheld(lacking, lacking.status);
        const present = rowsOf(db).where('a.state', '=', LEAF_STATE.present);
        const some = tree !== null ? present.where('a.tree', '=', tree.id) : present;
        const rows = by !== 'all' && 'owner' in by ? some.where('a.owner', '=', by.owner) : some;
        const shown = await show(
          db,
          await rows
            .orderBy('a.id')
            .limit(most + 1)
            .execute(),
        );
        const isComplete = tree !== null || (followsAll && lacking === undefined);
        return { assets: shown.map((one) => one.shown), followsAll, isComplete };
      });
      return value === null || 'withheld' in value ? value : { slot, ...value };
    },
    async changes(leaf, page) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        const found = await ('id' in leaf
          ? db
              .selectFrom('compression_assets as a')
              .innerJoin('compression_trees as t', 't.id', 'a.tree')
              .select(['t.id', 't.key', 't.status', 'a.leaf_index'])
              .where('a.id', '=', leaf.id)
              .executeTakeFirst()
          : db
              .selectFrom('compression_changes as c')
              .innerJoin('compression_trees as t', 't.id', 'c.tree')
              .select(['t.id', 't.key', 't.status', 'c.leaf_index'])
              .where('t.key', '=', leaf.tree)
              .where('c.leaf_index', '=', leaf.leafIndex)
              .executeTakeFirst());
        if (found === undefined) return null;
        if (found.status === 'gap' || found.status === 'diverged') return withheld(found, found.status);
        return { items: await changesOf(db, found, page) };
      });
      return value === null || 'withheld' in value ? value : { slot, ...value };
    },
  };
}

const treeOf = (db: Db, key: Uint8Array) =>
  db
    .selectFrom('compression_trees')
    .select('id')
    .where('key', '=', key)
    .where('type', '=', CONCURRENT_TREE)
    .executeTakeFirst();

/** A tree, or this one, whose assets are not all known. A closed tree has none. */
async function incompleteTree(db: Db, id: number | undefined) {
  const trees = db
    .selectFrom('compression_trees')
    .select(['key', 'status'])
    .where('type', '=', CONCURRENT_TREE)
    .where('status', 'in', ['gap', 'diverged'])
    .where((is) => is.or([is('reason', 'is', null), is('reason', '!=', 'closed')]));
  return await (id === undefined ? trees : trees.where('id', '=', id)).limit(1).executeTakeFirst();
}

const rowsOf = (db: Db) =>
  db
    .selectFrom('compression_assets as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_metadata as m', 'm.hash', 'a.data_hash')
    .selectAll('a')
    .select(['t.key', 't.status', 'm.body']);

const distinct = (ids: readonly Uint8Array[]): Uint8Array[] => [
  ...new Map(ids.map((id) => [encode32(id), id])).values(),
];

async function show(
  db: Db,
  rows: readonly Row[],
): Promise<readonly { readonly id: Uint8Array; readonly shown: CompressedAsset | WithheldAsset }[]> {
  const since = new Map<number, number>();
  for (const { tree, status } of rows)
    if (status === 'gap' && !since.has(tree)) since.set(tree, await knownSince(db, tree));
  return rows.map((row) => {
    const isCurrent = row.status !== 'diverged' && row.seq >= (since.get(row.tree) ?? 0);
    return { id: row.id, shown: isCurrent ? assetOf(row) : withheld(row, row.status) };
  });
}

/**
 * The sequence number from which on every change of a tree up to the newest is known. An asset that changed last behind it has not changed
 * since, also when the past of the tree is missing.
 */
async function knownSince(db: Db, tree: number): Promise<number> {
  const newest = db
    .selectFrom('compression_changes')
    .select('seq')
    .where('tree', '=', tree)
    .orderBy('seq', 'desc')
    .limit(MOST_CHANGES)
    .as('newest');
  const rows = db
    .selectFrom(newest)
    // The same number for all rows up to the first hole.
    .select(['seq', sql<number>`seq + row_number() over (order by seq desc)`.as('run')])
    .as('runs');
  const found = await db
    .selectFrom(rows)
    .select((is) => is.fn.min('seq').as('seq'))
    .groupBy('run')
    .orderBy('run', 'desc')
    .executeTakeFirst();
  return found?.seq === undefined ? Number.MAX_SAFE_INTEGER : Number(found.seq);
}

function withheld({ key }: Pick<TreeRow, 'key'>, status: string): WithheldAsset {
  const why =
    status === 'diverged'
      ? 'has diverged from the chain; its assets are withheld'
      : 'is missing changes; assets that they may have changed are withheld while they are fetched';
  return { withheld: `Merkle tree ${encode32(key)} ${why}` };
}

const STATES = Object.fromEntries(Object.entries(LEAF_STATE).map(([name, state]) => [state, name]));

function assetOf(row: Row): CompressedAsset | WithheldAsset {
  const { id, key, leaf_index, leaf, seq, slot, version, owner, delegate, data_hash, creator_hash, body } = row;
  const state = STATES[row.state] as CompressedAsset['state'] | 'unknown';
  const name = `the compressed asset ${encode32(id)}`;
  if (state === 'unknown') return { withheld: `the leaf of ${name} cannot be read` };
  if (version === null || owner === null || delegate === null || data_hash === null || creator_hash === null)
    return { withheld: `no leaf of ${name} was indexed` };
  if (body === null) return { withheld: `no indexed instruction has the metadata of ${name}` };
  const { collection_hash, asset_data_hash, flags } = row;
  return {
    ...{ id, tree: key, leafIndex: leaf_index, leaf, seq, slot, state, version: version as 1 | 2, owner, delegate },
    ...{ dataHash: data_hash, creatorHash: creator_hash, metadata: body },
    more:
      collection_hash === null || asset_data_hash === null
        ? null
        : { collectionHash: collection_hash, assetDataHash: asset_data_hash, flags: flags ?? 0 },
  };
}

async function changesOf(
  db: Db,
  { id, leaf_index }: { readonly id: number; readonly leaf_index: number },
  { ascending, limit, skip, cursor, after, before }: ChangesPage,
) {
  const all = () => db.selectFrom('compression_changes').where('tree', '=', id).where('leaf_index', '=', leaf_index);
  /** Null: this leaf has no such signature, and nothing stands on that side of it. */
  const seqOf = async (signature: Uint8Array, last: boolean): Promise<number | null> => {
    const row = await all()
      .select((is) => (last ? is.fn.max('seq') : is.fn.min('seq')).as('seq'))
      .where('signature', '=', signature)
      .executeTakeFirst();
    return row?.seq == null ? null : Number(row.seq);
  };
  let query = all().select(['seq', 'signature', 'operation']);
  if (cursor !== null) query = query.where('seq', ascending ? '>' : '<', cursor);
  for (const [signature, above] of [
    [after, ascending],
    [before, !ascending],
  ] as const) {
    if (signature === null) continue;
    const seq = await seqOf(signature, above);
    if (seq === null) return [];
    query = query.where('seq', above ? '>' : '<', seq);
  }
  return await query
    .orderBy('seq', ascending ? 'asc' : 'desc')
    .limit(limit)
    .offset(skip)
    .execute();
}
