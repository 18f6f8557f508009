/**
 * Hashes of 32-byte keys given as eight 32-bit words, for open addressing. Users choose addresses, so a hash must not let them
 * choose collisions: `quick` reads three words under a secret seed and is enough for keys that nobody arranged; keys that agree
 * in those words collide under every seed, so a table that sees long probes changes to `strong`, which mixes all words and
 * multiplies twice by secrets per word, so that no difference cancels without knowing them.
 */
export interface KeyHash {
  readonly strong: boolean;
  /** Unsigned 32 bits of the key whose first word is at `at`. */
  hash(words: Uint32Array, at: number): number;
}

/** Makes a hash from at least four secret words; the same words make the same hash. */
export function createKeyHash(seed: Uint32Array, strong: boolean): KeyHash {
  const a = seed[0]! | 1;
  const b = seed[1]! | 1;
  const c = seed[2]! | 1;
  const start = seed[3]!;

  function quick(words: Uint32Array, at: number): number {
    return finish(start + Math.imul(words[at + 1]!, a) + Math.imul(words[at + 3]!, b) + Math.imul(words[at + 6]!, c));
  }

  function thorough(words: Uint32Array, at: number): number {
    let hash = start;
    for (let word = 0; word < 8; word++) {
      hash = Math.imul(hash ^ words[at + word]!, a);
      hash = Math.imul(hash ^ (hash >>> 16), b);
      hash = Math.imul(hash ^ (hash >>> 15), c);
    }
    return finish(hash);
  }

  return { strong, hash: strong ? thorough : quick };
}

function finish(mixed: number): number {
  const folded = Math.imul(mixed ^ (mixed >>> 16), 0x846ca68b);
  return (folded ^ (folded >>> 15)) >>> 0;
}
