import { sql } from 'kysely';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { byBytes, inBytes } from '../../../src/lib/in-list.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { CodedError, RpcError, type Store } from '../../../src/plugin/plugin.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { metadataBumps, metadataPlaces } from '../../../src/solana/addresses.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../../../src/solana/programs.ts';
import { type AccountSource, type AssetPlaces, type KeyedAccount, mostHeld, placesOf } from '../source.ts';
import { createKeptAssets, type KeptAssets } from './kept.ts';
import {
  type AccountRow,
  type AssetRow,
  BURNT,
  type Db,
  type FillState,
  FLAG,
  type FollowKind,
  LIST,
  listKey,
  listName,
  programName,
  type Tables,
  unpack,
} from './tables.ts';

/** An account, or that there is none, and the slot at which that was so. */
export interface AccountRead {
  readonly account: RawAccount | null;
  readonly slot: number;
}

export const bytesOf = (key: string): Uint8Array => decode32(key) as Uint8Array;

export const bumpsOf = (mint: string, { metadata, edition }: AssetPlaces): number =>
  metadataBumps(bytesOf(mint), { metadata: bytesOf(metadata), edition: bytesOf(edition) });

export async function readIndexState(db: Db): Promise<Tables['das_state']> {
  return await db.selectFrom('das_state').selectAll().where('id', '=', 1).executeTakeFirstOrThrow();
}

type Dialect = Store['dialect'];

export async function accountRows(db: Db, dialect: Dialect, keys: readonly string[]): Promise<AccountRow[]> {
  if (keys.length === 0) return [];
  return await db
    .selectFrom('das_accounts')
    .selectAll()
    .where(inBytes(dialect, 'address', keys.map(bytesOf)))
    .execute();
}

export async function assetRows(db: Db, dialect: Dialect, ids: readonly string[]): Promise<AssetRow[]> {
  if (ids.length === 0) return [];
  return await db
    .selectFrom('das_assets')
    .selectAll()
    .where(inBytes(dialect, 'id', ids.map(bytesOf)))
    .execute();
}

/** Null where there is none. */
function accountOf({ program, data }: Pick<AccountRow, 'program' | 'data'>): RawAccount | null {
  const owner = programName(program);
  return owner === null ? null : { owner, lamports: 1n, data: unpack(data) };
}

/** Accounts that were read for the index and are not stored yet. */
export interface ReadBook {
  readonly reads: ReadonlyMap<string, AccountRead>;
  note(address: string, read: AccountRead): void;
  /** Token accounts among them, by mint. */
  ofMint(mint: string): readonly string[];
  /** Mints for which the chain was asked which account holds most. */
  readonly asked: Set<string>;
}

export function createReadBook(): ReadBook {
  const reads = new Map<string, AccountRead>();
  const byMint = new Map<string, string[]>();
  return {
    reads,
    note(address, read) {
      const held = read.account === null ? null : decodeTokenAccount(read.account).value;
      if (held !== null && !(byMint.get(held.mint) ?? []).includes(address))
        byMint.set(held.mint, [...(byMint.get(held.mint) ?? []), address]);
      reads.set(address, read);
    },
    ofMint: (mint) => byMint.get(mint) ?? [],
    asked: new Set(),
  };
}

export interface StoredSource extends AccountSource {
  /** Accounts that are not known, and mints whose holder is not, where there is nobody to ask. */
  readonly lacking: ReadonlySet<string>;
}

interface StoredParts {
  readonly db: Db;
  readonly dialect: Dialect;
  /** Source of accounts that are not stored; null: they are not asked for. */
  readonly others: AccountSource | null;
  /** What was read newer than it is stored; what `others` answers is added. */
  readonly book?: ReadBook;
  readonly isReady?: (kind: FollowKind, key: string) => Promise<boolean>;
  /** Where it is known that nothing was written since; otherwise it is read. */
  readonly state?: IndexState | null;
}

type IndexState = Pick<Tables['das_state'], 'slot' | 'current_from'>;

/** An account, and the members of its asset if it is the account of one. `place`: of its key in the question. */
interface StoredRow extends Pick<AccountRow, 'program' | 'data'>, Pick<AssetRow, 'bumps' | 'created_time'> {
  readonly place: number;
  readonly wants_holder: AssetRow['wants_holder'] | null;
}

/** The accounts of the index, as one of the chain answers them. */
export function createStoredSource({ db, dialect, others, book, isReady, state: known }: StoredParts): StoredSource {
  const lacking = new Set<string>();
  const foreign = new Set<string>();
  const assets = new Map<string, Pick<AssetRow, 'bumps' | 'created_time' | 'wants_holder'>>();
  const places = new Map<string, AssetPlaces>();
  /** Amounts of the stored accounts of mints. */
  const holders = new Map<string, Map<string, bigint>>();
  /** The accounts of `holders`: the one with the largest amount is read next. */
  const holderAccounts = new Map<string, RawAccount | null>();
  /** Mints whose holders are read together, in the next turn of the promises. */
  let holding: { readonly mints: Set<string>; readonly read: Promise<void> } | null = null;
  let state: Promise<IndexState> | null = known == null ? null : Promise.resolve(known);
  let oldest = 0;
  let isOfIndex = true;

  function ask(): AccountSource {
    if (others === null) throw new Error('the index has no such question');
    isOfIndex = false;
    return others;
  }

  async function current(): Promise<{ readonly from: number }> {
    state ??= readIndexState(db);
    const { slot, current_from } = await state;
    return { from: slot === null ? Number.MAX_SAFE_INTEGER : current_from };
  }

  async function stored(keys: readonly string[]): Promise<Map<string, RawAccount | null>> {
    const { from } = await current();
    const table = byBytes(dialect, { table: 'das_accounts', column: 'address' }, keys.map(bytesOf));
    const { rows } = await sql<StoredRow>`
      select k.place, t.program, t.data, a.bumps, a.created_time, a.wants_holder from ${table}
      left join das_assets as a on a.id = case when t.asset = t.address then t.address end
      where t.slot >= ${from}`.execute(db);
    if (rows.length > 0) await used();
    const accounts = new Map<string, RawAccount | null>();
    for (const { place, program, data, bumps, created_time, wants_holder } of rows) {
      const key = keys[place] as string;
      accounts.set(key, accountOf({ program, data }));
      if (wants_holder !== null) assets.set(key, { bumps, created_time, wants_holder });
    }
    return accounts;
  }

  /** An answer is as old as the index, whenever its accounts were read. */
  async function used(): Promise<void> {
    const slot = (await state)?.slot ?? 0;
    oldest = oldest === 0 ? slot : Math.min(oldest, slot);
  }

  function loadHolders(mint: string): Promise<void> {
    if (holding === null) {
      const mints = new Set<string>();
      const read = Promise.resolve().then(() => {
        holding = null;
        return readHolders([...mints]);
      });
      holding = { mints, read };
    }
    holding.mints.add(mint);
    return holding.read;
  }

  async function readHolders(mints: readonly string[]): Promise<void> {
    const { from } = await current();
    const table = byBytes(dialect, { table: 'das_accounts', column: 'asset' }, mints.map(bytesOf));
    const { rows } = await sql<Pick<AccountRow, 'address' | 'program' | 'data'> & { place: number }>`
      select k.place, t.address, t.program, t.data from ${table}
        where t.token_owner is not null and t.slot >= ${from}`.execute(db);
    const found = mints.map(() => new Map<string, bigint>());
    for (const row of rows) {
      const account = accountOf(row);
      const amount = account === null ? 0n : (decodeTokenAccount(account).value?.amount ?? 0n);
      const address = encode32(row.address);
      found[row.place]!.set(address, amount);
      holderAccounts.set(address, account);
    }
    for (const [at, mint] of mints.entries()) holders.set(mint, found[at]!);
  }

  /** Accounts of a mint that hold something, as far as they are known. */
  function amountsOf(mint: string): Map<string, bigint> {
    const amounts = new Map(holders.get(mint) ?? []);
    for (const address of [...amounts.keys(), ...(book?.ofMint(mint) ?? [])]) {
      const read = book?.reads.get(address);
      if (read === undefined) continue;
      const held = read.account === null ? null : decodeTokenAccount(read.account).value;
      // It may be closed, or an account of another mint by now.
      amounts.set(address, held?.mint === mint ? held.amount : 0n);
    }
    for (const [address, amount] of amounts) if (amount === 0n) amounts.delete(address);
    return amounts;
  }

  async function listed(column: 'token_owner' | 'asset', key: string): Promise<KeyedAccount[]> {
    const { from } = await current();
    await used();
    const rows = await db
      .selectFrom('das_accounts')
      .select(['address', 'program', 'data'])
      .where('token_owner', 'is not', null)
      .where(column, '=', column === 'asset' ? bytesOf(key) : listKey(bytesOf(key)))
      .where('slot', '>=', from)
      .execute();
    return rows.flatMap((row) => {
      const account = accountOf(row);
      return account === null ? [] : [{ address: encode32(row.address), account }];
    });
  }

  /** Accounts of burnt assets as they were; those that the index still has as living may have gone in a block that it has not read. */
  async function lastAccounts(ids: readonly string[]): Promise<Map<string, readonly KeyedAccount[]>> {
    const owners = new Map<string, string>();
    for (const id of ids) for (const address of [id, ...Object.values(placesOfMint(id))]) owners.set(address, id);
    const assetIds = ids.map(bytesOf);
    const rows = await db
      .selectFrom('das_accounts')
      .select(['address', 'slot', 'asset', 'program', 'data', 'last_program', 'last_data'])
      .where(({ or, and, eb }) =>
        or([
          sql<boolean>`${inBytes(dialect, 'address', [...owners.keys()].map(bytesOf))}`,
          and([sql<boolean>`${inBytes(dialect, 'asset', assetIds)}`, eb('last_data', 'is not', null)]),
          and([sql<boolean>`${inBytes(dialect, 'asset', assetIds)}`, eb('token_owner', 'is not', null)]),
        ]),
      )
      .orderBy('slot')
      .execute();
    if (rows.length > 0) await used();
    const found = new Map<string, KeyedAccount[]>();
    for (const { address: bytes, asset, program, data, last_program, last_data } of rows) {
      const account = accountOf(
        last_data === null ? { program, data } : { program: last_program ?? 0, data: last_data },
      );
      const address = encode32(bytes);
      const id = owners.get(address) ?? (asset === null ? null : encode32(asset));
      if (account === null || id === null) continue;
      found.set(id, [...(found.get(id) ?? []), { address, account }]);
    }
    return found;
  }

  function placesOfMint(mint: string): AssetPlaces {
    let found = places.get(mint);
    if (found !== undefined) return found;
    const bumps = assets.get(mint)?.bumps ?? null;
    found = bumps === null ? placesOf(mint) : metadataPlaces(mint, bumps);
    places.set(mint, found);
    return found;
  }

  return {
    lacking,
    lastAccounts,
    isStored: (address) => !foreign.has(address),
    get isOfIndex() {
      return isOfIndex;
    },
    async accounts(keys) {
      const found = new Map<string, RawAccount | null>();
      for (const key of keys) {
        const read = book?.reads.get(key);
        const account = read === undefined ? holderAccounts.get(key) : read.account;
        if (account !== undefined) found.set(key, account);
      }
      const absent = [...new Set(keys)].filter((key) => !found.has(key));
      if (absent.length === 0) return found;
      for (const [key, account] of await stored(absent)) found.set(key, account);
      const missing = absent.filter((key) => !found.has(key));
      if (missing.length === 0) return found;
      if (others === null) for (const key of missing) lacking.add(key);
      else
        for (const [key, account] of await ask().accounts(missing)) {
          found.set(key, account);
          foreign.add(key);
          book?.note(key, { account, slot: others.slotOf(key) });
        }
      return found;
    },
    async largest(mint, supply) {
      if (!holders.has(mint)) await loadHolders(mint);
      const amounts = amountsOf(mint);
      // What a request is answered from is complete: blocks and fills asked where they had to.
      const isWhole = others !== null && book === undefined && assets.get(mint)?.wants_holder === 1;
      if (isSettled(amounts, supply) || (isWhole && amounts.size > 0)) return mostHeld(amounts);
      if (others === null) {
        lacking.add(mint);
        return mostHeld(amounts);
      }
      const address = await ask()
        .largest(mint, supply)
        .catch((error: unknown) => {
          // The block is older than the chain, on which the mint may be closed.
          if (book === undefined || !isNoMint(error)) throw error;
          return null;
        });
      foreign.add(mint);
      book?.asked.add(mint);
      // What is stored of it may be older than the answer.
      if (address !== null && book !== undefined)
        for (const [key, account] of await ask().accounts([address]))
          book.note(key, { account, slot: others.slotOf(key) });
      return address;
    },
    async ofOwner(owner) {
      if (others === null || (await isReady?.('owner', owner)) === true) return await listed('token_owner', owner);
      const held = await ask().ofOwner(owner);
      for (const { address } of held) foreign.add(address);
      return held;
    },
    async ofMint(mint, program) {
      if (others === null || (await isReady?.('mint', mint)) === true) return await listed('asset', mint);
      return await ask().ofMint(mint, program);
    },
    places: placesOfMint,
    createdTime: (id) => assets.get(id)?.created_time ?? null,
    get slot() {
      const other = others?.slot ?? 0;
      return oldest === 0 || other === 0 ? Math.max(oldest, other) : Math.min(oldest, other);
    },
    slotOf: (address) => book?.reads.get(address)?.slot ?? others?.slotOf(address) ?? 0,
    ofProgram: (program, filters) => ask().ofProgram(program, filters),
    lamports: (owner) => ask().lamports(owner),
    firstTransaction: (address) => ask().firstTransaction(address),
    assetsElsewhere: (ids, options) => ask().assetsElsewhere(ids, options),
    passOn: (method, params) => ask().passOn(method, params),
  };
}

const INVALID_PARAMS = -32_602;

const isNoMint = (error: unknown): boolean =>
  error instanceof RpcError && error.cause instanceof CodedError && error.cause.facts['rpcCode'] === INVALID_PARAMS;

/** Whether no other account can hold more than the largest of these. */
function isSettled(amounts: ReadonlyMap<string, bigint>, supply: bigint): boolean {
  let [sum, most] = [0n, 0n];
  for (const amount of amounts.values()) {
    sum += amount;
    if (amount > most) most = amount;
  }
  return most > 0n && most > supply - sum;
}

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
  const db = store.read as Db;
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
