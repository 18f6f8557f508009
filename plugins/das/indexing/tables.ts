import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import type { Transitions } from '../../../src/lib/transitions.ts';
import type { Migration, Queries, StoreTx } from '../../../src/ports/store.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';

/** An account of an asset, or one that has to be read to know whether it is of one. Keys are 32 bytes. */
export interface AccountRow {
  address: Uint8Array;
  /** The slot that it was read at; 0: not yet. */
  slot: number;
  /** The asset that it belongs to: the mint of a token account, of its metadata and of its edition; null: not known. */
  asset: Uint8Array | null;
  /** Number of its program, see `programOf`; 0 where there is no account, or one of no concern here. */
  program: number;
  /** Packed, see `pack`. */
  data: Uint8Array;
  /** Only for token accounts: the `listKey` of the owner. */
  token_owner: Uint8Array | null;
  /** It has to be read again when a block at or above this slot is indexed. */
  recheck: number | null;
  /** What an account that is empty now was before, as `program` and `data`; null: it is not empty, or was never more. */
  last_program: number | null;
  last_data: Uint8Array | null;
}

export interface AssetRow {
  id: Uint8Array;
  /** Bump seeds of the addresses of a mint's metadata and edition, see `metadataBumps`; null for Core. */
  bumps: number | null;
  /** Whether the token account that holds it belongs to it. */
  wants_holder: number;
  /** Slots of the block that brought it, or of its first reading, and of its last change. */
  created: number;
  updated: number;
  /** Unix seconds of the block that created its account; null where the index did not see it, or the block has no time. */
  created_time: number | null;
  /** Its rows of `das_rows`, see `packListed`. */
  listed: Uint8Array;
}

/** What can be followed. */
export const FOLLOW_KINDS = ['collection', 'creator', 'authority', 'owner', 'mint', 'program'] as const;
export type FollowKind = (typeof FOLLOW_KINDS)[number];

/** `ready`: everything of the key is stored. */
export type FillState = 'filling' | 'ready';

/** The states of a followed key; `none`: it is not followed. */
export const FILL = {
  follow: { none: 'filling' },
  /** A Core collection that a block gave a followed authority. */
  'follow for its authority': { none: 'filling' },
  /** One that the fill of its authority found: that fill reads its assets too. */
  'follow with its authority': { none: 'ready' },
  filled: { filling: 'ready' },
  'blocks passed over': { filling: 'filling', ready: 'filling' },
  unfollow: { filling: 'none', ready: 'none' },
} as const satisfies Transitions<FillState | 'none', string>;

export interface FollowedRow {
  kind: FollowKind;
  key: Uint8Array;
  state: FillState;
  /** The authority of a Core collection that is followed for its sake; null for what the configuration names. */
  parent: Uint8Array | null;
}

export interface AssetTables {
  das_accounts: AccountRow;
  das_assets: AssetRow;
  /** `key`: see `listKey`. */
  das_rows: { kind: number; key: Uint8Array; id: Uint8Array; flags: number };
  das_followed: FollowedRow;
  /**
   * One row. `slot`: the newest indexed block. `version` changes with everything that is written besides blocks. Accounts that were read below
   * `current_from` may have changed in blocks that were passed over. `revision` counts what `das_changes` says.
   */
  das_state: { id: number; slot: number | null; version: number; current_from: number; revision: number };
  /**
   * What a write changed, of the last `KEPT_CHANGES` writes. `ids`: assets that changed, one after the other. `lists`: those that assets may
   * have come into or left, as `listName` of each.
   */
  das_changes: { revision: number; ids: Uint8Array; lists: Uint8Array };
  /** What a block changed, or accounts that were read between blocks at this slot: JSON. */
  das_undo: { slot: number; part: number; body: string };
}

export type AssetDb = Queries<AssetTables>;

/** A reader that is further behind takes everything for changed. */
export const KEPT_CHANGES = 512;

/** Kinds of lists. */
export const LIST = { owner: 1, group: 2, creator: 3, authority: 4 } as const;
/** Added to the kind of a list: that of the burnt assets. They are in no other list. */
export const BURNT = 16;
/** The lists of keys that are followed. */
export const LISTS_OF = {
  collection: LIST.group,
  creator: LIST.creator,
  authority: LIST.authority,
  owner: LIST.owner,
} as const satisfies Partial<Record<FollowKind, number>>;
export type ListedKind = keyof typeof LISTS_OF;
/** `unverified`: of the collection or the creator. `core`, `coreCollection`: not of a mint. */
export const FLAG = { unverified: 1, fungible: 2, core: 4, coreCollection: 8 } as const;

const PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METADATA_PROGRAM, CORE_PROGRAM] as const;

export const programOf = (owner: string): number => (PROGRAMS as readonly string[]).indexOf(owner) + 1;
export const programName = (number: number): string | null => PROGRAMS[number - 1] ?? null;

const LIST_KEY_BYTES = 12;

/** What a list is stored under: a digest of its key, which is in the row of each of its assets. No other key is known to have the same one. */
export const listKey = (key: Uint8Array): Uint8Array =>
  createHash('sha256').update(key).digest().subarray(0, LIST_KEY_BYTES);

/** List keys of base58 keys, as hexadecimal text. */
export const listKeys = (keys: Iterable<string>): ReadonlyMap<string, string> =>
  new Map(Array.from(keys, (key) => [hexOf(listKey(decode32(key) as Uint8Array)), key]));

/** A list among all of them. */
export const listName = (kind: number, key: Uint8Array): Uint8Array => Uint8Array.of(kind, ...key);
export const LIST_NAME_BYTES = 1 + LIST_KEY_BYTES;

export const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');

export interface ListEntry {
  readonly kind: number;
  readonly flags: number;
  /** See `listKey`. */
  readonly key: Uint8Array;
}

const LISTED_BYTES = 2 + LIST_KEY_BYTES;

export function packListed(rows: readonly ListEntry[]): Uint8Array {
  const bytes = new Uint8Array(rows.length * LISTED_BYTES);
  rows.forEach(({ kind, flags, key }, at) => {
    bytes.set([kind, flags], at * LISTED_BYTES);
    bytes.set(key, at * LISTED_BYTES + 2);
  });
  return bytes;
}

export function readListed(bytes: Uint8Array): ListEntry[] {
  return Array.from({ length: bytes.length / LISTED_BYTES }, (_, at) => {
    const start = at * LISTED_BYTES;
    const key = bytes.subarray(start + 2, start + LISTED_BYTES);
    return { kind: bytes[start] as number, flags: bytes[start + 1] as number, key };
  });
}

const MAX_ZEROS = 255;

/** Accounts are padded with zeros: each run of them becomes a zero and its length. */
export function pack(data: Uint8Array): Uint8Array {
  const packed = new Uint8Array(data.length * 2);
  let size = 0;
  for (let at = 0; at < data.length; ) {
    let zeros = 0;
    while (zeros < MAX_ZEROS && data[at + zeros] === 0) zeros += 1;
    if (zeros === 0) packed[size++] = data[at++] as number;
    else {
      size += 1;
      packed[size++] = zeros;
      at += zeros;
    }
  }
  return packed.slice(0, size);
}

export function unpack(packed: Uint8Array): Uint8Array {
  let length = 0;
  for (let at = 0; at < packed.length; at += 1) length += packed[at] === 0 ? (packed[++at] ?? 0) : 1;
  const data = new Uint8Array(length);
  let size = 0;
  for (let at = 0; at < packed.length; at += 1) {
    const byte = packed[at] as number;
    if (byte === 0) size += packed[++at] ?? 0;
    else data[size++] = byte;
  }
  return data;
}

async function createTables(tx: StoreTx): Promise<void> {
  const isSqlite = tx.dialect === 'sqlite';
  const int = sql.raw(isSqlite ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(isSqlite ? 'BLOB' : 'BYTEA');
  const clustered = sql.raw(isSqlite ? ' WITHOUT ROWID' : '');
  const statements = [
    sql`CREATE TABLE das_accounts (
      address ${blob} PRIMARY KEY, slot ${int} NOT NULL, asset ${blob}, program ${int} NOT NULL, data ${blob} NOT NULL,
      token_owner ${blob}, recheck ${int})${clustered}`,
    sql`CREATE INDEX das_accounts_of_mint ON das_accounts (asset) WHERE token_owner IS NOT NULL`,
    sql`CREATE INDEX das_accounts_of_owner ON das_accounts (token_owner) WHERE token_owner IS NOT NULL`,
    sql`CREATE INDEX das_accounts_recheck ON das_accounts (recheck) WHERE recheck IS NOT NULL`,
    sql`CREATE TABLE das_assets (
      id ${blob} PRIMARY KEY, bumps ${int}, wants_holder ${int} NOT NULL, created ${int} NOT NULL,
      updated ${int} NOT NULL, listed ${blob} NOT NULL)${clustered}`,
    sql`CREATE TABLE das_rows (
      kind ${int} NOT NULL, key ${blob} NOT NULL, id ${blob} NOT NULL, flags ${int} NOT NULL,
      PRIMARY KEY (kind, key, id))${clustered}`,
    sql`CREATE TABLE das_followed (
      kind TEXT NOT NULL, key ${blob} NOT NULL, state TEXT NOT NULL, parent ${blob}, PRIMARY KEY (kind, key))`,
    sql`CREATE TABLE das_state (
      id ${int} PRIMARY KEY, slot ${int}, version ${int} NOT NULL, current_from ${int} NOT NULL, revision ${int} NOT NULL)`,
    sql`INSERT INTO das_state (id, slot, version, current_from, revision) VALUES (1, NULL, 0, 1, 0)`,
    sql`CREATE TABLE das_changes (revision ${int} PRIMARY KEY, ids ${blob} NOT NULL, lists ${blob} NOT NULL)`,
    sql`CREATE TABLE das_undo (slot ${int} NOT NULL, part ${int} NOT NULL, body TEXT NOT NULL, PRIMARY KEY (slot, part))`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

async function addCreatedTime({ dialect, db }: StoreTx): Promise<void> {
  const int = sql.raw(dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  await sql`ALTER TABLE das_assets ADD COLUMN created_time ${int}`.execute(db);
}

async function addLastAccounts({ dialect, db }: StoreTx): Promise<void> {
  const isSqlite = dialect === 'sqlite';
  const int = sql.raw(isSqlite ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(isSqlite ? 'BLOB' : 'BYTEA');
  await sql`ALTER TABLE das_accounts ADD COLUMN last_program ${int}`.execute(db);
  await sql`ALTER TABLE das_accounts ADD COLUMN last_data ${blob}`.execute(db);
  await sql`CREATE INDEX das_accounts_last ON das_accounts (asset) WHERE last_data IS NOT NULL`.execute(db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create the index of assets', breaking: false, up: createTables },
  { version: 2, name: 'add the creation times of assets', breaking: false, up: addCreatedTime },
  { version: 3, name: 'keep what emptied accounts were', breaking: false, up: addLastAccounts },
];
