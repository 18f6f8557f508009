import { setImmediate as nextTurn } from 'node:timers/promises';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { RpcError, type Store } from '../../../src/plugin/plugin.ts';
import type {
  AssetsBy,
  AssetsPart,
  ChangesPage,
  CompressedAsset,
  CompressedAssets,
  WithheldAsset,
} from '../../../src/ports/compressed-assets.ts';
import { CONCURRENT_TREE } from '../indexing/cnft.ts';
import {
  absentNote,
  type CompressedAssetRow,
  type CompressionDb,
  LEAF_STATE,
  NOTES,
  readAtOneSlot,
  readNote,
  type TreeRow,
} from '../store/tables.ts';

/** Changes behind the newest one of a tree among which holes are looked for, and how many are read at once. */
const MAX_CHANGES = 50_000;
const CHANGES_PER_READ = 1_000;
/** Assets of one list that are looked at, shown or not, and how many are read at once. */
const MAX_LOOKED_AT = 200_000;
const ASSETS_PER_READ = 1_000;
/** Limits for lists that the store filters by bytes in the metadata. */
const MAX_SEARCHED = 2_000_000;
const SEARCHED_PER_READ = 5_000;

interface IndexedAssetRow extends CompressedAssetRow {
  readonly key: Uint8Array;
  readonly status: string;
  readonly verified_slot: number | null;
  readonly body: Uint8Array | null;
}

export interface AssetIndexParts {
  readonly store: Store;
  /** The trees that are followed. */
  readonly trees: readonly Uint8Array[] | 'all';
  /** The newest slot whose block was passed over and is not indexed; null: none. */
  readonly missingTo: (db: CompressionDb) => Promise<number | null>;
  /** Assets that one read looks for bytes in; tests need few. */
  readonly searchedPerRead?: number;
}

/**
 * What the index knows of compressed NFTs, for the asset API. A tree is known up to the slot of its newest change, or of its last look-up
 * on the chain: while a block above that slot is missing, it may have changed there, and its assets are withheld.
 */
export function createCompressedAssets({
  store,
  trees: followed,
  missingTo,
  searchedPerRead = SEARCHED_PER_READ,
}: AssetIndexParts): CompressedAssets {
  const followsAll = followed === 'all';
  return {
    async find(ids) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        if (ids.length === 0) return { shown: [], lacking: null };
        const missing = await missingTo(db);
        const shown = await show(db, await rowsOf(db).where('a.id', 'in', distinct(ids)).execute(), missing);
        if (followsAll || shown.length === distinct(ids).length) return { shown, lacking: null };
        const lacking = (await withheldTree(db, followed, missing)) ?? (await unplantedTree(db, followed, missing));
        return { shown, lacking: lacking === null ? null : withheld(lacking) };
      });
      return {
        slot,
        lacking: value.lacking,
        assets: new Map(value.shown.map(({ id, shown }) => [encode32(id), shown])),
      };
    },
    async list(by, part) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        const missing = await missingTo(db);
        const ofTree = by !== 'all' && 'tree' in by;
        const tree = ofTree ? await treeOf(db, by.tree) : null;
        const isNamed = ofTree && !followsAll && followed.some((key) => equalBytes(key, by.tree));
        // Where all are followed, a tree that no block has named may have a past.
        if (ofTree && tree === undefined && !isNamed) return null;
        // What a tree that is missing changes holds is unknown. Where all are followed there are always such; what they hold is not listed.
        const lacking = await lackingTree(db, ofTree ? [by.tree] : followed, missing);
        if (lacking !== null && (ofTree || !followsAll)) return withheld(lacking);
        if (tree === undefined) return null;
        const isWhole = followsAll && lacking === null && missing === null && (await startsWithChain(db));
        const leavesOut = followsAll && !ofTree;
        const parts = { db, dialect: store.dialect, tree: tree?.id ?? null, missing, leavesOut, searchedPerRead };
        const assets = await partOf(by, part, parts);
        return { assets, followsAll, isComplete: ofTree || isWhole };
      });
      return value === null || 'withheld' in value ? value : { slot, ...value };
    },
    async changes(leaf, page) {
      const { slot, value } = await readAtOneSlot(store, async (db) => {
        const missing = await missingTo(db);
        const asset = 'id' in leaf ? await rowsOf(db).where('a.id', '=', leaf.id).executeTakeFirst() : undefined;
        const key = 'id' in leaf ? asset?.key : leaf.tree;
        if (key === undefined) return null;
        const tree = await treeOf(db, key);
        const lacking = await withheldTree(db, [key], missing);
        if (lacking !== null) return withheld(lacking);
        if (tree === undefined) {
          const isNamed = !followsAll && followed.some((one) => equalBytes(one, key));
          const unplanted = isNamed ? await unplantedTree(db, [key], missing) : null;
          return unplanted === null ? null : withheld(unplanted);
        }
        // A closed tree that lacked changes lacks them for good.
        if (tree.status === 'diverged') return withheld({ key, status: tree.status });
        const place = { id: tree.id, leaf_index: 'id' in leaf ? (asset?.leaf_index ?? 0) : leaf.leafIndex };
        if (asset === undefined && (await changesOf(db, place, FIRST_CHANGE)).length === 0) return null;
        return { items: await changesOf(db, place, page) };
      });
      return value === null || 'withheld' in value ? value : { slot, ...value };
    },
  };
}

const FIRST_CHANGE = { ascending: true, limit: 1, skip: 0, cursor: null, after: null, before: null } as const;

interface PartParts {
  readonly db: CompressionDb;
  readonly dialect: Store['dialect'];
  readonly tree: number | null;
  readonly missing: number | null;
  /** Withheld assets are left out; otherwise they count. */
  readonly leavesOut: boolean;
  readonly searchedPerRead: number;
}

/** A part of a list, in the order of the ids. */
async function partOf(
  by: AssetsBy,
  { most, isDescending = false, above = null, below = null, isBurnt = false, bytes = [] }: AssetsPart,
  { db, dialect, tree, missing, leavesOut, searchedPerRead }: PartParts,
): Promise<readonly (CompressedAsset | WithheldAsset)[]> {
  const assets: (CompressedAsset | WithheldAsset)[] = [];
  const isSearch = bytes.length > 0;
  let [from, to, lookedAt] = [above, below, 0];
  const next = () => {
    let query = rowsOf(db).where('a.state', '=', sql.lit(isBurnt ? LEAF_STATE.burnt : LEAF_STATE.present));
    if (tree !== null) query = query.where('a.tree', '=', tree);
    if (by !== 'all' && 'owner' in by) query = query.where('a.owner', '=', by.owner);
    if (from !== null) query = query.where('a.id', '>', from);
    if (to !== null) query = query.where('a.id', '<', to);
    return query.orderBy('a.id', isDescending ? 'desc' : 'asc');
  };
  while (assets.length < most && lookedAt < (isSearch ? MAX_SEARCHED : MAX_LOOKED_AT)) {
    const limit = isSearch ? searchedPerRead : Math.min(ASSETS_PER_READ, most - assets.length);
    let query = next();
    let last: Uint8Array | undefined;
    if (isSearch) {
      // The store looks for the bytes in so many of the next ones: those without them are not read.
      const place = next()
        .clearSelect()
        .select('a.id')
        .offset(limit - 1)
        .limit(1);
      last = (await place.executeTakeFirst())?.id;
      if (last !== undefined) query = query.where('a.id', isDescending ? '>=' : '<=', last);
      for (const one of bytes) query = query.where(hasBytes(dialect, one));
    }
    const rows = await query.limit(limit).execute();
    const isEnd = isSearch ? last === undefined : rows.length < limit;
    lookedAt += isSearch ? limit : rows.length;
    for (const { shown } of await show(db, rows, missing))
      if (assets.length < most && (!leavesOut || !('withheld' in shown))) assets.push(shown);
    last ??= rows.at(-1)?.id;
    if (isEnd || last === undefined || assets.length === most) return assets;
    if (isDescending) to = last;
    else from = last;
    // A search takes long: other requests come in between.
    if (isSearch) await nextTurn();
  }
  if (assets.length === most) return assets;
  const why = isSearch
    ? `the list is one of more than ${MAX_SEARCHED} compressed assets`
    : 'too many assets of the list are withheld';
  throw new RpcError('unavailable', { message: why, details: why });
}

/** Metadata that has these bytes, or that is not known. */
const hasBytes = (dialect: Store['dialect'], bytes: Uint8Array) =>
  dialect === 'sqlite'
    ? sql<boolean>`(m.body is null or instr(m.body, ${bytes}) > 0)`
    : sql<boolean>`(m.body is null or position(${bytes}::bytea in m.body) > 0)`;

const treeOf = (db: CompressionDb, key: Uint8Array) =>
  db
    .selectFrom('compression_trees')
    .select(['id', 'status'])
    .where('key', '=', key)
    .where('type', '=', CONCURRENT_TREE)
    .executeTakeFirst();

type Lacking = Pick<TreeRow, 'key' | 'status'>;

/** A tree of these whose assets are not all known, or not all readable. */
async function lackingTree(
  db: CompressionDb,
  keys: readonly Uint8Array[] | 'all',
  missing: number | null,
): Promise<Lacking | null> {
  const one = await withheldTree(db, keys, missing);
  if (one !== null) return one;
  const unreadable = await treesOf(db, keys)
    .innerJoin('compression_assets as a', 'a.tree', 't.id')
    .where('a.state', '=', sql.lit(LEAF_STATE.unknown))
    .limit(1)
    .executeTakeFirst();
  if (unreadable !== undefined) return { ...unreadable, status: 'unreadable' };
  return keys === 'all' ? null : await unplantedTree(db, keys, missing);
}

/** Trees that may have assets: a closed one has none. */
function treesOf(db: CompressionDb, keys: readonly Uint8Array[] | 'all') {
  const trees = db
    .selectFrom('compression_trees as t')
    .select(['t.key', 't.status'])
    .where('t.type', '=', CONCURRENT_TREE)
    .where((is) => is.or([is('t.reason', 'is', null), is('t.reason', '!=', 'closed')]));
  return keys === 'all' ? trees : trees.where('t.key', 'in', [...keys]);
}

async function withheldTree(
  db: CompressionDb,
  keys: readonly Uint8Array[] | 'all',
  missing: number | null,
): Promise<Lacking | null> {
  if (keys.length === 0) return null;
  const trees = treesOf(db, keys);
  const broken = await trees.where('t.status', 'in', ['gap', 'diverged']).limit(1).executeTakeFirst();
  if (broken !== undefined) return broken;
  if (missing === null) return null;
  const behind = await trees
    .where((is) => is.or([is('t.verified_slot', 'is', null), is('t.verified_slot', '<', missing)]))
    .limit(1)
    .executeTakeFirst();
  return behind === undefined ? null : { ...behind, status: 'gap' };
}

/** A named tree that was not looked up yet. Where the chain had none, there are no assets until a block makes it. */
async function unplantedTree(
  db: CompressionDb,
  keys: readonly Uint8Array[],
  missing: number | null,
): Promise<Lacking | null> {
  const rows = await db
    .selectFrom('compression_trees')
    .select('key')
    .where('key', 'in', [...keys])
    .execute();
  const known = new Set(rows.map(({ key }) => encode32(key)));
  for (const key of keys) {
    if (known.has(encode32(key))) continue;
    const absent = await readNote(db, absentNote(key));
    if (absent === null || Number(absent) < (missing ?? 0)) return { key, status: 'unplanted' };
  }
  return null;
}

/** Whether all trees were followed from the first block of the chain on: others may have assets that no block has named since. */
async function startsWithChain(db: CompressionDb): Promise<boolean> {
  const from = await readNote(db, NOTES.allTreesFrom);
  return from !== null && Number(from) <= 1;
}

const rowsOf = (db: CompressionDb) =>
  db
    .selectFrom('compression_assets as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_metadata as m', 'm.hash', 'a.data_hash')
    .selectAll('a')
    .select(['t.key', 't.status', 't.verified_slot', 'm.body']);

const distinct = (ids: readonly Uint8Array[]): Uint8Array[] => [
  ...new Map(ids.map((id) => [encode32(id), id])).values(),
];

async function show(
  db: CompressionDb,
  rows: readonly IndexedAssetRow[],
  missing: number | null,
): Promise<readonly { readonly id: Uint8Array; readonly shown: CompressedAsset | WithheldAsset }[]> {
  const since = new Map<number, number>();
  for (const { tree, status, verified_slot } of rows) {
    if (since.has(tree)) continue;
    const least = Math.min(...rows.flatMap((row) => (row.tree === tree ? [row.seq] : [])));
    if (status === 'gap') since.set(tree, await knownSince(db, tree, least, missing));
    else since.set(tree, missing !== null && (verified_slot ?? 0) < missing ? UNKNOWN : 0);
  }
  return rows.map((row) => {
    const isCurrent = row.status !== 'diverged' && row.seq >= (since.get(row.tree) ?? 0);
    const status = row.status === 'diverged' ? 'diverged' : 'gap';
    return { id: row.id, shown: isCurrent ? assetOf(row) : withheld({ key: row.key, status }) };
  });
}

const UNKNOWN = Number.MAX_SAFE_INTEGER;

/**
 * The sequence number from which on every change of a tree up to the newest is known, or one that is not above `least`. An asset that
 * changed last behind it has not changed since, also when the past of the tree is missing.
 */
async function knownSince(db: CompressionDb, tree: number, least: number, missing: number | null): Promise<number> {
  let since = UNKNOWN;
  for (let read = 0; read < MAX_CHANGES && since > least; read += CHANGES_PER_READ) {
    const changes = await db
      .selectFrom('compression_changes')
      .select(['seq', 'slot'])
      .where('tree', '=', tree)
      .where('seq', '<', since)
      .orderBy('seq', 'desc')
      .limit(CHANGES_PER_READ)
      .execute();
    for (const { seq, slot } of changes) {
      if (since === UNKNOWN) {
        if (missing !== null && slot < missing) return UNKNOWN;
      } else if (seq !== since - 1) return since;
      since = seq;
    }
    if (changes.length < CHANGES_PER_READ) return since;
  }
  return since;
}

const WHY: Readonly<Record<string, string>> = {
  diverged: 'has diverged from the chain; its assets are withheld',
  gap: 'is missing changes; assets that they may have changed are withheld while they are fetched',
  unreadable: 'has a leaf that cannot be read; lists that it may belong to are withheld',
  unplanted: 'was not read yet; its assets are withheld until then',
};

const withheld = ({ key, status }: Lacking): WithheldAsset => ({
  withheld: `Merkle tree ${encode32(key)} ${WHY[status] ?? WHY['gap']}`,
});

const STATES = Object.fromEntries(Object.entries(LEAF_STATE).map(([name, state]) => [state, name]));

function assetOf(row: IndexedAssetRow): CompressedAsset | WithheldAsset {
  const { id, key, leaf_index, leaf, seq, slot, version, owner, delegate, data_hash, creator_hash, body } = row;
  const state = STATES[row.state] as CompressedAsset['state'] | 'unknown';
  const name = `the compressed asset ${encode32(id)}`;
  if (state === 'unknown') return { withheld: `the leaf of ${name} cannot be read` };
  if (version === null || owner === null || delegate === null || data_hash === null || creator_hash === null)
    return { withheld: `no leaf of ${name} was indexed` };
  if (body === null) return { withheld: `no indexed instruction has the metadata of ${name}` };
  const { collection_hash, asset_data_hash, flags } = row;
  return {
    id,
    tree: key,
    leafIndex: leaf_index,
    leaf,
    seq,
    slot,
    state,
    version: version as 1 | 2,
    owner,
    delegate,
    dataHash: data_hash,
    creatorHash: creator_hash,
    metadata: body,
    more:
      collection_hash === null || asset_data_hash === null
        ? null
        : { collectionHash: collection_hash, assetDataHash: asset_data_hash, flags: flags ?? 0 },
  };
}

async function changesOf(
  db: CompressionDb,
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
