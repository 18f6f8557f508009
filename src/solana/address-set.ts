import type { ChainBlock } from '../ports/block.ts';
import { createKeyHash, hashKey, type KeyHash } from './key-hash.ts';

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

/**
 * An open hash table of entries. A slot has the number of its entry and a part of the hash, so that a probe reads a key only when it is
 * likely to be the right one; no key stands behind an empty slot of its run. Entries that are removed form a list, and are used again first.
 */
class HashedIndex implements AddressIndex {
  private readonly seed: Uint32Array;
  private hash: KeyHash;
  private slots = new Uint32Array(FIRST_SLOTS);
  /** Number of slots minus one. A slot holds the entry + 1 in these bits and the same bits of the hash in the others. */
  private mask = FIRST_SLOTS - 1;
  /** Keys by entry. Values are stored separately: keys then span no more cache lines than necessary, and most look-ups read no value. */
  private readonly chunks: Uint32Array[] = [new Uint32Array(FIRST_CHUNK_ENTRIES * KEY_WORDS)];
  private readonly values: Uint32Array[] = [new Uint32Array(FIRST_CHUNK_ENTRIES)];
  private pool = createPostingsPool();
  private usedEntries = 0;
  /** First unused entry below `usedEntries`, or -1; its first word is the next one. */
  private freeEntry = -1;
  size = 0;
  // Scratch memory for one key and for one batch of keys, allocated once.
  private readonly question = new Uint32Array(KEY_WORDS);
  private readonly questionBytes = new Uint8Array(this.question.buffer);
  private readonly codes = new Int32Array(BATCH);
  private readonly contents = new Uint32Array(BATCH);
  private readonly firstWords = new Uint32Array(BATCH);

  constructor({ seed }: AddressIndexOptions) {
    this.seed = seed;
    this.hash = createKeyHash(seed, false);
  }

  private chunkOf(entry: number): Uint32Array {
    return this.chunks[entry >>> CHUNK_BITS]!;
  }

  private ownerValueOf(entry: number): number {
    return this.values[entry >>> CHUNK_BITS]![entry & (CHUNK_ENTRIES - 1)]!;
  }

  private setValue(entry: number, value: number): void {
    this.values[entry >>> CHUNK_BITS]![entry & (CHUNK_ENTRIES - 1)] = value;
  }

  /** The slot of a key; for an absent key -1 - the empty slot where it belongs. */
  private slotOf(words: Uint32Array, at: number): number {
    const code = hashKey(this.hash, words, at);
    let slot = code & this.mask;
    for (;;) {
      const content = this.slots[slot]!;
      if (content === 0) return -1 - slot;
      if (((content ^ code) & ~this.mask) === 0) {
        const entry = (content & this.mask) - 1;
        if (sameKey(this.chunks[entry >>> CHUNK_BITS]!, placeOf(entry), words, at)) return slot;
      }
      slot = (slot + 1) & this.mask;
    }
  }

  find(words: Uint32Array, at: number): number {
    const slot = this.slotOf(words, at);
    return slot < 0 ? -1 : (this.slots[slot]! & this.mask) - 1;
  }

  findAll(words: Uint32Array, count: number, found: Uint32Array): void {
    if (words.length < count * KEY_WORDS || found.length < count)
      throw new RangeError('fewer keys or places than `count`');
    for (let from = 0; from < count; from += BATCH) this.findBatch(words, from, Math.min(BATCH, count - from), found);
  }

  private findBatch(words: Uint32Array, from: number, count: number, found: Uint32Array): void {
    // Constants, so that the loops need not read them again.
    const { hash, slots, mask, chunks, codes, contents, firstWords } = this;
    for (let at = 0; at < count; at++) {
      const code = hashKey(hash, words, (from + at) * KEY_WORDS);
      codes[at] = code;
      contents[at] = slots[code & mask]!;
    }
    for (let at = 0; at < count; at++) {
      const code = codes[at]!;
      let content = contents[at]!;
      // The next slots are adjacent in memory: probing them here costs no wait.
      for (let slot = code & mask; content !== 0 && ((content ^ code) & ~mask) !== 0; ) {
        slot = (slot + 1) & mask;
        content = slots[slot]!;
      }
      const entry = (content & mask) - 1;
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
      found[from + at] = this.find(words, key) + 1;
    }
  }

  private ask(key: Uint8Array): number {
    if (key.length !== KEY_WORDS * 4) throw new RangeError('an address has 32 bytes');
    this.questionBytes.set(key);
    return this.slotOf(this.question, 0);
  }

  add(key: Uint8Array, owner: number): boolean {
    if (!Number.isInteger(owner) || owner < 0 || owner > MAX_OWNER) throw new RangeError(`no owner number: ${owner}`);
    const slot = this.ask(key);
    if (slot < 0) {
      this.insert(-1 - slot, owner);
      return true;
    }
    const entry = (this.slots[slot]! & this.mask) - 1;
    const value = this.ownerValueOf(entry);
    if (value < IS_LIST) {
      if (value === owner) return false;
      this.setValue(entry, IS_LIST + this.pool.create(value, owner));
      return true;
    }
    const list = value - IS_LIST;
    if (this.pool.indexOf(list, owner) >= 0) return false;
    this.setValue(entry, IS_LIST + this.pool.append(list, owner));
    this.compactLists();
    return true;
  }

  /** Puts the key in `question` into an empty slot. */
  private insert(slot: number, owner: number): void {
    const entry = this.takeEntry();
    this.chunkOf(entry).set(this.question, placeOf(entry));
    this.setValue(entry, owner);
    this.size++;
    const code = hashKey(this.hash, this.question, 0);
    this.slots[slot] = (code & ~this.mask) | (entry + 1);
    if (this.size > this.slots.length * MAX_LOAD) this.rehash(this.slots.length * 2);
    else if (((slot - code) & this.mask) > MAX_PROBES && !this.hash.isStrong) {
      // Random keys never probe that far: the keys were chosen deliberately.
      this.hash = createKeyHash(this.seed, true);
      this.rehash(this.slots.length);
    }
  }

  private takeEntry(): number {
    if (this.freeEntry >= 0) {
      const entry = this.freeEntry;
      this.freeEntry = this.chunkOf(entry)[placeOf(entry)]! - 1;
      return entry;
    }
    const entry = this.usedEntries++;
    const number = entry >>> CHUNK_BITS;
    if (number === this.chunks.length) {
      this.chunks.push(new Uint32Array(CHUNK_ENTRIES * KEY_WORDS));
      this.values.push(new Uint32Array(CHUNK_ENTRIES));
    } else if (placeOf(entry) === this.chunks[number]!.length) {
      // Only the first chunk starts small.
      this.chunks[number] = doubled(this.chunks[number]!);
      this.values[number] = doubled(this.values[number]!);
    }
    return entry;
  }

  private rehash(count: number): void {
    const old = this.slots;
    const oldMask = this.mask;
    this.slots = new Uint32Array(count);
    this.mask = count - 1;
    for (const content of old) {
      if (content === 0) continue;
      const entry = (content & oldMask) - 1;
      const code = hashKey(this.hash, this.chunkOf(entry), placeOf(entry));
      let slot = code & this.mask;
      while (this.slots[slot] !== 0) slot = (slot + 1) & this.mask;
      this.slots[slot] = (code & ~this.mask) | (entry + 1);
    }
  }

  remove(key: Uint8Array, owner: number): boolean {
    const slot = this.ask(key);
    if (slot < 0) return false;
    const entry = (this.slots[slot]! & this.mask) - 1;
    const value = this.ownerValueOf(entry);
    if (value < IS_LIST) {
      if (value !== owner) return false;
      this.removeSlot(slot);
      this.chunkOf(entry)[placeOf(entry)] = this.freeEntry + 1;
      this.freeEntry = entry;
      this.size--;
      return true;
    }
    const list = value - IS_LIST;
    const position = this.pool.indexOf(list, owner);
    if (position < 0) return false;
    if (this.pool.count(list) > 2) this.setValue(entry, IS_LIST + this.pool.removeAt(list, position));
    else {
      this.setValue(entry, this.pool.at(list, 1 - position));
      this.pool.free(list);
    }
    this.compactLists();
    return true;
  }

  /** Fills the hole by moving back each later key of the run that may move. */
  private removeSlot(slot: number): void {
    let hole = slot;
    for (let next = (hole + 1) & this.mask; this.slots[next] !== 0; next = (next + 1) & this.mask) {
      const entry = (this.slots[next]! & this.mask) - 1;
      const home = hashKey(this.hash, this.chunkOf(entry), placeOf(entry)) & this.mask;
      if (((next - home) & this.mask) < ((next - hole) & this.mask)) continue;
      this.slots[hole] = this.slots[next]!;
      hole = next;
    }
    this.slots[hole] = 0;
  }

  /** Copies the live lists into a new pool when more than a quarter of the old one is dead. */
  private compactLists(): void {
    if (this.pool.deadWords < MIN_DEAD_WORDS || this.pool.deadWords * 4 < this.pool.usedWords) return;
    const fresh = createPostingsPool();
    for (const content of this.slots) {
      if (content === 0) continue;
      const entry = (content & this.mask) - 1;
      const value = this.ownerValueOf(entry);
      if (value >= IS_LIST) this.setValue(entry, IS_LIST + fresh.adopt(this.pool, value - IS_LIST));
    }
    this.pool = fresh;
  }

  readonly ownerCount: AddressIndex['ownerCount'] = (entry) => {
    const value = this.ownerValueOf(entry);
    return value < IS_LIST ? 1 : this.pool.count(value - IS_LIST);
  };

  readonly ownerAt: AddressIndex['ownerAt'] = (entry, position) => {
    const value = this.ownerValueOf(entry);
    return value < IS_LIST ? value : this.pool.at(value - IS_LIST, position);
  };

  bytesUsed(): number {
    return (
      this.slots.byteLength +
      this.pool.bytesUsed +
      [...this.chunks, ...this.values].reduce((sum, chunk) => sum + chunk.byteLength, 0)
    );
  }
}

export const createAddressIndex = (options: AddressIndexOptions): AddressIndex => new HashedIndex(options);

/** Place of the first word of an entry in its chunk. */
const placeOf = (entry: number): number => (entry & (CHUNK_ENTRIES - 1)) * KEY_WORDS;

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
