import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../../../src/solana/programs.ts';
import type { AccountSource } from '../source.ts';
import { createKeptAssets, type KeptAssets } from './kept.ts';
import { createStoredSource } from './stored.ts';
import { assetRows, bytesOf, readIndexState } from './stored-rows.ts';
import { type AssetDb, BURNT, type FillState, FLAG, type FollowKind, LIST, listKey, listName } from './tables.ts';

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** Which rows of a list; ids are bounds of their bytes. */
export interface ListPart {
  readonly most: number;
  readonly isDescending?: boolean;
  readonly above?: Uint8Array | null;
  readonly below?: Uint8Array | null;
  /** Flags that rows must not, or must, have one of. */
  readonly without?: number;
  readonly having?: number;
}

/** What the index of followed assets answers. */
export interface AssetIndex {
  /** Null: not followed. */
  stateOf(kind: FollowKind, key: string): Promise<FillState | null>;
  /** Names of the lists that one is of: an authority also has the Core assets of its collections. See `listName`. */
  listsOf(kind: number, key: string): Promise<readonly Uint8Array[]>;
  /** Ids of assets, in the order of their bytes. */
  list(kind: number, key: string, part: ListPart): Promise<readonly string[]>;
  /** How many assets of a list have one of the flags. */
  count(kind: number, key: string, having: number): Promise<number>;
  /** Slots at which assets came and changed; those that are not stored are absent. */
  slotsOf(ids: readonly string[]): Promise<ReadonlyMap<string, { readonly created: number; readonly updated: number }>>;
  /** Accounts of the index, and of `others` for all that is not stored. */
  source(others: AccountSource): AccountSource;
  /** Assets as they were shown. */
  readonly kept: KeptAssets;
  /** The newest indexed block. */
  slot(): Promise<number>;
}

const KEPT_COUNTS = 1_000;

export function createAssetIndex(store: Pick<Store, 'read' | 'dialect' | 'version'>, keptBytes: number): AssetIndex {
  const { dialect } = store;
  const db = store.read as AssetDb;
  const kept = createKeptAssets(store, keptBytes);
  /** Lengths of long lists, which are slow to count; valid while the revision of the index stays. */
  const counts = createLru<string, { readonly revision: number; readonly count: number }>({ max: KEPT_COUNTS });

  async function stateOf(kind: FollowKind, key: string): Promise<FillState | null> {
    const rows = await db
      .selectFrom('das_followed')
      .select(['kind', 'key', 'state', 'parent'])
      .where(({ or, eb, and }) =>
        or([
          eb('kind', '=', 'program'),
          and([eb('kind', '=', kind), eb('key', '=', bytesOf(key))]),
          eb('parent', '=', bytesOf(key)),
        ]),
      )
      .execute();
    const own = rows.filter((row) => row.kind === kind && row.parent === null && sameBytes(row.key, bytesOf(key)));
    const parts = kind === 'authority' ? rows.filter(({ parent }) => parent !== null) : [];
    if (own.length > 0 && [...own, ...parts].every(({ state }) => state === 'ready')) return 'ready';
    const programs = rows.filter(({ kind: one, state }) => one === 'program' && state === 'ready');
    const isWhole = [METADATA_PROGRAM, CORE_PROGRAM].every((name) =>
      programs.some(({ key: one }) => encode32(one) === name),
    );
    if (isWhole && (kind === 'collection' || kind === 'creator' || kind === 'authority')) return 'ready';
    return own.length > 0 ? 'filling' : null;
  }

  const isReady = async (kind: FollowKind, key: string) => (await stateOf(kind, key)) === 'ready';

  /** List keys of the Core collections of an authority. */
  async function coreCollectionsOf(authority: Uint8Array): Promise<Uint8Array[]> {
    const rows = await db
      .selectFrom('das_rows')
      .select('id')
      .where('kind', '=', LIST.authority)
      .where('key', '=', authority)
      .where(sql<boolean>`flags & ${FLAG.coreCollection} <> 0`)
      .execute();
    return rows.map(({ id }) => listKey(id));
  }

  return {
    stateOf,
    async listsOf(kind, key) {
      const own = listKey(bytesOf(key));
      const groups = kind === LIST.authority ? await coreCollectionsOf(own) : [];
      const names = [listName(kind, own), ...groups.map((group) => listName(LIST.group, group))];
      return names.flatMap((name) => [name, Uint8Array.of(name[0]! + BURNT, ...name.subarray(1))]);
    },
    async list(kind, key, { most, isDescending = false, above = null, below = null, without = 0, having = 0 }) {
      const bytes = listKey(bytesOf(key));
      const own = sql`select id, flags from das_rows where kind = ${kind} and key = ${bytes}`;
      // Core assets have the authority of their collection.
      const burnt = kind & BURNT;
      const groups = kind === (LIST.authority | burnt) ? await coreCollectionsOf(bytes) : [];
      const inherited = sql`union select id, flags from das_rows
        where kind = ${LIST.group | burnt} and ${inBytes(dialect, 'key', groups)} and flags & ${FLAG.core} <> 0`;
      const wanted = [
        ...(above === null ? [] : [sql`id > ${above}`]),
        ...(below === null ? [] : [sql`id < ${below}`]),
        ...(without === 0 ? [] : [sql`flags & ${without} = 0`]),
        ...(having === 0 ? [] : [sql`flags & ${having} <> 0`]),
      ];
      const { rows } = await sql<{ id: Uint8Array }>`select id from
        (${own} ${groups.length > 0 ? inherited : sql``}) as l
        ${wanted.length === 0 ? sql`` : sql`where ${sql.join(wanted, sql` and `)}`}
        order by id ${isDescending ? sql`desc` : sql`asc`} limit ${most}`.execute(db);
      return rows.map(({ id }) => encode32(id));
    },
    async count(kind, key, having) {
      const { revision } = await readIndexState(db);
      const name = `${kind} ${key} ${having}`;
      const known = counts.get(name);
      if (known?.revision === revision) return known.count;
      const { count } = await db
        .selectFrom('das_rows')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('kind', '=', kind)
        .where('key', '=', listKey(bytesOf(key)))
        .where(sql<boolean>`flags & ${having} <> 0`)
        .executeTakeFirstOrThrow();
      counts.set(name, { revision, count: Number(count) });
      return Number(count);
    },
    async slotsOf(ids) {
      const rows = await assetRows(db, dialect, ids);
      return new Map(rows.map(({ id, created, updated }) => [encode32(id), { created, updated }]));
    },
    source(others) {
      const view = kept.viewNow();
      const state = view === null ? null : { slot: view.slot, current_from: view.from };
      return createStoredSource({ db, dialect, others, isReady, state });
    },
    kept,
    slot: async () => (await readIndexState(db)).slot ?? 0,
  };
}
