import type { ChainBlock } from '../ports/block.ts';
import { createKeyHash, hashKey } from './key-hash.ts';

/**
 * Which owners (webhooks, followed wallets, trees; dense small numbers) watch an address. Millions of addresses fit because
 * everything is in typed arrays: about 36 bytes per address for key and owner and 4 to 12 for its slot.
 */

export interface AddressIndex {
  /** False when that owner watches the address already. Throws RangeError for an owner outside 0 to 2^31 - 1. */
  add(key: Uint8Array, owner: number): boolean;
  /** False when that owner does not watch the address. */
  remove(key: Uint8Array, owner: number): boolean;
  /** The entry of the key whose eight little-endian words begin at `words[at]`, or -1. Valid until the next edit. */
  find(words: Uint32Array, at: number): number;
  /**
   * Looks up the first `count` keys of `words`: writes entry + 1, or 0, of each into `found`. Looking at many keys in step
   * lets the processor wait for their memory at once, which is most of the cost of a look-up in a large set.
   */
  findAll(words: Uint32Array, count: number, found: Uint32Array): void;
  /** Number of owners of an entry, at least one. */
  ownerCount(entry: number): number;
  /** One of the owners, in no particular order. */
  ownerAt(entry: number, position: number): number;
  /** Number of addresses. */
  readonly size: number;
  bytesUsed(): number;
}

export interface AddressIndexOptions {
  /** At least four secret random words: knowing them allows making look-ups slow. */
  readonly seed: Uint32Array;
}

const KEY_WORDS = 8;
const CHUNK_BITS = 12;
const CHUNK_ENTRIES = 1 << CHUNK_BITS;
const FIRST_CHUNK_ENTRIES = 64;
const FIRST_SLOTS = 128;
const MAX_LOAD = 0.7;
const MAX_PROBES = 64;
/** Keys that are looked up together. */
const BATCH = 64;
/** Flag in a value: the rest is the offset of a list of owners, not an owner. */
const IS_LIST = 0x80000000;
const MAX_OWNER = 0x7fffffff;
/** Dead words of lists below which compaction is not worthwhile. */
const MIN_DEAD_WORDS = 16_384;

/** Scratch memory for one key and for one batch of keys, allocated once. */
function createScratch() {
  const question = new Uint32Array(KEY_WORDS);
  return {
    question,
    questionBytes: new Uint8Array(question.buffer),
    codes: new Int32Array(BATCH),
    contents: new Uint32Array(BATCH),
    firstWords: new Uint32Array(BATCH),
  };
}

export function createAddressIndex({ seed }: AddressIndexOptions): AddressIndex {
  let hash = createKeyHash(seed, false);
  let slots = new Uint32Array(FIRST_SLOTS);
  /** Number of slots minus one. A slot holds the entry + 1 in these bits and the same bits of the hash in the others. */
  let mask = FIRST_SLOTS - 1;
  /** Keys by entry. Values are stored separately: keys then span no more cache lines than necessary, and most look-ups read no value. */
  const chunks: Uint32Array[] = [new Uint32Array(FIRST_CHUNK_ENTRIES * KEY_WORDS)];
  const values: Uint32Array[] = [new Uint32Array(FIRST_CHUNK_ENTRIES)];
  let pool = createPostingsPool();
  let usedEntries = 0;
  /** First unused entry below `usedEntries`, or -1; its first word is the next one. */
  let freeEntry = -1;
  let size = 0;
  const { question, questionBytes, codes, contents, firstWords } = createScratch();

  const chunkOf = (entry: number): Uint32Array => chunks[entry >>> CHUNK_BITS]!;
  const placeOf = (entry: number): number => (entry & (CHUNK_ENTRIES - 1)) * KEY_WORDS;
  const ownerValueOf = (entry: number): number => values[entry >>> CHUNK_BITS]![entry & (CHUNK_ENTRIES - 1)]!;
  function setValue(entry: number, value: number): void {
    values[entry >>> CHUNK_BITS]![entry & (CHUNK_ENTRIES - 1)] = value;
  }

  /** The slot of a key; for an absent key -1 - the empty slot where it belongs. */
  function slotOf(words: Uint32Array, at: number): number {
    const code = hashKey(hash, words, at);
    let slot = code & mask;
    for (;;) {
      const content = slots[slot]!;
      if (content === 0) return -1 - slot;
      if (((content ^ code) & ~mask) === 0) {
        const entry = (content & mask) - 1;
        if (sameKey(chunks[entry >>> CHUNK_BITS]!, placeOf(entry), words, at)) return slot;
      }
      slot = (slot + 1) & mask;
    }
  }

  function find(words: Uint32Array, at: number): number {
    const slot = slotOf(words, at);
    return slot < 0 ? -1 : (slots[slot]! & mask) - 1;
  }

  function findAll(words: Uint32Array, count: number, found: Uint32Array): void {
    if (words.length < count * KEY_WORDS || found.length < count)
      throw new RangeError('fewer keys or places than `count`');
    for (let from = 0; from < count; from += BATCH) findBatch(words, from, Math.min(BATCH, count - from), found);
  }

  function findBatch(words: Uint32Array, from: number, count: number, found: Uint32Array): void {
    // Constants, so that the loops need not read them again.
    const [usedHash, usedSlots, usedMask] = [hash, slots, mask];
    for (let at = 0; at < count; at++) {
      const code = hashKey(usedHash, words, (from + at) * KEY_WORDS);
      codes[at] = code;
      contents[at] = usedSlots[code & usedMask]!;
    }
    for (let at = 0; at < count; at++) {
      const code = codes[at]!;
      let content = contents[at]!;
      // The next slots are adjacent in memory: probing them here costs no wait.
      for (let slot = code & usedMask; content !== 0 && ((content ^ code) & ~usedMask) !== 0; ) {
        slot = (slot + 1) & usedMask;
        content = usedSlots[slot]!;
      }
      const entry = (content & usedMask) - 1;
      found[from + at] = entry + 1;
      // Load one word of each candidate first: the others are in the same cache line.
      if (entry >= 0) firstWords[at] = chunks[entry >>> CHUNK_BITS]![placeOf(entry)]!;
    }
    for (let at = 0; at < count; at++) {
      const entry = found[from + at]! - 1;
      if (entry < 0) continue;
      const key = (from + at) * KEY_WORDS;
      if (firstWords[at] === words[key] && sameKey(chunks[entry >>> CHUNK_BITS]!, placeOf(entry), words, key)) continue;
      // Another key with the same hash bits: rare.
      found[from + at] = find(words, key) + 1;
    }
  }

  function ask(key: Uint8Array): number {
    if (key.length !== KEY_WORDS * 4) throw new RangeError('an address has 32 bytes');
    questionBytes.set(key);
    return slotOf(question, 0);
  }

  function add(key: Uint8Array, owner: number): boolean {
    if (!Number.isInteger(owner) || owner < 0 || owner > MAX_OWNER) throw new RangeError(`no owner number: ${owner}`);
    const slot = ask(key);
    if (slot < 0) {
      insert(-1 - slot, owner);
      return true;
    }
    const entry = (slots[slot]! & mask) - 1;
    const value = ownerValueOf(entry);
    if (value < IS_LIST) {
      if (value === owner) return false;
      setValue(entry, IS_LIST + pool.create(value, owner));
      return true;
    }
    const list = value - IS_LIST;
    if (pool.indexOf(list, owner) >= 0) return false;
    setValue(entry, IS_LIST + pool.append(list, owner));
    compactLists();
    return true;
  }

  /** Puts the key in `question` into an empty slot. */
  function insert(slot: number, owner: number): void {
    const entry = takeEntry();
    chunkOf(entry).set(question, placeOf(entry));
    setValue(entry, owner);
    size++;
    const code = hashKey(hash, question, 0);
    slots[slot] = (code & ~mask) | (entry + 1);
    if (size > slots.length * MAX_LOAD) rehash(slots.length * 2);
    else if (((slot - code) & mask) > MAX_PROBES && !hash.isStrong) {
      // Random keys never probe that far: the keys were chosen deliberately.
      hash = createKeyHash(seed, true);
      rehash(slots.length);
    }
  }

  function takeEntry(): number {
    if (freeEntry >= 0) {
      const entry = freeEntry;
      freeEntry = chunkOf(entry)[placeOf(entry)]! - 1;
      return entry;
    }
    const entry = usedEntries++;
    const number = entry >>> CHUNK_BITS;
    if (number === chunks.length) {
      chunks.push(new Uint32Array(CHUNK_ENTRIES * KEY_WORDS));
      values.push(new Uint32Array(CHUNK_ENTRIES));
    } else if (placeOf(entry) === chunks[number]!.length) {
      // Only the first chunk starts small.
      chunks[number] = doubled(chunks[number]!);
      values[number] = doubled(values[number]!);
    }
    return entry;
  }

  function rehash(count: number): void {
    const old = slots;
    const oldMask = mask;
    slots = new Uint32Array(count);
    mask = count - 1;
    for (const content of old) {
      if (content === 0) continue;
      const entry = (content & oldMask) - 1;
      const code = hashKey(hash, chunkOf(entry), placeOf(entry));
      let slot = code & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = (code & ~mask) | (entry + 1);
    }
  }

  function remove(key: Uint8Array, owner: number): boolean {
    const slot = ask(key);
    if (slot < 0) return false;
    const entry = (slots[slot]! & mask) - 1;
    const value = ownerValueOf(entry);
    if (value < IS_LIST) {
      if (value !== owner) return false;
      removeSlot(slot);
      chunkOf(entry)[placeOf(entry)] = freeEntry + 1;
      freeEntry = entry;
      size--;
      return true;
    }
    const list = value - IS_LIST;
    const position = pool.indexOf(list, owner);
    if (position < 0) return false;
    if (pool.count(list) > 2) setValue(entry, IS_LIST + pool.removeAt(list, position));
    else {
      setValue(entry, pool.at(list, 1 - position));
      pool.free(list);
    }
    compactLists();
    return true;
  }

  /** Fills the hole by moving back each later key of the run that may move. */
  function removeSlot(slot: number): void {
    let hole = slot;
    for (let next = (hole + 1) & mask; slots[next] !== 0; next = (next + 1) & mask) {
      const entry = (slots[next]! & mask) - 1;
      const home = hashKey(hash, chunkOf(entry), placeOf(entry)) & mask;
      if (((next - home) & mask) < ((next - hole) & mask)) continue;
      slots[hole] = slots[next]!;
      hole = next;
    }
    slots[hole] = 0;
  }

  /** Copies the live lists into a new pool when more than a quarter of the old one is dead. */
  function compactLists(): void {
    if (pool.deadWords < MIN_DEAD_WORDS || pool.deadWords * 4 < pool.usedWords) return;
    const fresh = createPostingsPool();
    for (const content of slots) {
      if (content === 0) continue;
      const entry = (content & mask) - 1;
      const value = ownerValueOf(entry);
      if (value >= IS_LIST) setValue(entry, IS_LIST + fresh.adopt(pool, value - IS_LIST));
    }
    pool = fresh;
  }

  return {
    add,
    remove,
    find,
    findAll,
    ownerCount(entry) {
      const value = ownerValueOf(entry);
      return value < IS_LIST ? 1 : pool.count(value - IS_LIST);
    },
    ownerAt(entry, position) {
      const value = ownerValueOf(entry);
      return value < IS_LIST ? value : pool.at(value - IS_LIST, position);
    },
    get size() {
      return size;
    },
    bytesUsed: () =>
      slots.byteLength + pool.bytesUsed + [...chunks, ...values].reduce((sum, chunk) => sum + chunk.byteLength, 0),
  };
}

function doubled(words: Uint32Array): Uint32Array {
  const larger = new Uint32Array(words.length * 2);
  larger.set(words);
  return larger;
}

function sameKey(chunk: Uint32Array, place: number, words: Uint32Array, at: number): boolean {
  for (let word = 0; word < KEY_WORDS; word++) if (chunk[place + word] !== words[at + word]) return false;
  return true;
}

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

const LIST_CHUNK_BITS = 16;
const LIST_CHUNK_WORDS = 1 << LIST_CHUNK_BITS;
const FIRST_LIST_WORDS = 256;
const MAX_COUNT = 60_000;
/** Lists up to this size get exactly the words they need, because they are numerous; longer ones have room to grow. */
const EXACT_WORDS = 24;

export function createPostingsPool(): PostingsPool {
  const chunks: Uint32Array[] = [new Uint32Array(FIRST_LIST_WORDS)];
  /** First free list of each size; the word after its count is the next one. Offset 0 is never used. */
  const freeLists = new Map<number, number>();
  let end = 1;
  let deadWords = 0;

  const chunkOf = (offset: number): Uint32Array => chunks[offset >>> LIST_CHUNK_BITS]!;
  const within = (offset: number): number => offset & (LIST_CHUNK_WORDS - 1);
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
    if (within(end) === 0 || within(end) + words > LIST_CHUNK_WORDS) end = chunks.length * LIST_CHUNK_WORDS;
    makeRoom(end, words);
    const offset = end;
    end += words;
    return offset;
  }

  function makeRoom(offset: number, words: number): void {
    const number = offset >>> LIST_CHUNK_BITS;
    if (number === chunks.length) chunks.push(new Uint32Array(LIST_CHUNK_WORDS));
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

/** The matches of one transaction. Numbers are ascending and distinct. */
export interface TransactionMatch {
  /** Position in `block.transactions`. */
  readonly index: number;
  /** Owners that watch a static or loaded key. */
  readonly byKey: readonly number[];
  /** Owners that watch only the owner of a token balance. Empty unless owners were requested. */
  readonly byTokenOwner: readonly number[];
}

export interface AddressMatchOptions {
  /** Whether to match owners of token balances. */
  readonly owners: boolean;
}

/**
 * The transactions of a block that touch a watched address, in block order. Each distinct key of the block is looked up once,
 * however many transactions contain it.
 */
export function matchBlock(
  block: ChainBlock,
  index: AddressIndex,
  { owners }: AddressMatchOptions,
): TransactionMatch[] {
  if (index.size === 0) return [];
  const entries = entriesOf(block, index);
  if (entries === null) return [];
  const matches: TransactionMatch[] = [];
  for (const transaction of block.transactions) {
    const hasKey = hasEntry(transaction.keys, entries);
    const hasOwner = owners && hasEntry(transaction.tokenOwners, entries);
    if (!hasKey && !hasOwner) continue;
    const byKey = hasKey ? collect(transaction.keys, entries, index) : new Set<number>();
    const byTokenOwner = hasOwner ? collect(transaction.tokenOwners, entries, index) : new Set<number>();
    for (const owner of byKey) byTokenOwner.delete(owner);
    matches.push({ index: transaction.index, byKey: ascending(byKey), byTokenOwner: ascending(byTokenOwner) });
  }
  return matches;
}

/** The entry + 1 of each key id, 0 for an unwatched key; null when no key is watched. */
function entriesOf({ keys }: ChainBlock, index: AddressIndex): Uint32Array | null {
  const entries = new Uint32Array(keys.size);
  index.findAll(keys.words, keys.size, entries);
  return entries.some((entry) => entry !== 0) ? entries : null;
}

function hasEntry(ids: Uint32Array, entries: Uint32Array): boolean {
  for (let at = 0; at < ids.length; at++) if (entries[ids[at]!] !== 0) return true;
  return false;
}

function collect(ids: Uint32Array, entries: Uint32Array, index: AddressIndex): Set<number> {
  const owners = new Set<number>();
  for (const id of ids) {
    const entry = entries[id]! - 1;
    if (entry < 0) continue;
    const count = index.ownerCount(entry);
    for (let position = 0; position < count; position++) owners.add(index.ownerAt(entry, position));
  }
  return owners;
}

function ascending(owners: Set<number>): number[] {
  return [...owners].sort((left, right) => left - right);
}
