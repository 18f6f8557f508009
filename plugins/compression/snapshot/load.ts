import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { EXIT } from '../../../src/lib/coded-error.ts';
import { CodedError, type Random, type Store, type StoreTx } from '../../../src/plugin/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { createKeccakPairs } from '../../../src/solana/concurrent/tree.ts';
import { pathPages, zeroHashes } from '../../../src/solana/merkle/path.ts';
import { type CompressionDb, NOTES, type TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { DAMAGED, leadsToRoot, pageId, readTreePages } from '../trees/page-book.ts';
import type { TreeReader } from '../trees/tree-reader.ts';
import {
  DIGEST_BYTES,
  damaged,
  MAGIC,
  MAX_RECORD_BYTES,
  RECORD,
  type SnapshotEnd,
  type SnapshotHeader,
  snapshotTables,
  type TableHeader,
  unpackSqlRows,
} from './save.ts';

export interface LoadParts {
  readonly store: Store;
  readonly hashing: Hashing;
  readonly random: Random;
  readonly programId: string;
  readonly schema: number;
  /** The followed chain; null without an upstream: nothing is compared with the chain then. */
  readonly chain: { readonly genesisHash: string; readonly reader: Pick<TreeReader, 'rootAt'> } | null;
  /** Replaces existing rows. */
  readonly replaces: boolean;
  /** Runs in the transaction, with the newest slot of the replaced rows; null when the store was empty. */
  readonly also: (tx: StoreTx, header: SnapshotHeader, headSlot: number | null) => Promise<void>;
  /** Called after each piece. */
  readonly progress: (rows: number) => void;
}

export interface LoadedSnapshot {
  readonly header: SnapshotHeader;
  readonly rows: number;
  /** Trees whose root was found in the account on the chain, and those whose root is too old for it. */
  readonly rootsFound: number;
  readonly rootsTooOld: number;
}

/**
 * Loads a snapshot into the store, all or nothing. First checks the bytes of the file, its chain, a proof of each tree, and the roots of the
 * trees against the chain. Errors: COMPRESSION_SNAPSHOT_DAMAGED, _FOREIGN, _WRONG, _IN_USE; those of the store.
 */
export async function loadSnapshot(parts: LoadParts, file: string): Promise<LoadedSnapshot> {
  const header = await checkSnapshot(file);
  checkOrigin(parts, header);
  const roots = await compareRoots(parts, await treesOf(file));
  const rows = await parts.store.write(async (tx) => {
    const headSlot = await makeRoom(parts, tx);
    let count = 0;
    for await (const piece of readSnapshot(file)) {
      count += await insert(tx, piece);
      parts.progress(count);
    }
    await foldOneEach(parts, tx);
    await tx.insertMany(
      'compression_notes',
      ['name', 'value'],
      [
        [NOTES.snapshotSlot, String(header.slot)],
        [NOTES.genesisHash, header.genesisHash],
      ],
    );
    await parts.also(tx, header, headSlot);
    return count;
  });
  return { header, rows, ...roots };
}

function checkOrigin({ chain, programId, schema }: LoadParts, header: SnapshotHeader): void {
  const foreign = (what: string, theirs: unknown, ours: unknown) =>
    new CodedError('COMPRESSION_SNAPSHOT_FOREIGN', `the snapshot is of another ${what}: ${theirs}, and not ${ours}`, {
      exitCode: EXIT.config,
    });
  if (header.programId !== programId) throw foreign('program', header.programId, programId);
  if (header.schema !== schema) throw foreign('step of the schema', header.schema, schema);
  if (chain !== null && chain.genesisHash !== header.genesisHash)
    throw foreign('chain', header.genesisHash, chain.genesisHash);
}

/** The trees come first. */
async function treesOf(file: string): Promise<TreeRow[]> {
  const trees: TreeRow[] = [];
  for await (const { table, rows } of readSnapshot(file)) {
    if (table.name !== 'compression_trees') break;
    const columns = table.columns;
    for (const row of rows)
      trees.push(Object.fromEntries(columns.map((name, i) => [name, row[i]])) as unknown as TreeRow);
  }
  return trees;
}

const LIGHT_TYPES: ReadonlySet<number> = new Set(Object.values(TREE_TYPE));

async function compareRoots(
  { chain }: LoadParts,
  trees: readonly TreeRow[],
): Promise<Pick<LoadedSnapshot, 'rootsFound' | 'rootsTooOld'>> {
  let rootsFound = 0;
  let rootsTooOld = 0;
  for (const tree of chain === null ? [] : trees) {
    const capacity = tree.root_capacity;
    if (!LIGHT_TYPES.has(tree.type) || capacity === null || tree.status === 'diverged') continue;
    const found = await chain?.reader.rootAt(tree, tree.seq, capacity);
    if (found === undefined || found.root === null) continue;
    if (found.seq - tree.seq >= capacity / 2) rootsTooOld += 1;
    else if (found.seq < tree.seq || !equalBytes(found.root, tree.root)) throw wrong(tree, 'is not the chain’s');
    else rootsFound += 1;
  }
  return { rootsFound, rootsTooOld };
}

const wrong = ({ key, seq }: TreeRow, how: string) =>
  new CodedError('COMPRESSION_SNAPSHOT_WRONG', `the root of tree ${encode32(key)} at sequence ${seq} ${how}`, {
    exitCode: EXIT.config,
  });

/** Returns the newest slot of the removed rows. */
async function makeRoom({ replaces }: LoadParts, { db }: StoreTx): Promise<number | null> {
  const own = db as CompressionDb;
  const head = await own.selectFrom('compression_head').select('slot').executeTakeFirst();
  if (!replaces && head !== undefined)
    throw new CodedError('COMPRESSION_SNAPSHOT_IN_USE', 'the store holds compressed accounts already; see --replace', {
      exitCode: EXIT.usage,
    });
  for (const { name } of snapshotTables()) await own.deleteFrom(name).execute();
  await own.deleteFrom('compression_undo').execute();
  await own.deleteFrom('compression_notes').execute();
  return head?.slot ?? null;
}

async function insert(tx: StoreTx, { table, rows }: RowsPiece): Promise<number> {
  const known = snapshotTables().find(({ name }) => name === table.name);
  if (known === undefined || table.columns.some((column) => !known.columns.includes(column)))
    throw damaged(`there is no table ${table.name} of that form`);
  return await tx.insertMany(table.name, table.columns, rows as readonly (readonly SqlValue[])[]);
}

/** A random leaf of each tree must lead to the root. */
async function foldOneEach({ hashing, random }: LoadParts, tx: StoreTx): Promise<void> {
  const keccak = createKeccakPairs();
  for (const tree of await (tx.db as CompressionDb).selectFrom('compression_trees').selectAll().execute()) {
    if (tree.status === 'diverged') continue;
    const isLight = LIGHT_TYPES.has(tree.type);
    const hasher = isLight ? hashing.poseidon : keccak;
    const zeros = isLight ? hashing.zeros : zeroHashes(keccak, tree.height);
    const leafIndex = Math.floor(random.float() * Math.max(1, tree.next_index));
    const ids = pathPages(tree.height, leafIndex).map((key) => pageId(tree.id, key));
    const pages = await readTreePages(tx.db as CompressionDb, ids);
    const path = ids.map((id) => pages.get(id) ?? null);
    if (path.some((nodes) => nodes === DAMAGED)) throw wrong(tree, 'is above a damaged page');
    const nodes = path.map((page) => (page === DAMAGED ? null : page));
    if (!leadsToRoot(hasher, zeros, { tree, leafIndex }, nodes))
      throw wrong(tree, `is not the one of leaf ${leafIndex}`);
  }
}

interface RowsPiece {
  readonly table: TableHeader;
  readonly rows: readonly (readonly SqlValue[])[];
}

const CHUNK_BYTES = 1024 * 1024;

/** The first record, after the checksum of the file was verified. Errors: COMPRESSION_SNAPSHOT_DAMAGED. */
async function checkSnapshot(file: string): Promise<SnapshotHeader> {
  return await withFile(file, async (handle, size) => {
    const hash = createHash('sha256');
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let at = 0; at < size - DIGEST_BYTES; ) {
      const bytesRead = await readAt(handle, chunk, Math.min(CHUNK_BYTES, size - DIGEST_BYTES - at), at);
      hash.update(chunk.subarray(0, bytesRead));
      at += bytesRead;
    }
    const stored = Buffer.alloc(DIGEST_BYTES);
    await readAt(handle, stored, DIGEST_BYTES, size - DIGEST_BYTES);
    if (!hash.digest().equals(stored)) throw damaged('its checksum does not match');
    const { kind, content } = await readRecord(handle, MAGIC.length, size);
    if (kind !== RECORD.header) throw damaged('it does not begin with its description');
    const header = jsonOf<SnapshotHeader>(content);
    if (header.version !== 1) throw damaged(`its version is ${header.version}`);
    return header;
  });
}

/** All rows, table after table, a few hundred at a time. Errors: COMPRESSION_SNAPSHOT_DAMAGED. */
async function* readSnapshot(file: string): AsyncGenerator<RowsPiece> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    let table: TableHeader | null = null;
    let rows = 0;
    for (let at = MAGIC.length; at < size - DIGEST_BYTES; ) {
      const { kind, content } = await readRecord(handle, at, size);
      at += 5 + content.length;
      if (kind === RECORD.table) table = jsonOf<TableHeader>(content);
      else if (kind === RECORD.rows && table !== null) {
        const piece: RowsPiece = { table, rows: unpackSqlRows(content, table.columns.length) };
        rows += piece.rows.length;
        yield piece;
      } else if (kind === RECORD.end) {
        if (jsonOf<SnapshotEnd>(content).rows !== rows) throw damaged('rows are missing');
        return;
      }
    }
    throw damaged('it has no end');
  } finally {
    await handle.close();
  }
}

async function withFile<T>(file: string, work: (handle: FileHandle, size: number) => Promise<T>): Promise<T> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    const magic = Buffer.alloc(MAGIC.length);
    if (size < MAGIC.length + DIGEST_BYTES) throw damaged('it is too short');
    await readAt(handle, magic, magic.length, 0);
    if (!magic.equals(MAGIC)) throw damaged('it is not a snapshot');
    return await work(handle, size);
  } finally {
    await handle.close();
  }
}

async function readRecord(handle: FileHandle, at: number, size: number) {
  const head = Buffer.alloc(5);
  if (at + head.length > size - DIGEST_BYTES) throw damaged('a record ends too soon');
  await readAt(handle, head, head.length, at);
  const length = head.readUInt32BE(1);
  if (length > MAX_RECORD_BYTES || at + head.length + length > size - DIGEST_BYTES)
    throw damaged('a record is longer than the file');
  const content = Buffer.alloc(length);
  await readAt(handle, content, length, at + head.length);
  return { kind: head.readUInt8(), content };
}

/** Reads this many bytes into the buffer. */
async function readAt(handle: FileHandle, buffer: Buffer, length: number, at: number): Promise<number> {
  for (let done = 0; done < length; ) {
    const { bytesRead } = await handle.read(buffer, done, length - done, at + done);
    if (bytesRead === 0) throw damaged('it ends too soon');
    done += bytesRead;
  }
  return length;
}

function jsonOf<T>(content: Buffer): T {
  try {
    return JSON.parse(content.toString()) as T;
  } catch (cause) {
    throw damaged('a description is not JSON', cause);
  }
}
