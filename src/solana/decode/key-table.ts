import { decode32Into, encode32 } from '../../lib/base58.ts';
import type { KeyTable } from '../../ports/block.ts';
import { createKeyHash, hashKey } from '../key-hash.ts';

const WORDS = 8;
/** Probes after which the keys look arranged, and the hash is changed for the strong one. */
const MAX_PROBES = 64;

/** The key table of a block while it is being filled. */
export interface KeyTableBuilder extends KeyTable {
  /** The id of the 32 bytes at `at`; a new one when they were not seen before. */
  intern(view: DataView, at: number): number;
  /** The id of a base58 address, or -1 when the text is none. */
  internText(text: string): number;
}

/**
 * Makes an empty table. `seed` is four words that nobody could know when the keys were chosen: a block's hash is such a value.
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

  /** Puts the key that lies in the word slots of the next id into the table, unless it is there. */
  function settle(): number {
    const from = size * WORDS;
    const mask = slots.length - 1;
    let slot = hashKey(hash, words, from) & mask;
    for (let probes = 0; ; probes++) {
      const id = slots[slot]! - 1;
      if (id < 0) break;
      if (sameKey(words, id * WORDS, words, from)) return id;
      if (probes === MAX_PROBES && !hash.isStrong) {
        hash = createKeyHash(seed, true);
        rehash(slots.length);
        return settle();
      }
      slot = (slot + 1) & mask;
    }
    slots[slot] = ++size;
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
    for (let id = 0; id < size; id++) {
      let slot = hashKey(hash, words, id * WORDS) & (count - 1);
      while (slots[slot] !== 0) slot = (slot + 1) & (count - 1);
      slots[slot] = id + 1;
    }
  }

  function intern(view: DataView, at: number): number {
    const to = size * WORDS;
    for (let word = 0; word < WORDS; word++) words[to + word] = view.getUint32(at + word * 4, true);
    return settle();
  }

  function internText(text: string): number {
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
    // The place of the next id is free to hold the question.
    const to = size * WORDS;
    const view = new DataView(key.buffer, key.byteOffset, key.length);
    for (let word = 0; word < WORDS; word++) words[to + word] = view.getUint32(word * 4, true);
    let slot = hashKey(hash, words, to) & (slots.length - 1);
    for (let id = slots[slot]! - 1; id >= 0; id = slots[slot]! - 1) {
      if (sameKey(words, id * WORDS, words, to)) return id;
      slot = (slot + 1) & (slots.length - 1);
    }
    return -1;
  }

  function requireId(id: number): void {
    if (!(id >= 0 && id < size)) throw new RangeError(`no key ${id} in this block`);
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

function sameKey(left: Uint32Array, leftAt: number, right: Uint32Array, rightAt: number): boolean {
  for (let word = 0; word < WORDS; word++) if (left[leftAt + word] !== right[rightAt + word]) return false;
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
      // A place behind the end of the text gives NaN, which counts as 0.
      const some = text.charCodeAt(2) ^ (text.charCodeAt(7) << 8) ^ (text.charCodeAt(13) << 16);
      const mixed = Math.imul(some ^ (text.charCodeAt(19) << 24) ^ text.charCodeAt(28), 0x9e3779b1);
      return ((mixed >>> 15) ^ mixed ^ text.charCodeAt(24)) & mask;
    },
  };
}
