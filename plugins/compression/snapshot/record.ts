import { CodedError } from '../../../src/plugin/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import { UNDONE } from '../store/row-book.ts';
import type { Tables } from '../store/tables.ts';

/**
 * The file: eight bytes of magic, records, and the SHA-256 of everything before it. A record is one byte of kind, four of length (big-endian)
 * and its content.
 */
export const MAGIC = Buffer.from('PHCSNAP1');
export const DIGEST_BYTES = 32;
export const RECORD = { header: 1, table: 2, rows: 3, end: 4 } as const;
/** A row is at most about ten kilobytes, and a record holds a few hundred. */
export const MOST_RECORD_BYTES = 64 * 1024 * 1024;

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

export function sealRecord(kind: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(kind);
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

const TAG = { null: 0, number: 1, bytes: 2, text: 3 } as const;

/** Values of rows in sequence, each with its type. */
export function packRows(rows: readonly (readonly SqlValue[])[]): Buffer {
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
export function unpackRows(content: Buffer, columns: number): SqlValue[][] {
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
    exitCode: 78,
    ...(cause === undefined ? {} : { cause }),
  });

/** A table in a snapshot. */
export interface SnapshotTable {
  readonly name: keyof Tables;
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
    ...{ name, key, columns: [...key, ...mutable, ...fixed], rowsPerPiece: 500 },
  }));
  return [...rows, { name: 'compression_pages', key: ['id'], columns: ['id', 'bytes'], rowsPerPiece: 200 }];
}
