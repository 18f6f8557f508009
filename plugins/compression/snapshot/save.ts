import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type RawBuilder, sql } from 'kysely';
import { EXIT } from '../../../src/lib/coded-error.ts';
import {
  type ChainReader,
  type Clock,
  CodedError,
  codeOf,
  type Log,
  messageOf,
  type Store,
} from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import type { CompressionConfig } from '../config.ts';
import { createPeriodicWork } from '../repeat.ts';
import { UNDONE } from '../store/row-book.ts';
import {
  type CompressionDb,
  type CompressionTables,
  migrations,
  NOTES,
  readAtOneSlot,
  readNote,
  writeNote,
} from '../store/tables.ts';

export interface KeeperParts {
  readonly store: Store;
  readonly config: Pick<CompressionConfig, 'programId' | 'snapshotDir' | 'snapshotEverySlots'>;
  readonly chain: ChainReader | null;
  readonly genesisHash: () => Promise<string | null>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Writes a snapshot periodically, and at the end. */
export interface SnapshotKeeper {
  start(): void;
  /** Stops the timer. With a signal, writes a last snapshot, until the signal aborts. */
  stop(signal: AbortSignal | null): Promise<void>;
}

const LOOK_MS = 10_000;
const RETRY_MS = 60_000;

/** Version of the schema. */
export const snapshotSchema = (): number => migrations.at(-1)?.version ?? 0;

export function createSnapshotKeeper(parts: KeeperParts): SnapshotKeeper {
  const { store, config, clock, log } = parts;
  const { snapshotDir: folder, snapshotEverySlots } = config;
  const repeats = createPeriodicWork(clock, log);
  let lastSlot: number | null = null;

  async function save(signal: AbortSignal, dueAfter: number): Promise<void> {
    if (folder === null) return;
    const head = await headSlot(store.read as CompressionDb);
    if (lastSlot === null) lastSlot = (await listSnapshots(folder))[0]?.slot ?? 0;
    if (head < lastSlot + dueAfter) return;
    const saved = await saveNow(parts, folder, signal);
    if (saved === null) return;
    lastSlot = saved.slot;
    log.info({ ...saved }, 'a snapshot of compressed accounts was written');
  }

  return {
    start() {
      repeats.add('learning the genesis hash', 0, RETRY_MS, async () => {
        await noteGenesis(parts);
        return NEVER_MS;
      });
      if (folder === null) return;
      repeats.add('writing a snapshot', LOOK_MS, RETRY_MS, async (signal) => {
        await save(signal, snapshotEverySlots);
        return LOOK_MS;
      });
    },
    async stop(signal) {
      await repeats.stop();
      if (signal === null) return;
      await save(signal, 1).catch((error: unknown) => {
        log.warn({ code: codeOf(error), error: messageOf(error) }, 'the final snapshot could not be written');
      });
    },
  };
}

const NEVER_MS = 2_000_000_000;

const headSlot = async (db: CompressionDb): Promise<number> =>
  (await db.selectFrom('compression_head').select('slot').executeTakeFirst())?.slot ?? 0;

/** Stored, because a stopped daemon must know the chain of its rows. */
async function noteGenesis({ store, genesisHash }: Pick<KeeperParts, 'store' | 'genesisHash'>): Promise<void> {
  const hash = await genesisHash();
  if (hash === null || (await readNote(store.read as CompressionDb, NOTES.genesisHash)) === hash) return;
  await store.write((tx) => writeNote(tx, NOTES.genesisHash, hash));
}

/** Null when nothing is indexed, or the chain of the rows is unknown. Errors: as `saveSnapshot`. */
export async function saveNow(
  { store, config, chain }: Pick<KeeperParts, 'store' | 'chain'> & { readonly config: { readonly programId: string } },
  folder: string,
  signal: AbortSignal,
): Promise<SavedSnapshot | null> {
  const genesisHash = await readNote(store.read as CompressionDb, NOTES.genesisHash);
  if (genesisHash === null) return null;
  const blockhash = async (slot: number): Promise<string | null> => {
    const params = [slot, { transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion: 1 }];
    // Informational only: a snapshot without it is valid.
    const block = await chain
      ?.call<{ blockhash?: string } | null>('getBlock', params, { timeoutMs: 2_000, tenant: OWN_WORK })
      .catch(() => null);
    return block?.blockhash ?? null;
  };
  return await saveSnapshot(
    { store, blockhash, signal, header: { genesisHash, programId: config.programId, schema: snapshotSchema() } },
    folder,
  );
}

export interface SaveParts {
  readonly store: Store;
  readonly header: Pick<SnapshotHeader, 'genesisHash' | 'programId' | 'schema'>;
  /** Blockhash at a slot, when an upstream has the block. */
  readonly blockhash: (slot: number) => Promise<string | null>;
  readonly signal: AbortSignal;
}

export interface SavedSnapshot {
  readonly file: string;
  readonly slot: number;
  readonly rows: number;
  readonly bytes: number;
}

const SNAPSHOTS_KEPT = 2;
const NAME = /^compression-(\d{1,15})\.snapshot$/;

const snapshotName = (slot: number): string => `compression-${slot}.snapshot`;

/** Snapshots in a folder, newest first; empty when the folder does not exist. Errors: those of the file system. */
export async function listSnapshots(folder: string): Promise<{ readonly file: string; readonly slot: number }[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names
    .flatMap((name) => {
      const slot = NAME.exec(name)?.[1];
      return slot === undefined ? [] : [{ file: join(folder, name), slot: Number(slot) }];
    })
    .sort((a, b) => b.slot - a.slot);
}

/**
 * Writes the state of one slot into a folder and removes all but the newest two. A file gets the name of a snapshot only when it is complete
 * and synced. Memory: a few hundred rows. Null when nothing is indexed yet. Errors: those of store and file system, the reason of the signal.
 */
export async function saveSnapshot(parts: SaveParts, folder: string): Promise<SavedSnapshot | null> {
  await mkdir(folder, { recursive: true });
  const temporary = join(folder, `.compression-${process.pid}.part`);
  const handle = await open(temporary, 'w', 0o600);
  try {
    const { slot, value } = await readAtOneSlot(parts.store, (db, at) => writeState(parts, db, at, handle));
    if (value === null) return null;
    await handle.sync();
    await handle.close();
    const file = join(folder, snapshotName(slot));
    await rename(temporary, file);
    await syncFolder(dirname(file));
    for (const old of (await listSnapshots(folder)).slice(SNAPSHOTS_KEPT)) await rm(old.file, { force: true });
    return { file, slot, ...value };
  } finally {
    await handle.close().catch(() => undefined);
    await rm(temporary, { force: true });
  }
}

async function writeState(
  { header, blockhash, signal }: SaveParts,
  db: CompressionDb,
  slot: number,
  handle: FileHandle,
): Promise<Omit<SavedSnapshot, 'file' | 'slot'> | null> {
  if (slot === 0) return null;
  const out = createOut(handle);
  const { count } = await db
    .selectFrom('compression_trees')
    .select((is) => is.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  await out.write(MAGIC);
  const first: SnapshotHeader = {
    version: 1,
    ...header,
    slot,
    blockhash: await blockhash(slot),
    treeCount: Number(count),
  };
  await out.record(RECORD.header, first);
  let rows = 0;
  for (const table of snapshotTables()) {
    await out.record(RECORD.table, { name: table.name, columns: table.columns });
    for await (const piece of piecesOf(db, table)) {
      signal.throwIfAborted();
      rows += piece.length;
      await out.write(sealRecord(RECORD.rows, packRows(piece)));
    }
  }
  await out.record(RECORD.end, { rows });
  return { rows, bytes: await out.finish() };
}

/** All rows in the order of their keys. */
async function* piecesOf(db: CompressionDb, table: SnapshotTable): AsyncGenerator<SqlValue[][]> {
  const columns = sql.join(table.columns.map((column) => sql.ref(column)));
  const key = sql.join(table.key.map((column) => sql.ref(column)));
  let last: readonly SqlValue[] | null = null;
  for (;;) {
    const after: RawBuilder<unknown> = last === null ? sql`` : sql`where (${key}) > (${sql.join([...last])})`;
    const { rows }: { readonly rows: Record<string, SqlValue>[] } = await sql<
      Record<string, SqlValue>
    >`select ${columns}
      from ${sql.table(table.name)} ${after} order by ${key} limit ${table.rowsPerPiece}`.execute(db);
    if (rows.length > 0) yield rows.map((row) => table.columns.map((column) => row[column] as SqlValue));
    const end = rows.at(-1);
    if (end === undefined || rows.length < table.rowsPerPiece) return;
    last = table.key.map((column) => end[column] as SqlValue);
  }
}

function createOut(handle: FileHandle) {
  const hash: Hash = createHash('sha256');
  let bytes = 0;
  const write = async (content: Uint8Array): Promise<void> => {
    hash.update(content);
    bytes += content.length;
    for (let at = 0; at < content.length; ) at += (await handle.write(content, at)).bytesWritten;
  };
  return {
    write,
    record: (kind: number, value: object) => write(sealRecord(kind, Buffer.from(JSON.stringify(value)))),
    async finish(): Promise<number> {
      await handle.write(hash.digest());
      return bytes + 32;
    },
  };
}

/** The rename must survive a power failure like the file itself. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

/**
 * The file: eight bytes of magic, records, and the SHA-256 of everything before it. A record is one byte of kind, four of length (big-endian)
 * and its content.
 */
export const MAGIC = Buffer.from('PHCSNAP1');
export const DIGEST_BYTES = 32;
export const RECORD = { header: 1, table: 2, rows: 3, end: 4 } as const;
/** A row is at most about ten kilobytes, and a record holds a few hundred. */
export const MAX_RECORD_BYTES = 64 * 1024 * 1024;

/** First record. */
export interface SnapshotHeader {
  readonly version: 1;
  readonly genesisHash: string;
  readonly programId: string;
  /** Newest block in the snapshot. */
  readonly slot: number;
  /** Null when no upstream had it. */
  readonly blockhash: string | null;
  readonly treeCount: number;
  /** Schema version of the tables. */
  readonly schema: number;
}

/** Starts the rows of a table. */
export interface TableHeader {
  readonly name: string;
  readonly columns: readonly string[];
}

/** Last record: total number of rows. */
export interface SnapshotEnd {
  readonly rows: number;
}

function sealRecord(kind: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(kind);
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

const TAG = { null: 0, number: 1, bytes: 2, text: 3 } as const;

/** Values of rows in sequence, each with its type. */
function packRows(rows: readonly (readonly SqlValue[])[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const row of rows) for (const value of row) parts.push(...packValue(value));
  return Buffer.concat(parts);
}

function packValue(value: SqlValue): Uint8Array[] {
  if (value === null) return [Uint8Array.of(TAG.null)];
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(9, TAG.number);
    bytes.writeDoubleBE(value, 1);
    return [bytes];
  }
  const isText = typeof value === 'string';
  if (!isText && !(value instanceof Uint8Array)) throw new TypeError(`no column holds a ${typeof value}`);
  const content = isText ? Buffer.from(value) : value;
  const head = Buffer.alloc(5, isText ? TAG.text : TAG.bytes);
  head.writeUInt32BE(content.length, 1);
  return [head, content];
}

/** Rows with the given number of columns. Errors: COMPRESSION_SNAPSHOT_DAMAGED. */
export function unpackSqlRows(content: Buffer, columns: number): SqlValue[][] {
  const rows: SqlValue[][] = [];
  let at = 0;
  const take = (count: number): Buffer => {
    if (at + count > content.length) throw damaged('a row ends too soon');
    at += count;
    return content.subarray(at - count, at);
  };
  const value = (): SqlValue => {
    const tag = take(1)[0];
    if (tag === TAG.null) return null;
    if (tag === TAG.number) return take(8).readDoubleBE();
    if (tag === TAG.bytes) return Buffer.from(take(take(4).readUInt32BE()));
    if (tag === TAG.text) return take(take(4).readUInt32BE()).toString();
    throw damaged(`a value has the unknown type ${tag}`);
  };
  while (at < content.length) rows.push(Array.from({ length: columns }, value));
  return rows;
}

export const damaged = (why: string, cause?: unknown) =>
  new CodedError('COMPRESSION_SNAPSHOT_DAMAGED', `the snapshot cannot be read: ${why}`, {
    exitCode: EXIT.config,
    ...(cause === undefined ? {} : { cause }),
  });

/** A table in a snapshot. */
export interface SnapshotTable {
  readonly name: keyof CompressionTables;
  /** Order of the rows; indexed. */
  readonly key: readonly string[];
  readonly columns: readonly string[];
  /** Rows read and written at a time. */
  readonly rowsPerPiece: number;
}

/**
 * All tables with state. Undo data is excluded: a snapshot starts at its own state. Notes belong to one store only.
 */
export function snapshotTables(): SnapshotTable[] {
  const rows = UNDONE.map(({ name, key, mutable, fixed }) => ({
    name,
    key,
    columns: [...key, ...mutable, ...fixed],
    rowsPerPiece: 500,
  }));
  return [...rows, { name: 'compression_pages', key: ['id'], columns: ['id', 'bytes'], rowsPerPiece: 200 }];
}
