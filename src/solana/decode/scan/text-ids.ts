import type { KeyTableBuilder } from '../key-table.ts';

/** Ids of address texts that lie in the bytes of an answer. */
export interface TextIds {
  /** The id of the text, put into the key table when it is new; -1 when it is no address. */
  idOf(from: number, length: number): number;
}

const SHORTEST = 32;
const LONGEST = 44;
const MOST_PLACES = 8_192;

/**
 * Addresses recur in a block, so one that lies in the same place of the cache and reads the same is not decoded again. Texts that
 * push each other out only cost their decoding.
 */
export function createTextIds(bytes: Buffer, keys: KeyTableBuilder, expectedTexts: number): TextIds {
  let places = 64;
  while (places < expectedTexts && places < MOST_PLACES) places *= 2;
  const mask = places - 1;
  /** Where the text of a place begins; never 0, as an answer begins with a bracket. */
  const starts = new Int32Array(places);
  const lengths = new Int32Array(places);
  const ids = new Int32Array(places);

  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

  /** Four bytes at a time; the last four may overlap those before. */
  function isSame(from: number, other: number, length: number): boolean {
    const last = length - 4;
    for (let at = 0; at < last; at += 4)
      if (view.getInt32(from + at, true) !== view.getInt32(other + at, true)) return false;
    return view.getInt32(from + last, true) === view.getInt32(other + last, true);
  }

  return {
    idOf(from, length) {
      if (length < SHORTEST || length > LONGEST) return -1;
      const some = bytes[from + 2]! ^ (bytes[from + 7]! << 8) ^ (bytes[from + 13]! << 16);
      const mixed = Math.imul(some ^ (bytes[from + 19]! << 24) ^ bytes[from + 28]!, 0x9e3779b1);
      const place = ((mixed >>> 15) ^ mixed ^ bytes[from + 24]!) & mask;
      const known = starts[place]!;
      if (known !== 0 && lengths[place] === length && isSame(from, known, length)) return ids[place]!;
      const id = keys.internText(bytes.toString('latin1', from, from + length));
      if (id < 0) return -1;
      starts[place] = from;
      lengths[place] = length;
      ids[place] = id;
      return id;
    },
  };
}
