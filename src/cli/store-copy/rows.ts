import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { TableShape } from '../../adapters/store/table-shapes.ts';
import type { SqlValue, Store } from '../../ports/store.ts';

/** Few enough that a page of the widest rows fits into memory many times over. */
const PAGE_ROWS = 500;

export type Row = readonly SqlValue[];

/** All rows behind a key, in the order of their keys as this database has it, page by page. */
export async function* pagesOf({ read }: Store, shape: TableShape, behind: Row | null): AsyncGenerator<readonly Row[]> {
  const { name, columns, key } = shape;
  const keys = sql.join(key.map((column) => sql.ref(column)));
  let last = behind;
  for (;;) {
    const start = last === null ? sql`` : sql`where (${keys}) > (${sql.join(last)})`;
    const { rows } = await sql<Record<string, SqlValue>>`
      select ${sql.join(columns.map((column) => sql.ref(column)))} from ${sql.table(name)}
      ${start} order by ${keys} limit ${PAGE_ROWS}`.execute(read);
    if (rows.length === 0) return;
    const page = rows.map((row) => columns.map((column) => row[column] ?? null));
    yield page;
    if (rows.length < PAGE_ROWS) return;
    last = keyOf(shape, page.at(-1) as Row);
  }
}

export const keyOf = ({ columns, key }: TableShape, row: Row): Row =>
  key.map((column) => row[columns.indexOf(column)] ?? null);

export async function countRows({ read }: Store, { name }: TableShape): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(read);
  return rows[0]?.n ?? 0;
}

export interface Checksum {
  readonly rows: number;
  /** Hexadecimal; the same for the same rows in any order. */
  readonly sum: string;
}

/** Reads a whole table. The sum adds up a hash of each row, because two databases need not order text the same way. */
export async function checksumOf(store: Store, shape: TableShape, read: (rows: number) => void): Promise<Checksum> {
  const words = new Uint32Array(8);
  let rows = 0;
  for await (const page of pagesOf(store, shape, null)) {
    for (const row of page) {
      const digest = hashOf(row);
      for (let at = 0; at < words.length; at += 1) words[at] = (words[at] ?? 0) + digest.readUInt32LE(at * 4);
    }
    rows += page.length;
    read(page.length);
  }
  return { rows, sum: Buffer.from(words.buffer).toString('hex') };
}

function hashOf(row: Row): Buffer {
  const hash = createHash('sha256');
  for (const value of row) {
    const bytes = value instanceof Uint8Array ? value : Buffer.from(String(value));
    const kind = value === null ? 'n' : value instanceof Uint8Array ? 'b' : typeof value === 'string' ? 't' : 'i';
    hash.update(`${kind}${bytes.length}:`).update(bytes);
  }
  return hash.digest();
}
