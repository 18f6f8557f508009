import { orderOf } from './by-address.ts';
import type { HistoryRow } from './flags.ts';
import { placeOf, positionOf } from './position.ts';

/** A row of one block: number of the address, place in the block, flags. */
export interface TailRow {
  readonly a: number;
  readonly n: number;
  readonly flags: number;
}

/** Rows of one block whose addresses are in one part of all numbers. */
export interface TailPart {
  readonly part: number;
  readonly slot: number;
  readonly rows: Uint8Array;
}

/** Six bytes of address, two of place, one of flags: sorted by address and place, so that one address is found by halving. */
const RECORD_BYTES = 9;
const A_BYTES = 6;
/** A block is kept in parts, so that whoever reads an address does not read everything about all others. */
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
  // Those of an address come in ascending order mostly.
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
