import type { CuckooTable } from './wire/request.ts';

/**
 * Looks up addresses in a cuckoo filter that a client built: 16-bit fingerprints in buckets of four, SipHash-2-4 with the seed of the
 * filter. The hash of an address is that of its length as eight bytes and of its 32 bytes. Bits 32 to 47 are the fingerprint (0 counts
 * as 1), the low bits the first bucket, and the hash of the fingerprint tells the distance of the second one.
 */
export interface CuckooFilter {
  /** Whether the filter probably contains the key whose eight little-endian words begin at `words[at]`; never a false no. */
  has(words: Uint32Array, at: number): boolean;
  /** Size in memory. */
  readonly bytes: number;
}

const ENTRIES = 4;
const FINGERPRINT_BITS = 16;
const SIP_HASH = 0;

/** Null for a filter that this server cannot read, with the reason in `problem`. */
export function createCuckooFilter(table: CuckooTable): CuckooFilter | { readonly problem: string } {
  if (table.hashAlgorithm !== SIP_HASH) return { problem: `unknown hash algorithm ${table.hashAlgorithm}` };
  if (table.fingerprintBits !== FINGERPRINT_BITS)
    return { problem: `${table.fingerprintBits} bits a fingerprint; only ${FINGERPRINT_BITS} are supported` };
  if (table.entriesPerBucket !== ENTRIES)
    return { problem: `${table.entriesPerBucket} entries a bucket; only ${ENTRIES} are supported` };
  const buckets = table.bucketCount;
  if (buckets < 1 || (buckets & (buckets - 1)) !== 0) return { problem: 'the number of buckets is no power of two' };
  if (table.data.length !== buckets * ENTRIES * 2)
    return { problem: `${table.data.length} bytes do not hold ${buckets} buckets` };
  // A copy of its own, aligned: the request goes away.
  const entries = new Uint16Array(buckets * ENTRIES);
  new Uint8Array(entries.buffer).set(table.data);
  const mask = buckets - 1;
  const seed = Int32Array.of(Number(table.hashSeed & 0xffffffffn) | 0, Number(table.hashSeed >> 32n) | 0);
  const input = new Int32Array(KEY_BLOCKS * 2);
  const out = new Int32Array(2);
  const distances = distancesOf(seed);

  const contains = (bucket: number, fingerprint: number): boolean => {
    const at = bucket * ENTRIES;
    return (
      entries[at] === fingerprint ||
      entries[at + 1] === fingerprint ||
      entries[at + 2] === fingerprint ||
      entries[at + 3] === fingerprint
    );
  };
  return {
    bytes: entries.byteLength + distances.byteLength,
    has(words, at) {
      input[0] = KEY_WORDS * 4;
      input[1] = 0;
      for (let word = 0; word < KEY_WORDS; word++) input[word + 2] = words[at + word]!;
      // No bytes are left over; the size is that of the length and the key.
      input[10] = 0;
      input[11] = (8 + KEY_WORDS * 4) << 24;
      sipHash(seed, input, KEY_BLOCKS, out);
      const fingerprint = out[1]! & 0xffff || 1;
      const first = out[0]! & mask;
      return contains(first, fingerprint) || contains((first ^ distances[fingerprint]!) & mask, fingerprint);
    },
  };
}

/** The low half of the hash of each fingerprint. Clients use one seed unless they choose their own, so those of the last one are kept. */
function distancesOf(seed: Int32Array): Int32Array {
  if (known.seed[0] === seed[0] && known.seed[1] === seed[1] && known.distances.length > 0) return known.distances;
  const distances = new Int32Array(1 << FINGERPRINT_BITS);
  const out = new Int32Array(2);
  for (let fingerprint = 1; fingerprint < distances.length; fingerprint++) {
    sipHash(seed, Int32Array.of(fingerprint, 2 << 24), 1, out);
    distances[fingerprint] = out[0]!;
  }
  known = { seed, distances };
  return distances;
}

let known: { readonly seed: Int32Array; readonly distances: Int32Array } = {
  seed: new Int32Array(2),
  distances: new Int32Array(0),
};

const KEY_WORDS = 8;
/** An address: its length, its four pairs of words, and the last block. */
const KEY_BLOCKS = 6;

/**
 * SipHash-2-4 of the first `blocks` blocks of `input`, each two words, low half first; the last one ends with the size of the message.
 * The keys are `seed`, and `seed` with its halves exchanged. Writes 64 bits to `out`, low half first: numbers hold no more than 53, and
 * bigints are ten times slower.
 */
function sipHash(seed: Int32Array, input: Int32Array, blocks: number, out: Int32Array): void {
  const seedLow = seed[0]!;
  const seedHigh = seed[1]!;
  let a = seedLow ^ 0x70736575;
  let aHigh = seedHigh ^ 0x736f6d65;
  let b = seedHigh ^ 0x6e646f6d;
  let bHigh = seedLow ^ 0x646f7261;
  let c = seedLow ^ 0x6e657261;
  let cHigh = seedHigh ^ 0x6c796765;
  let d = seedHigh ^ 0x79746573;
  let dHigh = seedLow ^ 0x74656462;
  const last = blocks * 2;
  // Two rounds a block, then four.
  for (let round = 0; round < last + 4; round++) {
    const at = round & ~1;
    if (round === last) c ^= 0xff;
    if (round === at && round < last) {
      d ^= input[at]!;
      dHigh ^= input[at + 1]!;
    }
    let sum = (a >>> 0) + (b >>> 0);
    aHigh = (aHigh + bHigh + (sum > 0xffffffff ? 1 : 0)) | 0;
    a = sum | 0;
    let turned = (b << 13) | (bHigh >>> 19);
    bHigh = ((bHigh << 13) | (b >>> 19)) ^ aHigh;
    b = turned ^ a;
    turned = a;
    a = aHigh;
    aHigh = turned;
    sum = (c >>> 0) + (d >>> 0);
    cHigh = (cHigh + dHigh + (sum > 0xffffffff ? 1 : 0)) | 0;
    c = sum | 0;
    turned = (d << 16) | (dHigh >>> 16);
    dHigh = ((dHigh << 16) | (d >>> 16)) ^ cHigh;
    d = turned ^ c;
    sum = (a >>> 0) + (d >>> 0);
    aHigh = (aHigh + dHigh + (sum > 0xffffffff ? 1 : 0)) | 0;
    a = sum | 0;
    turned = (d << 21) | (dHigh >>> 11);
    dHigh = ((dHigh << 21) | (d >>> 11)) ^ aHigh;
    d = turned ^ a;
    sum = (c >>> 0) + (b >>> 0);
    cHigh = (cHigh + bHigh + (sum > 0xffffffff ? 1 : 0)) | 0;
    c = sum | 0;
    turned = (b << 17) | (bHigh >>> 15);
    bHigh = ((bHigh << 17) | (b >>> 15)) ^ cHigh;
    b = turned ^ c;
    turned = c;
    c = cHigh;
    cHigh = turned;
    if (round !== at && round < last) {
      a ^= input[at]!;
      aHigh ^= input[at + 1]!;
    }
  }
  out[0] = a ^ b ^ c ^ d;
  out[1] = aHigh ^ bHigh ^ cHigh ^ dHigh;
}
