import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import type { StoreTx } from '../../../src/plugin/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeMint, decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { type Asset, needsHolder } from '../../../src/solana/assets/asset.ts';
import { CORE_PROGRAM, SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { type AssetReadOptions, assetIdOf, assetOf, type FoundAsset, findAssetAccounts } from '../read-assets.ts';
import type { ReadBook } from './read-book.ts';
import { createStoredSource, type StoredSource } from './stored.ts';
import { accountRows, assetRows, bumpsOf, bytesOf } from './stored-rows.ts';
import {
  type AccountRow,
  type AssetDb,
  type AssetRow,
  BURNT,
  FLAG,
  hexOf,
  KEPT_CHANGES,
  LIST,
  type ListEntry,
  listKey,
  listName,
  pack,
  packListed,
  programName,
  programOf,
  readListed,
  unpack,
} from './tables.ts';

/** What an asset is listed by; nothing of it comes from documents. */
export const FACTS: AssetReadOptions = {
  dialect: 'hosted',
  showFungible: true,
  showUnverifiedCollections: true,
  showCollectionMetadata: false,
};

export interface Writing {
  /** Slot of the block, or of the newest one where the accounts were read between blocks. */
  readonly slot: number;
  readonly book: ReadBook;
  /** Which of its accounts are stored, and the asset that each belongs to, where that is known. */
  readonly kept: ReadonlyMap<string, string | null>;
  /** Assets whose rows are derived again besides those of accounts that changed. */
  readonly ids: Iterable<string>;
  /** Whether an account that holds nothing, or is none, is stored no longer. `old`: how it is stored. */
  isSpare(address: string, old: AccountRow | null): boolean;
  /** Accounts that the block created, and its time. */
  readonly created?: { readonly keys: ReadonlySet<string>; readonly time: number | null };
}

/** Rows as they were; null: absent. */
interface Before {
  readonly accounts: readonly (readonly [address: Uint8Array, row: AccountRow | null])[];
  readonly assets: readonly (readonly [id: Uint8Array, row: AssetRow | null])[];
}

/** Stores what was read, unless what is stored was read later, and lists the assets by what they are now. */
export async function writeReads(tx: StoreTx, writing: Writing): Promise<Before> {
  const { slot, book, kept, isSpare } = writing;
  const db = tx.db as AssetDb;
  const keys = [...kept.keys()].filter((key) => book.reads.has(key));
  const before = new Map((await accountRows(db, tx.dialect, keys)).map((row) => [encode32(row.address), row]));
  const changed = new Map<string, AccountRow | null>();
  const lists: Uint8Array[] = [];
  const touched = new Set<string>();
  for (const address of keys) {
    const { account, slot: at } = book.reads.get(address)!;
    const old = before.get(address) ?? null;
    if (old !== null && old.slot > at) continue;
    const program = account === null ? 0 : programOf(account.owner);
    const held = account === null ? null : decodeTokenAccount(account).value;
    const data = account === null || program === 0 ? new Uint8Array() : pack(account.data);
    const isSame = old !== null && old.slot > 0 && old.program === program && Buffer.compare(old.data, data) === 0;
    const oldAsset = old?.asset == null ? null : encode32(old.asset);
    const asset = ownAsset(address, account, held?.mint ?? null) ?? oldAsset ?? kept.get(address) ?? null;
    if (!isSame) for (const id of [asset, oldAsset]) if (id !== null) touched.add(id);
    const isEmpty = held === null ? program === 0 : held.amount === 0n;
    const last = lastOf(old, { account, held, isBurnt: asset !== null && isBurntIn(book, asset) });
    // Read ahead of the blocks: the branch that it was read on may not become ours.
    const isAhead = at > slot;
    const isSettled = isAhead && isSame && old.recheck !== null;
    const recheck = isAhead && !isSettled ? at : null;
    changed.set(
      address,
      (isEmpty && last.last_data === null && isSpare(address, old)) || asset === null
        ? null
        : {
            // What did not change is known as of this block; those between here and the answer may be of another branch.
            address: bytesOf(address),
            slot: isSettled ? slot : at,
            asset: bytesOf(asset),
            program,
            data,
            recheck,
            ...last,
            token_owner: held === null ? null : listKey(bytesOf(held.owner)),
          },
    );
  }
  await putAccounts(tx, changed);
  for (const [address, row] of changed) lists.push(...ownerLists(before.get(address) ?? null, row));
  const ids = new Set([...writing.ids, ...touched]);
  const assets = await derive(tx, ids, touched, lists, writing);
  await noteChanges(tx, [...ids].map(bytesOf), lists);
  return {
    accounts: Array.from(changed.keys(), (address) => [bytesOf(address), before.get(address) ?? null] as const),
    assets,
  };
}

type LastAccount = Pick<AccountRow, 'last_program' | 'last_data'>;

const NO_LAST: LastAccount = { last_program: null, last_data: null };

/** What is kept of an account that became empty. A token account that was only left is of no interest later. */
function lastOf(
  old: AccountRow | null,
  now: {
    readonly account: RawAccount | null;
    readonly held: { readonly amount: bigint } | null;
    readonly isBurnt: boolean;
  },
): LastAccount {
  if (old === null) return NO_LAST;
  const { account, held } = now;
  const isGone = account === null || programOf(account.owner) === 0 || account.data.length <= 1;
  if (!isGone && held?.amount !== 0n) return NO_LAST;
  if (old.last_data !== null && isEmptyRow(old)) return { last_program: old.last_program, last_data: old.last_data };
  const wasToken = old.token_owner !== null;
  if (old.slot === 0 || isEmptyRow(old) || (wasToken && !now.isBurnt)) return NO_LAST;
  return { last_program: old.program, last_data: old.data };
}

/** A run of zeros takes two bytes. */
const ONE_ZERO_BYTES = 2;

function isEmptyRow({ program, data, token_owner }: AccountRow): boolean {
  if (program === 0 || data.length <= ONE_ZERO_BYTES) return true;
  if (token_owner === null) return false;
  return decodeTokenAccount({ owner: programName(program) ?? '', data: unpack(data) }).value?.amount === 0n;
}

/** Whether the mint of an asset is closed or empty by what was read. */
function isBurntIn({ reads }: ReadBook, asset: string): boolean {
  const read = reads.get(asset);
  if (read === undefined) return false;
  return read.account === null || decodeMint(read.account).value?.supply === 0n;
}

/** What an account belongs to by itself: an address that was closed may come back as something else. Null where only its address says it. */
function ownAsset(address: string, account: RawAccount | null, mint: string | null): string | null {
  if (account === null || mint !== null) return mint;
  return account.owner === CORE_PROGRAM || decodeMint(account).value !== null ? address : null;
}

/** Lists of owners that a token account is or was in. */
export const ownerLists = (...rows: readonly (Pick<AccountRow, 'token_owner'> | null)[]): Uint8Array[] =>
  rows.flatMap((row) => (row === null || row.token_owner === null ? [] : [listName(LIST.owner, row.token_owner)]));

const ACCOUNT_COLUMNS = [
  'address',
  'slot',
  'asset',
  'program',
  'data',
  'token_owner',
  'recheck',
  'last_program',
  'last_data',
] as const;
const ASSET_COLUMNS = ['id', 'bumps', 'wants_holder', 'created', 'updated', 'created_time', 'listed'] as const;

async function putAccounts(tx: StoreTx, changed: ReadonlyMap<string, AccountRow | null>): Promise<void> {
  if (changed.size === 0) return;
  await (tx.db as AssetDb)
    .deleteFrom('das_accounts')
    .where(inBytes(tx.dialect, 'address', [...changed.keys()].map(bytesOf)))
    .execute();
  const rows = inOrder(
    [...changed.values()].filter((row) => row !== null),
    'address',
  );
  await tx.insertMany(
    'das_accounts',
    ACCOUNT_COLUMNS,
    rows.map((row) => valuesOf(row, ACCOUNT_COLUMNS)),
  );
}

const valuesOf = <Row>(row: Row, columns: readonly (keyof Row)[]): SqlValue[] =>
  columns.map((column) => (row[column] ?? null) as SqlValue);

/** Sorted rows are inserted into an index several times faster. */
const inOrder = <Row>(rows: readonly Row[], key: keyof Row): Row[] =>
  [...rows].sort((a, b) => Buffer.compare(a[key] as Uint8Array, b[key] as Uint8Array));

/** Adds the lists that change to `lists`. */
async function putAssets(
  tx: StoreTx,
  before: ReadonlyMap<string, AssetRow>,
  changed: ReadonlyMap<string, AssetRow | null>,
  lists: Uint8Array[],
): Promise<void> {
  if (changed.size === 0) return;
  const db = tx.db as AssetDb;
  await db
    .deleteFrom('das_assets')
    .where(inBytes(tx.dialect, 'id', [...changed.keys()].map(bytesOf)))
    .execute();
  const rows = inOrder(
    [...changed.values()].filter((row) => row !== null),
    'id',
  );
  await tx.insertMany(
    'das_assets',
    ASSET_COLUMNS,
    rows.map((row) => valuesOf(row, ASSET_COLUMNS)),
  );
  const added: SqlValue[][] = [];
  for (const [id, row] of changed) {
    const [old, now] = [before.get(id)?.listed ?? new Uint8Array(), row?.listed ?? new Uint8Array()];
    if (Buffer.compare(old, now) === 0) continue;
    lists.push(...changedLists(readListed(old), readListed(now)));
    for (const { kind, key } of readListed(old))
      await db
        .deleteFrom('das_rows')
        .where('kind', '=', kind)
        .where('key', '=', key)
        .where('id', '=', bytesOf(id))
        .execute();
    for (const { kind, key, flags } of readListed(now)) added.push([kind, key, bytesOf(id), flags]);
  }
  await tx.insertMany('das_rows', ['kind', 'key', 'id', 'flags'], added);
}

/** Lists that an asset came into or left, or in which it has other flags. */
function changedLists(old: readonly ListEntry[], now: readonly ListEntry[]): Uint8Array[] {
  const isIn = (list: readonly ListEntry[], { kind, flags, key }: ListEntry) =>
    list.some((one) => one.kind === kind && one.flags === flags && Buffer.compare(one.key, key) === 0);
  const changed = [...old.filter((one) => !isIn(now, one)), ...now.filter((one) => !isIn(old, one))];
  return changed.map(({ kind, key }) => listName(kind, key));
}

/** Takes out assets and what they are listed by. */
export async function removeAssets(tx: StoreTx, assets: readonly AssetRow[]): Promise<void> {
  const keyed = assets.map((row) => [encode32(row.id), row] as const);
  const lists: Uint8Array[] = [];
  await putAssets(tx, new Map(keyed), new Map(keyed.map(([id]) => [id, null])), lists);
  await noteChanges(
    tx,
    assets.map(({ id }) => id),
    lists,
  );
}

/** What is kept in memory of these assets and lists is no longer valid. */
export async function noteChanges(
  tx: StoreTx,
  ids: readonly Uint8Array[],
  lists: readonly Uint8Array[],
): Promise<void> {
  if (ids.length + lists.length === 0) return;
  const db = tx.db as AssetDb;
  const { revision } = await db
    .updateTable('das_state')
    .set((eb) => ({ revision: eb('revision', '+', 1) }))
    .where('id', '=', 1)
    .returning('revision')
    .executeTakeFirstOrThrow();
  const names = new Map(lists.map((list) => [hexOf(list), list]));
  const row = [revision, Buffer.concat(ids), Buffer.concat([...names.values()])];
  await tx.insertMany('das_changes', ['revision', 'ids', 'lists'], [row]);
  await db
    .deleteFrom('das_changes')
    .where('revision', '<=', revision - KEPT_CHANGES)
    .execute();
}

/**
 * Lists assets by what their stored accounts are, and adds the lists that change to `lists`. What is not known yet of one is read before the
 * next block.
 */
async function derive(
  tx: StoreTx,
  ids: ReadonlySet<string>,
  touched: ReadonlySet<string>,
  lists: Uint8Array[],
  { slot, book, created }: Writing,
): Promise<Before['assets']> {
  if (ids.size === 0) return [];
  const db = tx.db as AssetDb;
  const source = createStoredSource({ db, dialect: tx.dialect, others: null });
  const found = new Map((await findAssetAccounts([...ids], source)).map((one) => [assetIdOf(one), one]));
  const before = new Map((await assetRows(db, tx.dialect, [...ids])).map((row) => [encode32(row.id), row]));
  const changed = new Map<string, AssetRow | null>();
  const incomplete: string[] = [];
  for (const id of ids) {
    const one = found.get(id);
    const old = before.get(id);
    if (one === undefined && old === undefined) continue;
    if (isIncomplete(id, one, source, book)) incomplete.push(id);
    changed.set(id, {
      id: bytesOf(id),
      bumps: old?.bumps ?? (one?.kind === 'mint' ? bumpsOf(id, source.places(id)) : null),
      wants_holder: one?.kind === 'mint' && needsHolder(one.accounts) ? 1 : 0,
      created: old === undefined || old.created === 0 ? slot : old.created,
      updated: old === undefined || old.updated === 0 || touched.has(id) ? slot : old.updated,
      created_time: created?.keys.has(id) === true ? created.time : (old?.created_time ?? null),
      listed: packListed(one === undefined ? [] : listedOf(one)),
    });
  }
  await putAssets(tx, before, changed, lists);
  if (incomplete.length > 0) await recheck(tx, incomplete, slot);
  return Array.from(changed.keys(), (id) => [bytesOf(id), before.get(id) ?? null] as const);
}

function isIncomplete(id: string, found: FoundAsset | undefined, source: StoredSource, { asked }: ReadBook): boolean {
  const { lacking } = source;
  if (lacking.size === 0) return false;
  if (found?.kind === 'core') {
    const authority = found.asset?.updateAuthority;
    return authority?.kind === 'collection' && lacking.has(authority.address);
  }
  if (found?.kind !== 'mint') return false;
  const { metadata, edition } = source.places(id);
  return lacking.has(metadata) || lacking.has(edition) || (lacking.has(id) && !asked.has(id));
}

/** By what an asset is listed. A Core asset has the authority of its collection, and is found by that. */
function listedOf(found: FoundAsset): ListEntry[] {
  const asset = assetOf(found, null, 0, FACTS) as Asset;
  const { ownership, grouping, creators, authorities } = asset;
  const isFungible = ownership.ownership_model === 'token';
  const core = found.kind === 'core' ? (found.asset === null ? FLAG.coreCollection : FLAG.core) : 0;
  const base = core | (isFungible ? FLAG.fungible : 0);
  const inherits = found.kind === 'core' && found.asset?.updateAuthority.kind === 'collection';
  const unverified = (isVerified: boolean | undefined) => (isVerified === false ? FLAG.unverified : 0);
  const listed: [kind: number, key: string, flags: number][] = [
    ...(isFungible || ownership.owner === '' ? [] : [[LIST.owner, ownership.owner, base] as [number, string, number]]),
    ...grouping.map(({ group_value, verified }): [number, string, number] => [
      ...([LIST.group, group_value, base | unverified(verified)] as [number, string, number]),
    ]),
    ...creators.map(({ address, verified }): [number, string, number] => [
      ...([LIST.creator, address, base | unverified(verified)] as [number, string, number]),
    ]),
    ...(inherits ? [] : authorities).map(({ address }): [number, string, number] => [LIST.authority, address, base]),
  ];
  const distinct = new Map<string, ListEntry>();
  for (const [kind, address, flags] of listed) {
    const key = decode32(address);
    const name = `${kind} ${address}`;
    // A creator may be named twice.
    if (key === null || address === SYSTEM_PROGRAM || (distinct.get(name)?.flags ?? 255) < flags) continue;
    distinct.set(name, { kind: asset.burnt ? kind + BURNT : kind, key: listKey(key), flags });
  }
  return [...distinct.values()];
}

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
const fromBase64 = (text: string): Uint8Array => Buffer.from(text, 'base64');

/** A row as JSON, with bytes as `{ b: base64 }`. */
const plain = (row: object | null): Record<string, unknown> | null =>
  row === null
    ? null
    : Object.fromEntries(
        Object.entries(row).map(([name, value]) => [name, value instanceof Uint8Array ? { b: base64(value) } : value]),
      );

const unplain = <Row>(row: Record<string, unknown> | null): Row | null =>
  row === null
    ? null
    : (Object.fromEntries(
        Object.entries(row).map(([name, value]) => [
          name,
          typeof value === 'object' && value !== null ? fromBase64((value as { b: string }).b) : value,
        ]),
      ) as Row);

type PackedRows = readonly (readonly [key: string, row: Record<string, unknown> | null])[];

/** What is kept of a block until it is final, or of accounts that were read between blocks: these are only read again. */
type Undo = BlockUndo | { readonly recheck: readonly string[] };

interface BlockUndo {
  readonly version: number;
  readonly accounts: PackedRows;
  readonly assets: PackedRows;
}

/** `version` is that of the state that the block was written in. */
export async function keepUndo(
  tx: StoreTx,
  at: { readonly slot: number; readonly version: number },
  { accounts, assets }: Before,
): Promise<void> {
  const rows = (list: readonly (readonly [Uint8Array, object | null])[]): PackedRows =>
    list.map(([key, row]) => [encode32(key), plain(row)]);
  await insertUndo(tx, at.slot, 0, { version: at.version, accounts: rows(accounts), assets: rows(assets) });
}

export async function keepRechecks(
  tx: StoreTx,
  { slot, version }: { readonly slot: number; readonly version: number },
  addresses: readonly string[],
): Promise<void> {
  await insertUndo(tx, slot, version, { recheck: addresses });
}

async function insertUndo(tx: StoreTx, slot: number, part: number, undo: Undo): Promise<void> {
  await tx.insertMany('das_undo', ['slot', 'part', 'body'], [[slot, part, JSON.stringify(undo)]]);
}

/**
 * Takes a block back: its rows become what they were. If accounts were read between blocks since then, those of the block are read again
 * instead, as is everything that was read above the parent.
 */
export async function revertAssets(tx: StoreTx, slot: number, parentSlot: number, version: number): Promise<void> {
  const db = tx.db as AssetDb;
  const kept = await db
    .selectFrom('das_undo')
    .select(['slot', 'part', 'body'])
    .where('slot', '>', parentSlot)
    .execute();
  const doubtful: string[] = [];
  for (const { slot: at, part, body } of kept) {
    const undo = JSON.parse(body) as Undo;
    if ('recheck' in undo) doubtful.push(...undo.recheck);
    else if (part !== 0 || at !== slot) continue;
    else if (undo.version !== version) doubtful.push(...undo.accounts.map(([key]) => key));
    else await restore(tx, undo);
  }
  await db
    .deleteFrom('das_undo')
    .where('slot', '>', parentSlot)
    .where(({ or, eb }) => or([eb('part', '<>', 0), eb('slot', '=', slot)]))
    .execute();
  if (doubtful.length > 0) await recheck(tx, doubtful, parentSlot);
  await db.updateTable('das_accounts').set({ recheck: parentSlot }).where('recheck', '>', parentSlot).execute();
}

/** These accounts are read again with the next block. */
export async function recheck({ db, dialect }: StoreTx, addresses: readonly string[], slot: number): Promise<void> {
  await (db as AssetDb)
    .updateTable('das_accounts')
    .set({ recheck: slot })
    .where(inBytes(dialect, 'address', addresses.map(bytesOf)))
    .execute();
}

async function restore(tx: StoreTx, { accounts, assets }: BlockUndo): Promise<void> {
  const restored = new Map(accounts.map(([key, row]) => [key, unplain<AccountRow>(row)]));
  const lists = ownerLists(
    ...(await accountRows(tx.db as AssetDb, tx.dialect, [...restored.keys()])),
    ...restored.values(),
  );
  await putAccounts(tx, restored);
  const ids = assets.map(([key]) => key);
  const now = new Map((await assetRows(tx.db as AssetDb, tx.dialect, ids)).map((row) => [encode32(row.id), row]));
  await putAssets(tx, now, new Map(assets.map(([key, row]) => [key, unplain<AssetRow>(row)])), lists);
  const others = [...restored.values()].flatMap((row) => row?.asset ?? []);
  await noteChanges(tx, [...ids.map(bytesOf), ...others], lists);
}
