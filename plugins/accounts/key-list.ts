/**
 * Lists of keys for paging: 32 bytes each, sorted, so that a page can also go on in a list that was made again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { decode32Into } from '../../src/lib/base58.ts';
import { skipBlanks } from '../../src/lib/json.ts';

const KEY_BYTES = 32;
/** Keys of one chunk of a list that grows: it never has to be copied. */
const CHUNK_KEYS = 32_768;
/** Up to here a range is sorted by comparing. */
const SMALL = 32;
/** How long sorting may hold the event loop. */
const SLICE_MS = 5;
const MARK = Buffer.from('"pubkey"');
/** Longest text between the mark and the end of its key, blanks included. */
const TAIL_BYTES = 256;
const QUOTE = 0x22;
const COLON = 0x3a;

/** Finds the keys in the answer of getProgramAccounts or getTokenAccountsByOwner as it comes, without parsing it. */
export interface KeyScan {
  readonly count: number;
  /** Throws RangeError for an invalid key. */
  take(chunk: Buffer): void;
  /** The keys in order of appearance. */
  finish(): KeyChunks;
}

interface KeyChunks {
  readonly chunks: readonly Uint8Array[];
  readonly count: number;
}

export function createKeyScan(): KeyScan {
  const chunks: Uint8Array[] = [];
  let count = 0;
  let carried: Buffer = Buffer.alloc(0);

  function add(text: string): void {
    const place = count % CHUNK_KEYS;
    if (place === 0) chunks.push(new Uint8Array(CHUNK_KEYS * KEY_BYTES));
    if (!decode32Into(text, chunks[chunks.length - 1]!, place * KEY_BYTES)) throw new RangeError(`${text} is no key`);
    count += 1;
  }

  return {
    get count() {
      return count;
    },
    take(chunk) {
      const bytes = carried.length === 0 ? chunk : Buffer.concat([carried, chunk]);
      let from = 0;
      for (;;) {
        const mark = bytes.indexOf(MARK, from);
        if (mark < 0) break;
        const key = keyBehind(bytes, mark + MARK.length);
        if (key === 'cut' && bytes.length - mark < TAIL_BYTES) {
          carried = Buffer.from(bytes.subarray(mark));
          return;
        }
        const found = key === 'cut' ? null : key;
        if (found !== null) add(bytes.toString('latin1', found.start, found.end));
        from = found?.end ?? mark + MARK.length;
      }
      carried = Buffer.from(bytes.subarray(Math.max(from, bytes.length - MARK.length + 1)));
    },
    finish: () => ({ chunks, count }),
  };
}

/** The text of the string that follows as the value; null when something else does. */
function keyBehind(bytes: Buffer, from: number): { readonly start: number; readonly end: number } | 'cut' | null {
  let at = skipBlanks(bytes, from);
  if (at >= bytes.length) return 'cut';
  if (bytes[at] !== COLON) return null;
  at = skipBlanks(bytes, at + 1);
  if (at >= bytes.length) return 'cut';
  if (bytes[at] !== QUOTE) return null;
  const end = bytes.indexOf(QUOTE, at + 1);
  return end < 0 ? 'cut' : { start: at + 1, end };
}

/** Sorted, each key once. Gives way to other work every few milliseconds. */
export async function sortKeys({ chunks, count }: KeyChunks): Promise<Buffer> {
  const byteOf = (index: number, depth: number) =>
    chunks[Math.floor(index / CHUNK_KEYS)]![(index % CHUNK_KEYS) * KEY_BYTES + depth]!;
  const order = new Uint32Array(count).map((_, index) => index);
  const spare = new Uint32Array(count);
  const ranges: [from: number, to: number, depth: number][] = [[0, count, 0]];
  let started = performance.now();
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const [from, to, depth] = range;
    if (to - from <= SMALL) sortSmall(order, from, to, depth, byteOf);
    else if (depth < KEY_BYTES) {
      const ends = distribute(order, spare, from, to, (index) => byteOf(index, depth));
      for (let byte = 0, start = from; byte < 256; start = ends[byte]!, byte++) {
        if (ends[byte]! - start > 1) ranges.push([start, ends[byte]!, depth + 1]);
      }
    }
    if (performance.now() - started < SLICE_MS) continue;
    await nextTurn();
    started = performance.now();
  }
  return gatherKeys(chunks, order);
}

/** Puts the range in the order of one byte and answers where each value ends. */
function distribute(
  order: Uint32Array,
  spare: Uint32Array,
  from: number,
  to: number,
  byteOf: (index: number) => number,
) {
  const ends = new Uint32Array(256);
  for (let at = from; at < to; at++) {
    const byte = byteOf(order[at]!);
    ends[byte] = ends[byte]! + 1;
  }
  const next = new Uint32Array(256);
  for (let byte = 0, sum = from; byte < 256; byte++) {
    next[byte] = sum;
    sum += ends[byte]!;
    ends[byte] = sum;
  }
  for (let at = from; at < to; at++) {
    const byte = byteOf(order[at]!);
    spare[next[byte]!] = order[at]!;
    next[byte] = next[byte]! + 1;
  }
  order.set(spare.subarray(from, to), from);
  return ends;
}

function sortSmall(
  order: Uint32Array,
  from: number,
  to: number,
  depth: number,
  byteOf: (index: number, depth: number) => number,
) {
  const compare = (a: number, b: number) => {
    for (let at = depth; at < KEY_BYTES; at++) {
      const difference = byteOf(a, at) - byteOf(b, at);
      if (difference !== 0) return difference;
    }
    return 0;
  };
  order.subarray(from, to).sort(compare);
}

function gatherKeys(chunks: readonly Uint8Array[], order: Uint32Array): Buffer {
  const keys = Buffer.allocUnsafeSlow(order.length * KEY_BYTES);
  let end = 0;
  for (const index of order) {
    const at = (index % CHUNK_KEYS) * KEY_BYTES;
    const key = chunks[Math.floor(index / CHUNK_KEYS)]!.subarray(at, at + KEY_BYTES);
    if (end > 0 && keys.compare(key, 0, KEY_BYTES, end - KEY_BYTES, end) === 0) continue;
    keys.set(key, end);
    end += KEY_BYTES;
  }
  return keys.subarray(0, end);
}

/** How many keys of a sorted list are not greater than the key. */
export function countUpTo(keys: Buffer, key: Uint8Array): number {
  let from = 0;
  let to = keys.length / KEY_BYTES;
  while (from < to) {
    const middle = (from + to) >> 1;
    const isGreater = keys.compare(key, 0, KEY_BYTES, middle * KEY_BYTES, (middle + 1) * KEY_BYTES) > 0;
    if (isGreater) to = middle;
    else from = middle + 1;
  }
  return from;
}
