/**
 * base58 (Bitcoin alphabet). 32 and 64 byte values take a fixed path in digits of 58^5 held in doubles; every intermediate
 * stays below 2^53, so the arithmetic is exact. All strings are flat: a string built by concatenation would keep about a
 * kilobyte alive per kept address.
 */
import { CHARS_PER_DIGIT, DIGIT, INVALID, ONE, tables, writeDigit } from './base58-tables.ts';
import { lazy } from './lazy.ts';

export { decode, encode } from './base58-any.ts';

const HALF = 65_536;

interface FixedEncoder {
  /** Fills `text` and answers where the result begins in it. */
  encode(bytes: Uint8Array, offset: number): number;
  readonly text: Buffer;
}

/** Sums of 16-bit halves times powers of 2^32 stay below 2^45.3 per term, hence below 2^50 for sixteen words. */
function createFixedEncoder(wordCount: number): FixedEncoder {
  const digitCount = (wordCount / 8) * 9;
  const powers = powerTable(wordCount, digitCount);
  const high = new Float64Array(digitCount);
  const low = new Float64Array(digitCount);
  const text = Buffer.alloc(digitCount * CHARS_PER_DIGIT);
  const shared = tables();

  function sum(bytes: Uint8Array, offset: number): void {
    high.fill(0);
    low.fill(0);
    for (let word = 0; word < wordCount; word++) {
      const at = offset + word * 4;
      const upper = (bytes[at]! << 8) | bytes[at + 1]!;
      const lower = (bytes[at + 2]! << 8) | bytes[at + 3]!;
      const row = word * digitCount;
      // Digits above the power's own length are zero in the table.
      for (let k = firstDigit(word, wordCount, digitCount); k < digitCount; k++) {
        const power = powers[row + k]!;
        high[k]! += upper * power;
        low[k]! += lower * power;
      }
    }
  }

  function encode(bytes: Uint8Array, offset: number): number {
    if (offset < 0 || offset + wordCount * 4 > bytes.length)
      throw new RangeError('base58: value ends behind its buffer');
    sum(bytes, offset);
    let carry = 0;
    for (let k = digitCount - 1; k >= 0; k--) {
      const upper = high[k]!;
      const upperQuotient = Math.floor(upper / DIGIT);
      const value = (upper - upperQuotient * DIGIT) * HALF + low[k]! + carry;
      const quotient = Math.floor(value / DIGIT);
      writeDigit(value - quotient * DIGIT, text, k * CHARS_PER_DIGIT, shared);
      carry = upperQuotient * HALF + quotient;
    }
    let zeros = 0;
    while (zeros < wordCount * 4 && bytes[offset + zeros] === 0) zeros++;
    let start = 0;
    while (start < text.length && text[start] === ONE) start++;
    return start - zeros;
  }

  return { encode, text };
}

function firstDigit(word: number, wordCount: number, digitCount: number): number {
  // A word with `rest` words below it times its power has at most ceil((rest + 1) * 32 / 29.29) digits.
  return Math.max(0, digitCount - Math.ceil(((wordCount - word) * 32) / 29.28));
}

/** 2^(32 * words below) in digits of 58^5, most significant first, one row per word. */
function powerTable(wordCount: number, digitCount: number): Float64Array {
  const table = new Float64Array(wordCount * digitCount);
  for (let word = 0; word < wordCount; word++) {
    let power = 1n << BigInt(32 * (wordCount - 1 - word));
    for (let k = digitCount - 1; k >= 0; k--) {
      table[word * digitCount + k] = Number(power % BigInt(DIGIT));
      power /= BigInt(DIGIT);
    }
  }
  return table;
}

const encoder32 = lazy(() => createFixedEncoder(8));
const encoder64 = lazy(() => createFixedEncoder(16));

/** base58 of the 32 bytes at `offset`: 32 to 44 characters. Throws RangeError when fewer than 32 bytes are left. */
export function encode32(bytes: Uint8Array, offset = 0): string {
  const { encode, text } = encoder32();
  return text.toString('latin1', encode(bytes, offset), text.length);
}

/** base58 of the 64 bytes at `offset`: 64 to 88 characters. Throws RangeError when fewer than 64 bytes are left. */
export function encode64(bytes: Uint8Array, offset = 0): string {
  const { encode, text } = encoder64();
  return text.toString('latin1', encode(bytes, offset), text.length);
}

/** Writes base58 of 32 bytes into `target` as ASCII and answers how many characters (32 to 44) that took. */
export function encode32Into(bytes: Uint8Array, offset: number, target: Uint8Array, targetOffset: number): number {
  const { encode, text } = encoder32();
  const start = encode(bytes, offset);
  if (targetOffset < 0 || targetOffset + text.length - start > target.length)
    throw new RangeError('base58: the target is too small');
  for (let at = start; at < text.length; at++) target[targetOffset + at - start] = text[at]!;
  return text.length - start;
}

const DIGITS_32 = 9;
const HALVES_32 = 16;

interface Decoder32 {
  decode(text: string, target: Uint8Array, offset: number): boolean;
}

/** Nine digits times powers of 58^5 in 16-bit words: each sum stays below 2^49. */
const decoder32 = lazy((): Decoder32 => {
  const powers = new Float64Array(DIGITS_32 * HALVES_32);
  for (let digit = 0; digit < DIGITS_32; digit++) {
    let power = BigInt(DIGIT) ** BigInt(DIGITS_32 - 1 - digit);
    for (let half = HALVES_32 - 1; half >= 0; half--) {
      powers[digit * HALVES_32 + half] = Number(power & 65_535n);
      power >>= 16n;
    }
  }
  const sums = new Float64Array(HALVES_32);
  const { values } = tables();

  function sum(text: string): boolean {
    sums.fill(0);
    let at = 0;
    const firstLength = text.length % CHARS_PER_DIGIT || CHARS_PER_DIGIT;
    const digits = Math.ceil(text.length / CHARS_PER_DIGIT);
    for (let digit = DIGITS_32 - digits; digit < DIGITS_32; digit++) {
      const end = at === 0 ? firstLength : at + CHARS_PER_DIGIT;
      let value = 0;
      for (; at < end; at++) {
        const code = text.charCodeAt(at);
        const one = code < 128 ? values[code]! : INVALID;
        if (one === INVALID) return false;
        value = value * 58 + one;
      }
      const row = digit * HALVES_32;
      for (let half = 0; half < HALVES_32; half++) sums[half]! += value * powers[row + half]!;
    }
    return true;
  }

  function decode(text: string, target: Uint8Array, offset: number): boolean {
    if (text.length < 32 || text.length > 44 || !sum(text)) return false;
    let carry = 0;
    for (let half = HALVES_32 - 1; half >= 0; half--) {
      const value = sums[half]! + carry;
      carry = Math.floor(value / HALF);
      const word = value - carry * HALF;
      target[offset + half * 2] = word >> 8;
      target[offset + half * 2 + 1] = word & 255;
    }
    // Above 2^256 - 1.
    if (carry !== 0) return false;
    let ones = 0;
    while (ones < text.length && text.charCodeAt(ones) === ONE) ones++;
    let zeros = 0;
    while (zeros < 32 && target[offset + zeros] === 0) zeros++;
    return ones === zeros;
  }

  return { decode };
});

/**
 * The 32 bytes of an address, or null when the text is anything else: a character outside the alphabet, fewer than 32 or more
 * than 44 characters, a value above 2^256 - 1, or leading ones that do not match the leading zero bytes.
 */
export function decode32(text: string): Uint8Array | null {
  const bytes = new Uint8Array(32);
  return decoder32().decode(text, bytes, 0) ? bytes : null;
}

/** Like `decode32`, into 32 bytes of `target`, whose content is undefined after `false`. */
export function decode32Into(text: string, target: Uint8Array, offset: number): boolean {
  if (offset < 0 || offset + 32 > target.length) throw new RangeError('base58: the target is too small');
  return decoder32().decode(text, target, offset);
}
