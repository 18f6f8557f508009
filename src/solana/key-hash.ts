/**
 * A seeded hash of 32-byte keys given as eight 32-bit words, for open addressing. Users choose addresses, so they must not be
 * able to choose collisions. The fast form reads three words and serves keys that were not chosen deliberately; keys that agree in those
 * words collide under every seed, so a table with long probes switches to the strong form, which mixes all words and
 * multiplies by secrets between them, so that differences cannot be cancelled without knowing the secrets.
 */
export interface KeyHash {
  /** Signed 32-bit integers: three odd factors and an initial value. */
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly start: number;
  readonly isStrong: boolean;
}

/** Uses the first four words of `seed`, which must be secret or unknown when the keys are chosen. */
export function createKeyHash(seed: Uint32Array, isStrong: boolean): KeyHash {
  if (seed.length < 4) throw new RangeError('a key hash needs four words of seed');
  return { a: seed[0]! | 1, b: seed[1]! | 1, c: seed[2]! | 1, start: seed[3]! | 0, isStrong };
}

/** Signed 32 bits of the key whose first word is `words[at]`. */
export function hashKey(hash: KeyHash, words: Uint32Array, at: number): number {
  if (!hash.isStrong) return quick(hash, words[at + 1]!, words[at + 3]!, words[at + 6]!);
  let mixed = hash.start;
  for (let word = 0; word < 8; word++) mixed = mixWord(hash, mixed, words[at + word]!);
  return finish(mixed);
}

/** Like `hashKey`, for the 32 bytes at `at`. */
export function hashView(hash: KeyHash, view: DataView, at: number): number {
  if (!hash.isStrong)
    return quick(hash, view.getUint32(at + 4, true), view.getUint32(at + 12, true), view.getUint32(at + 24, true));
  let mixed = hash.start;
  for (let word = 0; word < 8; word++) mixed = mixWord(hash, mixed, view.getUint32(at + word * 4, true));
  return finish(mixed);
}

function quick({ a, b, c, start }: KeyHash, one: number, three: number, six: number): number {
  return finish((start + Math.imul(one, a) + Math.imul(three, b) + Math.imul(six, c)) | 0);
}

function mixWord({ a, b, c }: KeyHash, mixed: number, word: number): number {
  let next = Math.imul(mixed ^ word, a);
  next = Math.imul(next ^ (next >>> 16), b);
  return Math.imul(next ^ (next >>> 15), c);
}

function finish(mixed: number): number {
  const folded = Math.imul(mixed ^ (mixed >>> 16), 0x846ca68b);
  return folded ^ (folded >>> 15);
}
