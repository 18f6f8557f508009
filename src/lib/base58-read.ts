/**
 * 32 bytes from nine digits of 58^5. The factors are the powers of 58^5 in 16-bit words, written out because constants make
 * this several times faster than a table. Each sum stays below 2^49, so doubles hold it exactly.
 */
import { CHARS_PER_DIGIT, INVALID, type Tables, tables } from './base58-tables.ts';

const DIGITS = 9;

/** Writes a word and answers what is carried into the word above. */
function put(target: Uint8Array, at: number, sum: number): number {
  const carry = Math.floor(sum / 65_536);
  const word = sum - carry * 65_536;
  target[at] = word >> 8;
  target[at + 1] = word & 255;
  return carry;
}

/** The value of the characters from `from` to `to`, or -1 when one is outside the alphabet. */
function digit(shared: Tables, text: string, from: number, to: number): number {
  let value = 0;
  for (let at = Math.max(0, from); at < to; at++) {
    const code = text.charCodeAt(at);
    const one = code < 128 ? shared.values[code]! : INVALID;
    if (one === INVALID) return -1;
    value = value * 58 + one;
  }
  return value;
}

/**
 * Writes the 32 bytes of a text of up to 45 characters. False when a character is outside the alphabet or the value is above
 * 2^256 - 1; the target is undefined then.
 */
// biome-ignore format: one word a line.
export function read32(text: string, target: Uint8Array, at: number): boolean {
  const t = tables();
  const start = text.length - DIGITS * CHARS_PER_DIGIT;
  const d0 = digit(t, text, start, start + 5);
  const d1 = digit(t, text, start + 5, start + 10);
  const d2 = digit(t, text, start + 10, start + 15);
  const d3 = digit(t, text, start + 15, start + 20);
  const d4 = digit(t, text, start + 20, start + 25);
  const d5 = digit(t, text, start + 25, start + 30);
  const d6 = digit(t, text, start + 30, start + 35);
  const d7 = digit(t, text, start + 35, start + 40);
  const d8 = digit(t, text, start + 40, start + 45);
  if (d0 < 0 || d1 < 0 || d2 < 0 || d3 < 0 || d4 < 0 || d5 < 0 || d6 < 0 || d7 < 0 || d8 < 0) return false;
  let c = put(target, at + 30, d5 * 32768 + d6 * 41984 + d7 * 13728 + d8);
  c = put(target, at + 28, c + d2 * 16384 + d3 * 64000 + d4 * 272 + d5 * 62010 + d6 * 51195 + d7 * 10015);
  c = put(target, at + 26, c + d0 * 8448 + d1 * 56872 + d2 * 42846 + d3 * 62472 + d4 * 20563 + d5 * 472 + d6 * 34340);
  c = put(target, at + 24, c + d0 * 45153 + d1 * 18296 + d2 * 7402 + d3 * 22633 + d4 * 39599 + d5 * 29509 + d6 * 1530);
  c = put(target, at + 22, c + d0 * 44915 + d1 * 42328 + d2 * 35911 + d3 * 19934 + d4 * 62088 + d5 * 58630);
  c = put(target, at + 20, c + d0 * 10486 + d1 * 2022 + d2 * 60500 + d3 * 50921 + d4 * 46576 + d5 * 233);
  c = put(target, at + 18, c + d0 * 18662 + d1 * 36989 + d2 * 14407 + d3 * 13980 + d4 * 48743);
  c = put(target, at + 16, c + d0 * 49564 + d1 * 52160 + d2 * 27994 + d3 * 22537 + d4 * 35);
  c = put(target, at + 14, c + d0 * 41058 + d1 * 54119 + d2 * 24064 + d3 * 30301);
  c = put(target, at + 12, c + d0 * 31652 + d1 * 46502 + d2 * 45730 + d3 * 5);
  c = put(target, at + 10, c + d0 * 54581 + d1 * 60582 + d2 * 54706);
  c = put(target, at + 8, c + d0 * 57998 + d1 * 18077);
  c = put(target, at + 6, c + d0 * 56311 + d1 * 8360);
  c = put(target, at + 4, c + d0 * 40441);
  c = put(target, at + 2, c + d0 * 1277);
  c = put(target, at, c + 0);
  return c === 0;
}
