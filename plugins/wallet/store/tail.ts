import type { HistoryRow } from './flags.ts';
import { placeOf, positionOf } from './position.ts';

/** A row of one block: number of the address, place in the block, flags. */
export interface TailRow {
  readonly a: number;
  readonly n: number;
  readonly flags: number;
}

/** Six bytes of address, two of place, one of flags: sorted by address and place, so that one address is found by halving. */
const RECORD_BYTES = 9;
const A_BYTES = 6;

/** The rows of one block as bytes. */
export function packTail(rows: readonly TailRow[]): Buffer {
  const sorted = rows.toSorted((left, right) => left.a - right.a || left.n - right.n);
  const bytes = Buffer.allocUnsafe(sorted.length * RECORD_BYTES);
  let at = 0;
  for (const { a, n, flags } of sorted) {
    bytes.writeUIntBE(a, at, A_BYTES);
    bytes.writeUInt16BE(placeOf(n), at + A_BYTES);
    bytes[at + A_BYTES + 2] = flags;
    at += RECORD_BYTES;
  }
  return bytes;
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function unpackTail(slot: number, packed: Uint8Array): TailRow[] {
  const bytes = bufferOf(packed);
  const rows: TailRow[] = [];
  for (let at = 0; at < bytes.length; at += RECORD_BYTES) rows.push(rowAt(bytes, at, slot));
  return rows;
}

/** The rows of one address in one block, oldest first. */
export function tailRowsOf(slot: number, packed: Uint8Array, a: number): HistoryRow[] {
  const bytes = bufferOf(packed);
  let low = 0;
  let high = bytes.length / RECORD_BYTES;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (bytes.readUIntBE(middle * RECORD_BYTES, A_BYTES) < a) low = middle + 1;
    else high = middle;
  }
  const rows: HistoryRow[] = [];
  for (let at = low * RECORD_BYTES; at < bytes.length && bytes.readUIntBE(at, A_BYTES) === a; at += RECORD_BYTES)
    rows.push(rowAt(bytes, at, slot));
  return rows;
}

const rowAt = (bytes: Buffer, at: number, slot: number): TailRow => ({
  a: bytes.readUIntBE(at, A_BYTES),
  n: positionOf(slot, bytes.readUInt16BE(at + A_BYTES)),
  flags: bytes[at + A_BYTES + 2] ?? 0,
});
