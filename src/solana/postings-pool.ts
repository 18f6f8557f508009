/**
 * Lists of numbers of two and more entries in few large arrays: a list is [count, numbers...] at an offset. Freed lists are kept
 * by size and reused; `deadWords` shows when compaction is worthwhile.
 */
export interface PostingsPool {
  /** The offset of a new list with these two numbers. */
  create(first: number, second: number): number;
  count(offset: number): number;
  at(offset: number, position: number): number;
  indexOf(offset: number, number: number): number;
  /** Adds a number; the list may move to the returned offset. Throws RangeError at 60,000 numbers. */
  append(offset: number, number: number): number;
  /** Removes the number at a position; the last one takes its place, and the list may move to the returned offset. */
  removeAt(offset: number, position: number): number;
  free(offset: number): void;
  /** Copies a list of another pool and returns its offset here. */
  adopt(other: PostingsPool, offset: number): number;
  readonly usedWords: number;
  readonly deadWords: number;
  readonly bytesUsed: number;
}

const CHUNK_BITS = 16;
const CHUNK_WORDS = 1 << CHUNK_BITS;
const FIRST_CHUNK_WORDS = 256;
const MAX_COUNT = 60_000;
/** Lists up to this size get exactly the words they need, because they are numerous; longer ones have room to grow. */
const EXACT_WORDS = 24;

export function createPostingsPool(): PostingsPool {
  const chunks: Uint32Array[] = [new Uint32Array(FIRST_CHUNK_WORDS)];
  /** First free list of each size; the word after its count is the next one. Offset 0 is never used. */
  const freeLists = new Map<number, number>();
  let end = 1;
  let deadWords = 0;

  const chunkOf = (offset: number): Uint32Array => chunks[offset >>> CHUNK_BITS]!;
  const within = (offset: number): number => offset & (CHUNK_WORDS - 1);
  const count = (offset: number): number => chunkOf(offset)[within(offset)]!;
  const at = (offset: number, position: number): number => chunkOf(offset)[within(offset) + 1 + position]!;

  function allocate(words: number): number {
    const reusable = freeLists.get(words);
    if (reusable !== undefined) {
      const next = at(reusable, 0);
      if (next === 0) freeLists.delete(words);
      else freeLists.set(words, next);
      deadWords -= words;
      return reusable;
    }
    // A list never spans two chunks.
    if (within(end) === 0 || within(end) + words > CHUNK_WORDS) end = chunks.length * CHUNK_WORDS;
    makeRoom(end, words);
    const offset = end;
    end += words;
    return offset;
  }

  function makeRoom(offset: number, words: number): void {
    const number = offset >>> CHUNK_BITS;
    if (number === chunks.length) chunks.push(new Uint32Array(CHUNK_WORDS));
    let length = chunks[number]!.length;
    if (within(offset) + words <= length) return;
    // Only the first chunk starts small.
    while (within(offset) + words > length) length *= 2;
    const larger = new Uint32Array(length);
    larger.set(chunks[number]!);
    chunks[number] = larger;
  }

  function free(offset: number): void {
    const words = capacityFor(count(offset));
    chunkOf(offset)[within(offset) + 1] = freeLists.get(words) ?? 0;
    freeLists.set(words, offset);
    deadWords += words;
  }

  /** Copies the first `numbers` of a list to a place with room for `room`. */
  function copy(source: PostingsPool, offset: number, numbers: number, room: number): number {
    const target = allocate(capacityFor(room));
    const chunk = chunkOf(target);
    const base = within(target);
    chunk[base] = numbers;
    for (let position = 0; position < numbers; position++) chunk[base + 1 + position] = source.at(offset, position);
    return target;
  }

  function create(first: number, second: number): number {
    const offset = allocate(capacityFor(2));
    chunkOf(offset).set([2, first, second], within(offset));
    return offset;
  }

  function append(offset: number, number: number): number {
    const numbers = count(offset);
    if (numbers >= MAX_COUNT) throw new RangeError(`more than ${MAX_COUNT} owners of one address`);
    let target = offset;
    if (capacityFor(numbers + 1) !== capacityFor(numbers)) {
      target = copy(pool, offset, numbers, numbers + 1);
      free(offset);
    }
    chunkOf(target)[within(target)] = numbers + 1;
    chunkOf(target)[within(target) + 1 + numbers] = number;
    return target;
  }

  function removeAt(offset: number, position: number): number {
    const numbers = count(offset);
    const chunk = chunkOf(offset);
    chunk[within(offset) + 1 + position] = at(offset, numbers - 1);
    // Free lists are kept by size, so a list that shrinks to a smaller size has to move.
    if (capacityFor(numbers - 1) === capacityFor(numbers)) {
      chunk[within(offset)] = numbers - 1;
      return offset;
    }
    const target = copy(pool, offset, numbers - 1, numbers - 1);
    free(offset);
    return target;
  }

  function indexOf(offset: number, number: number): number {
    const chunk = chunkOf(offset);
    const from = within(offset) + 1;
    const to = from + count(offset);
    for (let place = from; place < to; place++) if (chunk[place] === number) return place - from;
    return -1;
  }

  const pool: PostingsPool = {
    create,
    count,
    at,
    indexOf,
    append,
    removeAt,
    free,
    adopt: (other, offset) => copy(other, offset, other.count(offset), other.count(offset)),
    get usedWords() {
      return end;
    },
    get deadWords() {
      return deadWords;
    },
    get bytesUsed() {
      return chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
    },
  };
  return pool;
}

/** Words of a list of this many numbers, including its count. */
function capacityFor(numbers: number): number {
  const words = Math.max(2, numbers) + 1;
  if (words <= EXACT_WORDS) return words;
  let capacity = EXACT_WORDS;
  while (capacity < words) capacity = Math.ceil(capacity * 1.25);
  return Math.min(capacity, MAX_COUNT + 1);
}
