/** Tables that all base58 paths share. */
import { lazy } from './lazy.ts';

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const PAIR = 58 * 58;
/** The digit of the fixed paths: five characters. */
export const DIGIT = 58 ** 5;
export const CHARS_PER_DIGIT = 5;
/** Character code of the digit zero. */
export const ONE = 0x31;
/** Marks a character outside the alphabet. */
export const INVALID = 255;

export interface Tables {
  /** Character code of each value. */
  readonly chars: Uint8Array;
  /** Two character codes of each value below 58^2: high byte first character. */
  readonly pairs: Uint16Array;
  /** Value of each ASCII code, or INVALID. */
  readonly values: Uint8Array;
}

export const tables = lazy((): Tables => {
  const chars = Uint8Array.from(ALPHABET, (char) => char.charCodeAt(0));
  const values = new Uint8Array(128).fill(INVALID);
  for (let value = 0; value < 58; value++) values[chars[value]!] = value;
  const pairs = new Uint16Array(PAIR);
  for (let value = 0; value < PAIR; value++) pairs[value] = (chars[Math.floor(value / 58)]! << 8) | chars[value % 58]!;
  return { chars, pairs, values };
});

/** Writes the five characters of a digit below 58^5. */
export function writeDigit(digit: number, out: Uint8Array, at: number, { chars, pairs }: Tables): void {
  // Integers from here on: the engine then divides by multiplication.
  const value = digit | 0;
  const upper = (value / PAIR) | 0;
  const low = pairs[value - upper * PAIR]!;
  const top = (upper / PAIR) | 0;
  const middle = pairs[upper - top * PAIR]!;
  out[at] = chars[top]!;
  out[at + 1] = middle >> 8;
  out[at + 2] = middle & 255;
  out[at + 3] = low >> 8;
  out[at + 4] = low & 255;
}
