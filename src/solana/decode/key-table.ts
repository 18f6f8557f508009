import { decode32Into, encode32 } from '../../lib/base58.ts';
import type { KeyTable } from '../../ports/block.ts';
import { createKeyHash, hashKey, hashView } from '../key-hash.ts';

const WORDS = 8;
/** Probes after which collisions look deliberate, and the strong hash is used. */
const MAX_PROBES = 64;

/** The key table of a block while it is being filled. */
export interface KeyTableBuilder extends KeyTable {
  /** The id of the 32 bytes at `at`; a new one when they were not seen before. */
  intern(view: DataView, at: number): number;
  /** The id of a base58 address; -1 when the text is not one. */
  internText(text: string): number;
}

/** Real blocks have about this many distinct keys per transaction; the table grows when there are more. */
const KEYS_PER_TRANSACTION = 8;

/** Initial capacity of a table for this many transactions. */
export const expectedKeys = (transactions: number): number => transactions * KEYS_PER_TRANSACTION;

/**
 * Makes an empty table. `seed`: four words that were unknown when the keys were chosen, such as a block's hash.
 */
export function createKeyTable(seed: Uint32Array, expectedKeys: number): KeyTableBuilder {
  let hash = createKeyHash(seed, false);
  let words = new Uint32Array(Math.max(16, expectedKeys) * WORDS);
  let slots = new Uint32Array(slotCount(words.length / WORDS));
  let size = 0;
  const texts: (string | undefined)[] = [];
  const cache = createTextCache(words.length / WORDS);
  const scratch = new DataView(new ArrayBuffer(WORDS * 4));
  const scratchBytes = new Uint8Array(scratch.buffer);

  /** Finds the key at `at` with the hash `code`. Returns its id, or -1 - slot of its place when it is new. */
  function locate(view: DataView, at: number, code: number): number {
    const mask = slots.length - 1;
    let slot = code & mask;
    for (let probes = 0; ; probes++) {
      const content = slots[slot]!;
      if (content === 0) return -1 - slot;
      // A slot holds the id + 1 in the bits of the mask and the same bits of the hash in the others.
      if (((content ^ code) & ~mask) === 0 && isKeyAt(words, ((content & mask) - 1) * WORDS, view, at))
        return (content & mask) - 1;
      if (probes === MAX_PROBES && !hash.isStrong) {
        hash = createKeyHash(seed, true);
        rehash(slots.length);
        return locate(view, at, hashView(hash, view, at));
      }
      slot = (slot + 1) & mask;
    }
  }

  function intern(view: DataView, at: number): number {
    const wasStrong = hash.isStrong;
    let code = hashView(hash, view, at);
    const found = locate(view, at, code);
    if (found >= 0) return found;
    if (hash.isStrong !== wasStrong) code = hashView(hash, view, at);
    const mask = slots.length - 1;
    for (let word = 0; word < WORDS; word++) words[size * WORDS + word] = view.getUint32(at + word * 4, true);
    slots[-1 - found] = (code & ~mask) | ++size;
    if (size * WORDS === words.length) grow();
    return size - 1;
  }

  function grow(): void {
    const larger = new Uint32Array(words.length * 2);
    larger.set(words);
    words = larger;
    rehash(slotCount(words.length / WORDS));
  }

  function rehash(count: number): void {
    slots = new Uint32Array(count);
    const mask = count - 1;
    for (let id = 0; id < size; id++) {
      const code = hashKey(hash, words, id * WORDS);
      let slot = code & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = (code & ~mask) | (id + 1);
    }
  }

  function internText(text: string): number {
    if (text.length < 32) return -1;
    const place = cache.placeOf(text);
    if (cache.texts[place] === text) return cache.ids[place]!;
    if (!decode32Into(text, scratchBytes, 0)) return -1;
    const id = intern(scratch, 0);
    cache.texts[place] = text;
    cache.ids[place] = id;
    return id;
  }

  function find(key: Uint8Array): number {
    if (key.length !== WORDS * 4) return -1;
    const view = new DataView(key.buffer, key.byteOffset, key.length);
    return Math.max(-1, locate(view, 0, hashView(hash, view, 0)));
  }

  function requireId(id: number): void {
    if (!(Number.isInteger(id) && id >= 0 && id < size)) throw new RangeError(`no key ${id} in this block`);
  }

  function bytes(id: number): Uint8Array {
    requireId(id);
    return new Uint8Array(words.buffer, id * WORDS * 4, WORDS * 4);
  }

  function base58(id: number): string {
    const known = texts[id];
    if (known !== undefined) return known;
    const text = encode32(bytes(id));
    texts[id] = text;
    return text;
  }

  return {
    get size() {
      return size;
    },
    get words() {
      return words;
    },
    intern,
    internText,
    find,
    bytes,
    base58,
  };
}

function slotCount(keys: number): number {
  let count = 32;
  while (count < keys * 2) count *= 2;
  return count;
}

function isKeyAt(words: Uint32Array, from: number, view: DataView, at: number): boolean {
  for (let word = 0; word < WORDS; word++) if (words[from + word] !== view.getUint32(at + word * 4, true)) return false;
  return true;
}

/**
 * Ids of texts that were seen, one per place. The parser makes a new string for each occurrence of an address, so a Map would
 * spend more on hashing whole strings than this does on decoding the few that push each other out.
 */
interface TextCache {
  readonly texts: string[];
  readonly ids: Int32Array;
  placeOf(text: string): number;
}

function createTextCache(expectedTexts: number): TextCache {
  let places = 64;
  while (places < expectedTexts && places < 8_192) places *= 2;
  const mask = places - 1;
  return {
    texts: new Array<string>(places).fill(''),
    ids: new Int32Array(places),
    placeOf(text) {
      const some = text.charCodeAt(2) ^ (text.charCodeAt(7) << 8) ^ (text.charCodeAt(13) << 16);
      const mixed = Math.imul(some ^ (text.charCodeAt(19) << 24) ^ text.charCodeAt(28), 0x9e3779b1);
      return ((mixed >>> 15) ^ mixed ^ text.charCodeAt(24)) & mask;
    },
  };
}
