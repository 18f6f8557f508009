/**
 * base58 (Bitcoin alphabet), exact, with fixed paths for the two lengths that matter here. All strings are flat: one that was
 * built by concatenation would keep about a kilobyte alive per kept address.
 */
import { read32 } from './base58-read.ts';
import { sums32, sums64 } from './base58-sums.ts';
import { CHARS_PER_DIGIT, DIGIT, ONE, tables, writeDigit } from './base58-tables.ts';
import { lazy } from './lazy.ts';

export { decode, encode } from './base58-any.ts';

interface FixedEncoder {
  /** Makes the text in `text` and answers where it begins. */
  encode(bytes: Uint8Array, offset: number): number;
  readonly text: Buffer;
}

/** The text is made in one buffer and copied out at once: calls never overlap. */
function createFixedEncoder(length: number, fillSums: typeof sums32): FixedEncoder {
  const digitCount = (length / 32) * 9;
  const sums = new Float64Array(digitCount * 2);
  const text = Buffer.alloc(digitCount * CHARS_PER_DIGIT);
  const shared = tables();

  function encode(bytes: Uint8Array, offset: number): number {
    requireLength(bytes, offset, length);
    fillSums(bytes, offset, sums);
    let carry = 0;
    for (let k = digitCount - 1; k >= 0; k--) {
      const high = sums[2 * k]!;
      const quotient = Math.floor(high / DIGIT);
      const value = (high - quotient * DIGIT) * 65_536 + sums[2 * k + 1]! + carry;
      const next = Math.floor(value / DIGIT);
      writeDigit(value - next * DIGIT, text, k * CHARS_PER_DIGIT, shared);
      carry = quotient * 65_536 + next;
    }
    // As many leading ones stay as the value has leading zero bytes.
    let zeros = 0;
    while (zeros < length && bytes[offset + zeros] === 0) zeros++;
    let start = 0;
    while (start < text.length && text[start] === ONE) start++;
    return start - zeros;
  }

  return { encode, text };
}

const encoder32 = lazy(() => createFixedEncoder(32, sums32));
const encoder64 = lazy(() => createFixedEncoder(64, sums64));

function requireLength(bytes: Uint8Array, offset: number, length: number): void {
  if (!(offset >= 0 && offset + length <= bytes.length)) throw new RangeError('base58: the bytes end too early');
}

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

/**
 * Writes base58 of 32 bytes into `target` as ASCII and answers how many characters (32 to 44) that took.
 * Throws RangeError when fewer than 32 bytes are left or the target is too small.
 */
export function encode32Into(bytes: Uint8Array, offset: number, target: Uint8Array, targetOffset: number): number {
  const { encode, text } = encoder32();
  const start = encode(bytes, offset);
  requireLength(target, targetOffset, text.length - start);
  for (let at = start; at < text.length; at++) target[targetOffset + at - start] = text[at]!;
  return text.length - start;
}

/**
 * The 32 bytes of an address, or null when the text is anything else: a character outside the alphabet, fewer than 32 or more
 * than 44 characters, a value above 2^256 - 1, or leading ones that do not match the leading zero bytes.
 */
export function decode32(text: string): Uint8Array | null {
  const bytes = new Uint8Array(32);
  return decode32Into(text, bytes, 0) ? bytes : null;
}

/** Like `decode32`, into 32 bytes of `target`, whose content is undefined after `false`. */
export function decode32Into(text: string, target: Uint8Array, offset: number): boolean {
  requireLength(target, offset, 32);
  if (text.length < 32 || text.length > 44 || !read32(text, target, offset)) return false;
  let ones = 0;
  while (ones < text.length && text.charCodeAt(ones) === ONE) ones++;
  let zeros = 0;
  while (zeros < 32 && target[offset + zeros] === 0) zeros++;
  return ones === zeros;
}
