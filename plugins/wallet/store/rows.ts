import { sql } from 'kysely';
import { rawQuery } from '../../../src/ports/raw-query.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { type HistoryRow, placeOf, positionOf, slotOf, type WalletDb } from './tables.ts';

interface RowRange {
  /** Positions, both exclusive. */
  readonly below: number;
  readonly above: number;
  /** Rows with at least one of these flags. */
  readonly mask: number;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

/** Rows of an address in a range of the chain, including the tail. Errors: those of the store. */
export type ReadRows = (a: number, range: RowRange) => Promise<readonly HistoryRow[]>;

/** Every page runs these statements, so they are compiled once. */
export function createRowReader(store: Store): ReadRows {
  const readTail = rawQuery<Pick<TailPart, 'slot' | 'rows'>>(
    store,
    (place) =>
      `SELECT slot, rows FROM wallet_tail WHERE part = ${place()} AND slot >= ${place()} AND slot <= ${place()}`,
  );
  const readMerged = (order: 'ASC' | 'DESC') =>
    rawQuery<HistoryRow>(
      store,
      (place) =>
        `SELECT n, flags FROM wallet_rows WHERE a = ${place()} AND n < ${place()} AND n > ${place()} ` +
        `AND (flags & ${place()}) <> 0 ORDER BY n ${order} LIMIT ${place()}`,
    );
  const merged = { asc: readMerged('ASC'), desc: readMerged('DESC') };

  return async (a, { below, above, mask, limit, order }) => {
    // The tail first: rows merged in between are then seen twice, never missed.
    const tail = await readTail(store.read, [partOf(a), slotOf(Math.max(0, above)), slotOf(below)]);
    const rows = await merged[order](store.read, [a, below, above, mask, limit]);
    const fresh = tail
      .flatMap((block) => tailRowsOf(block, a))
      .filter(({ n, flags }) => n < below && n > above && (flags & mask) !== 0);
    return unite(rows, fresh, order).slice(0, limit);
  };
}

/** Merges both lists without duplicates, in the order of the first; of a duplicate the entry of the second is kept. */
export function unite<R extends HistoryRow>(
  first: readonly R[],
  second: readonly R[],
  order: 'asc' | 'desc',
): readonly R[] {
  if (second.length === 0) return first;
  const rows = new Map<number, R>(first.map((row) => [row.n, row]));
  for (const row of second) rows.set(row.n, row);
  const sign = order === 'asc' ? 1 : -1;
  return [...rows.values()].sort((left, right) => sign * (left.n - right.n));
}

/** Rows per look-up of existing ones. */
const ROWS_AT_ONCE = 2_048;

/** Final rows. Flags are added to existing rows: an address can be a wallet and a token account of another wallet. */
export async function writeTailRows(tx: StoreTx, rows: readonly TailRow[]): Promise<void> {
  const list = sorted(rows);
  for (let from = 0; from < list.length; from += ROWS_AT_ONCE) {
    const part = list.slice(from, from + ROWS_AT_ONCE);
    const values = part.map(({ a, n, flags }) => [a, n, flags]);
    const written = await tx.insertMany('wallet_rows', ['a', 'n', 'flags'], values, 'ignore');
    if (written < part.length) await addFlags(tx, part);
  }
}

async function addFlags(tx: StoreTx, rows: readonly TailRow[]): Promise<void> {
  for (const flags of new Set(rows.map((row) => row.flags))) {
    const keys = rows.filter((row) => row.flags === flags).map(({ a, n }) => `(${a}, ${n})`);
    await sql`UPDATE wallet_rows SET flags = flags | ${sql.lit(flags)}
      WHERE (flags & ${sql.lit(flags)}) <> ${sql.lit(flags)} AND (a, n) IN (VALUES ${sql.raw(keys.join())})`.execute(
      tx.db,
    );
  }
}

/** An account that two wallets owned has one row, and an address that is both has both flags. */
export function withoutRepeats(rows: readonly TailRow[]): readonly TailRow[] {
  const distinct = new Map<string, TailRow>();
  for (const row of rows) {
    const name = `${row.a}:${row.n}`;
    const known = distinct.get(name);
    distinct.set(name, known === undefined ? row : { ...row, flags: known.flags | row.flags });
  }
  return [...distinct.values()];
}

/** Smallest number of blocks per merge: sorted rows of many blocks are written several times faster than those of one. */
const MERGED_BLOCKS = 32;

/** Merges the tail of final blocks when there are enough of them; `merged` gets each row. Returns the number of rows. */
export async function mergeTail(
  tx: StoreTx,
  finalSlot: number,
  atLeast = MERGED_BLOCKS,
  merged?: (row: TailRow) => void,
): Promise<number> {
  const db = tx.db as WalletDb;
  const final = db.selectFrom('wallet_tail').where('slot', '<=', finalSlot);
  const { blocks } = await final
    .select(({ fn }) => fn.count<number>('slot').distinct().as('blocks'))
    .executeTakeFirstOrThrow();
  if (Number(blocks) < atLeast) return 0;
  let count = 0;
  // Part by part: the concatenation is ordered too, and only one part is in memory.
  for (const { part } of await final.select('part').distinct().orderBy('part').execute()) {
    const tail = await final.select(['slot', 'rows']).where('part', '=', part).orderBy('slot').execute();
    const rows = tail.flatMap(unpackTail);
    await writeTailRows(tx, rows);
    if (merged !== undefined) for (const row of rows) merged(row);
    count += rows.length;
  }
  await db.deleteFrom('wallet_tail').where('slot', '<=', finalSlot).execute();
  return count;
}

/** A row of one block: number of the address, place in the block, flags. */
export interface TailRow {
  readonly a: number;
  readonly n: number;
  readonly flags: number;
}

/** Rows of one block whose addresses are in one part of all numbers. */
interface TailPart {
  readonly part: number;
  readonly slot: number;
  readonly rows: Uint8Array;
}

/** Six bytes of address, two of place, one of flags: sorted by address and place for binary search. */
const RECORD_BYTES = 9;
const A_BYTES = 6;
/** A block is stored in parts of the address space, so that a reader of one address loads only one part. */
const PART_NUMBERS = 2 ** 42;

export const partOf = (a: number): number => Math.floor(a / PART_NUMBERS);

/** The rows of one block as bytes. */
export function packTail(slot: number, rows: readonly TailRow[]): TailPart[] {
  const bytes = Buffer.allocUnsafe(rows.length * RECORD_BYTES);
  const parts: TailPart[] = [];
  let at = 0;
  let begin = 0;
  let part = 0;
  const close = () => {
    if (at > begin) parts.push({ part, slot, rows: bytes.subarray(begin, at) });
    begin = at;
  };
  for (const { a, n, flags } of sorted(rows)) {
    if (partOf(a) !== part) close();
    part = partOf(a);
    bytes.writeUIntBE(a, at, A_BYTES);
    bytes.writeUInt16BE(placeOf(n), at + A_BYTES);
    bytes[at + A_BYTES + 2] = flags;
    at += RECORD_BYTES;
  }
  close();
  return parts;
}

/** By address and position. */
export function sorted(rows: readonly TailRow[]): TailRow[] {
  const numbers = new Float64Array(rows.length);
  for (let at = 0; at < rows.length; at += 1) numbers[at] = (rows[at] as TailRow).a;
  const order = orderOf(numbers);
  const list: TailRow[] = [];
  let before: TailRow | null = null;
  // Rows of one address mostly arrive in ascending order.
  let isInOrder = true;
  for (let at = 0; at < order.length; at += 1) {
    const row = rows[order[at] as number] as TailRow;
    if (before !== null && before.a === row.a && before.n > row.n) isInOrder = false;
    list.push(row);
    before = row;
  }
  return isInOrder ? list : list.sort((left, right) => left.a - right.a || left.n - right.n);
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function unpackTail({ slot, rows: packed }: Pick<TailPart, 'slot' | 'rows'>): TailRow[] {
  const bytes = bufferOf(packed);
  const rows: TailRow[] = [];
  for (let at = 0; at < bytes.length; at += RECORD_BYTES) rows.push(rowAt(bytes, at, slot));
  return rows;
}

/** The rows of one address in one block, oldest first. */
export function tailRowsOf({ slot, rows: packed }: Pick<TailPart, 'slot' | 'rows'>, a: number): HistoryRow[] {
  const bytes = bufferOf(packed);
  let low = 0;
  let high = bytes.length / RECORD_BYTES;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (bytes.readUIntBE(middle * RECORD_BYTES, A_BYTES) < a) low = middle + 1;
    else high = middle;
  }
  const rows: HistoryRow[] = [];
  for (let at = low * RECORD_BYTES; at < bytes.length && bytes.readUIntBE(at, A_BYTES) === a; at += RECORD_BYTES) {
    const { n, flags } = rowAt(bytes, at, slot);
    rows.push({ n, flags });
  }
  return rows;
}

const rowAt = (bytes: Buffer, at: number, slot: number): TailRow => ({
  a: bytes.readUIntBE(at, A_BYTES),
  n: positionOf(slot, bytes.readUInt16BE(at + A_BYTES)),
  flags: bytes[at + A_BYTES + 2] ?? 0,
});

const DIGIT_BITS = 12;
const DIGITS = 1 << DIGIT_BITS;
const HALF_BITS = 2 ** (2 * DIGIT_BITS);

/**
 * Indexes of 48-bit numbers in ascending order; stable. A radix sort is faster than comparing. Loops instead of
 * callbacks: it runs over every row of every block.
 */
export function orderOf(numbers: Float64Array): Uint32Array {
  const count = numbers.length;
  const low = new Uint32Array(count);
  const high = new Uint32Array(count);
  let order = new Uint32Array(count);
  for (let at = 0; at < count; at += 1) {
    const number = numbers[at] as number;
    high[at] = Math.floor(number / HALF_BITS);
    low[at] = number - (high[at] as number) * HALF_BITS;
    order[at] = at;
  }
  for (const half of [low, high]) for (const shift of [0, DIGIT_BITS]) order = byDigit(order, half, shift);
  return order;
}

function byDigit(order: Uint32Array, half: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const count = order.length;
  const next = new Uint32Array(count);
  // Start index of each digit.
  const begins = new Uint32Array(DIGITS + 1);
  for (let at = 0; at < count; at += 1) {
    const digit = ((half[at] as number) >>> shift) & (DIGITS - 1);
    begins[digit + 1] = (begins[digit + 1] as number) + 1;
  }
  for (let digit = 1; digit < DIGITS; digit += 1)
    begins[digit] = (begins[digit] as number) + (begins[digit - 1] as number);
  for (let at = 0; at < count; at += 1) {
    const place = order[at] as number;
    const digit = ((half[place] as number) >>> shift) & (DIGITS - 1);
    const free = begins[digit] as number;
    next[free] = place;
    begins[digit] = free + 1;
  }
  return next;
}
