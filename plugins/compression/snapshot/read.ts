import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import type { SqlValue } from '../../../src/ports/store.ts';
import {
  DIGEST_BYTES,
  damaged,
  MAGIC,
  MOST_RECORD_BYTES,
  RECORD,
  type SnapshotEnd,
  type SnapshotHeader,
  type TableHeader,
  unpackRows,
} from './record.ts';

export interface RowsPiece {
  readonly table: TableHeader;
  readonly rows: readonly (readonly SqlValue[])[];
}

const CHUNK_BYTES = 1024 * 1024;

/** The first record, once all bytes of the file have been found to be those that were written. Errors: COMPRESSION_SNAPSHOT_DAMAGED. */
export async function checkSnapshot(file: string): Promise<SnapshotHeader> {
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
    if (!hash.digest().equals(stored)) throw damaged('its bytes are not those that were written');
    const { kind, content } = await readRecord(handle, MAGIC.length, size);
    if (kind !== RECORD.header) throw damaged('it does not begin with its description');
    const header = jsonOf<SnapshotHeader>(content);
    if (header.version !== 1) throw damaged(`its version is ${header.version}`);
    return header;
  });
}

/** All rows, table after table, a few hundred at a time. Errors: COMPRESSION_SNAPSHOT_DAMAGED. */
export async function* readSnapshot(file: string): AsyncGenerator<RowsPiece> {
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
        const piece: RowsPiece = { table, rows: unpackRows(content, table.columns.length) };
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
    if (!magic.equals(MAGIC)) throw damaged('it is no snapshot');
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
  if (length > MOST_RECORD_BYTES || at + head.length + length > size - DIGEST_BYTES)
    throw damaged('a record is longer than the file');
  const content = Buffer.alloc(length);
  await readAt(handle, content, length, at + head.length);
  return { kind: head.readUInt8(), content };
}

/** Fills so many bytes of the buffer. */
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
    throw damaged('a description is no JSON', cause);
  }
}
