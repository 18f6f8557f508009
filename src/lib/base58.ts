/**
 * base58 (Bitcoin alphabet), exact, with fixed paths for the two lengths that matter here. All strings are flat: a string built by
 * concatenation would keep about a kilobyte alive per stored address.
 */
import { lazy } from './lazy.ts';

interface FixedEncoder {
  /** Writes the text into `text` and returns its start. */
  encode(bytes: Uint8Array, offset: number): number;
  readonly text: Buffer;
}

/** One shared buffer for all texts, copied out at once: calls never overlap. */
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
    // Each leading zero byte is one leading `1`.
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
 * Writes base58 of 32 bytes into `target` as ASCII and returns the number of characters (32 to 44).
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

/**
 * base58 of any length. The cost of encoding, and of decoding short texts, grows with the square of the length, so callers bound what they
 * pass in; working in digits of 58^5 over 16-bit halves (2^45.3, exact in doubles) makes it about ten times cheaper than byte by character.
 */
const HALF = 65_536;

/** base58 of all bytes; flat. */
export function encode(bytes: Uint8Array): string {
  let zeros = 0;
  while (zeros < bytes.length && bytes[zeros] === 0) zeros++;
  if (zeros === bytes.length) return '1'.repeat(zeros);
  const digits = toDigits(bytes, zeros);
  const text = Buffer.allocUnsafe(zeros + digits.length * CHARS_PER_DIGIT);
  const shared = tables();
  for (let k = 0; k < digits.length; k++)
    writeDigit(digits[digits.length - 1 - k]!, text, zeros + k * CHARS_PER_DIGIT, shared);
  let start = zeros;
  while (text[start] === ONE) start++;
  text.fill(ONE, start - zeros, start);
  return text.toString('latin1', start - zeros, text.length);
}

/** Digits of 58^5 of the number in `bytes` from `start`, least significant first. */
function toDigits(bytes: Uint8Array, start: number): Float64Array {
  // 29.28 is just below log2(58^5), so the bound is never too small.
  const digits = new Float64Array(Math.ceil(((bytes.length - start) * 8) / 29.28) + 1);
  let used = 0;
  let at = start;
  let odd = (bytes.length - start) % 2 === 1;
  while (at < bytes.length) {
    let carry = odd ? bytes[at]! : (bytes[at]! << 8) | bytes[at + 1]!;
    const scale = odd ? 256 : HALF;
    at += odd ? 1 : 2;
    odd = false;
    for (let k = 0; k < used; k++) {
      const value = digits[k]! * scale + carry;
      carry = Math.floor(value / DIGIT);
      digits[k] = value - carry * DIGIT;
    }
    if (carry > 0) digits[used++] = carry;
  }
  return digits.subarray(0, used);
}

/** The bytes of a base58 text, or null when it has a character outside the alphabet. The empty text gives no bytes. */
export function decode(text: string): Uint8Array | null {
  let zeros = 0;
  while (zeros < text.length && text.charCodeAt(zeros) === ONE) zeros++;
  if (text.length - zeros > SHORT) return decodeLong(text, zeros);
  const halves = toHalves(text, zeros);
  if (halves === null) return null;
  const top = halves.length === 0 ? 0 : halves[halves.length - 1]! < 256 ? 1 : 2;
  const bytes = new Uint8Array(zeros + Math.max(0, halves.length - 1) * 2 + top);
  let at = bytes.length;
  for (const half of halves) {
    bytes[--at] = half & 255;
    if (at > zeros) bytes[--at] = half >> 8;
  }
  return bytes;
}

/** Characters from which `decodeLong` is faster: three times at 500, seven times at 2,800. */
const SHORT = 160;
/** Largest number of characters whose value a double holds exactly: 58^9 is below 2^53. */
const CHARS_PER_PART = 9;
/** 58^9, 58^18, 58^36 and so on. */
const partPowers: bigint[] = [58n ** BigInt(CHARS_PER_PART)];

/** Joins neighbours, then pairs of them and so on, because one product of long numbers costs less than many of a long and a short one. */
function decodeLong(text: string, zeros: number): Uint8Array | null {
  // The least significant first; all but the last have `CHARS_PER_PART` characters.
  let parts: bigint[] = [];
  for (let to = text.length; to > zeros; to -= CHARS_PER_PART) {
    const middle = Math.max(zeros, to - CHARS_PER_DIGIT);
    const high = digit(tables(), text, Math.max(zeros, to - CHARS_PER_PART), middle);
    const low = digit(tables(), text, middle, to);
    if (high < 0 || low < 0) return null;
    parts.push(BigInt(high * DIGIT + low));
  }
  for (let level = 0; parts.length > 1; level++) {
    if (level === partPowers.length) partPowers.push(partPowers[level - 1]! ** 2n);
    const power = partPowers[level]!;
    parts = Array.from({ length: Math.ceil(parts.length / 2) }, (_, at) => {
      const high = parts[2 * at + 1];
      return high === undefined ? parts[2 * at]! : high * power + parts[2 * at]!;
    });
  }
  const hex = parts[0]!.toString(16);
  const even = hex.length % 2 === 0 ? hex : `0${hex}`;
  const bytes = new Uint8Array(zeros + even.length / 2);
  Buffer.from(bytes.buffer).write(even, zeros, 'hex');
  return bytes;
}

/** 16-bit words of the number, least significant first, or null at a character outside the alphabet. */
function toHalves(text: string, start: number): Float64Array | null {
  const { values } = tables();
  // log2(58) / 16 is below 0.3662.
  const halves = new Float64Array(Math.ceil((text.length - start) * 0.3662) + 2);
  let used = 0;
  for (let at = start; at < text.length; ) {
    const end = Math.min(text.length, at + CHARS_PER_DIGIT);
    let carry = 0;
    let scale = 1;
    for (; at < end; at++) {
      const code = text.charCodeAt(at);
      const value = code < 128 ? values[code]! : INVALID;
      if (value === INVALID) return null;
      carry = carry * 58 + value;
      scale *= 58;
    }
    for (let k = 0; k < used; k++) {
      const value = halves[k]! * scale + carry;
      carry = Math.floor(value / HALF);
      halves[k] = value - carry * HALF;
    }
    for (; carry > 0; carry = Math.floor(carry / HALF)) halves[used++] = carry % HALF;
  }
  return halves.subarray(0, used);
}

/**
 * 32 bytes from nine digits of 58^5. The factors are the powers of 58^5 in 16-bit words, written out because constants make
 * this several times faster than a table. Each sum stays below 2^49, so doubles hold it exactly.
 */
const DIGITS = 9;

/** Writes a word and returns the carry into the next higher word. */
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
function read32(text: string, target: Uint8Array, at: number): boolean {
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

/**
 * The digits of 58^5 of 32 and of 64 bytes, from 16-bit halves h and l of their big-endian 32-bit words. The factors are
 * 2^(32 * words below) in base 58^5, written out because constants make this several times faster than a table; the test
 * against bs58 covers each of them. Sums stay below 2^50, so doubles hold them exactly. Two sums a digit, the most significant
 * digit first: high halves, then low halves.
 */

/** Fills 18 sums: digit k is sums[2k] * 2^16 + sums[2k + 1] before carries. */
// biome-ignore format: one sum a line.
function sums32(bytes: Uint8Array, at: number, sums: Float64Array): void {
  const h0 = (bytes[at]! << 8) | bytes[at + 1]!, l0 = (bytes[at + 2]! << 8) | bytes[at + 3]!;
  const h1 = (bytes[at + 4]! << 8) | bytes[at + 5]!, l1 = (bytes[at + 6]! << 8) | bytes[at + 7]!;
  const h2 = (bytes[at + 8]! << 8) | bytes[at + 9]!, l2 = (bytes[at + 10]! << 8) | bytes[at + 11]!;
  const h3 = (bytes[at + 12]! << 8) | bytes[at + 13]!, l3 = (bytes[at + 14]! << 8) | bytes[at + 15]!;
  const h4 = (bytes[at + 16]! << 8) | bytes[at + 17]!, l4 = (bytes[at + 18]! << 8) | bytes[at + 19]!;
  const h5 = (bytes[at + 20]! << 8) | bytes[at + 21]!, l5 = (bytes[at + 22]! << 8) | bytes[at + 23]!;
  const h6 = (bytes[at + 24]! << 8) | bytes[at + 25]!, l6 = (bytes[at + 26]! << 8) | bytes[at + 27]!;
  const h7 = (bytes[at + 28]! << 8) | bytes[at + 29]!, l7 = (bytes[at + 30]! << 8) | bytes[at + 31]!;
  sums[0] = 0;
  sums[1] = 0;
  sums[2] = h0 * 513735;
  sums[3] = l0 * 513735;
  sums[4] = h0 * 77223048 + h1 * 78508;
  sums[5] = l0 * 77223048 + l1 * 78508;
  sums[6] = h0 * 437087610 + h1 * 646269101 + h2 * 11997;
  sums[7] = l0 * 437087610 + l1 * 646269101 + l2 * 11997;
  sums[8] = h0 * 300156666 + h1 * 118408823 + h2 * 486083817 + h3 * 1833;
  sums[9] = l0 * 300156666 + l1 * 118408823 + l2 * 486083817 + l3 * 1833;
  sums[10] = h0 * 605448490 + h1 * 91512303 + h2 * 3737691 + h3 * 324463681 + h4 * 280;
  sums[11] = l0 * 605448490 + l1 * 91512303 + l2 * 3737691 + l3 * 324463681 + l4 * 280;
  sums[12] = h0 * 214625350 + h1 * 209184527 + h2 * 294005210 + h3 * 385795061 + h4 * 127692781 + h5 * 42;
  sums[13] = l0 * 214625350 + l1 * 209184527 + l2 * 294005210 + l3 * 385795061 + l4 * 127692781 + l5 * 42;
  sums[14] = h0 * 141436834 + h1 * 413102373 + h2 * 247894721 + h3 * 551597588 + h4 * 389432875 + h5 * 537767569 + h6 * 6;
  sums[15] = l0 * 141436834 + l1 * 413102373 + l2 * 247894721 + l3 * 551597588 + l4 * 389432875 + l5 * 537767569 + l6 * 6;
  sums[16] = h0 * 379377856 + h1 * 153715680 + h2 * 289024608 + h3 * 21339008 + h4 * 357132832 + h5 * 410450016 + h6 * 356826688 + h7;
  sums[17] = l0 * 379377856 + l1 * 153715680 + l2 * 289024608 + l3 * 21339008 + l4 * 357132832 + l5 * 410450016 + l6 * 356826688 + l7;
}

/** Fills 36 sums, as above. */
// biome-ignore format: one sum a line.
function sums64(bytes: Uint8Array, at: number, sums: Float64Array): void {
  const h0 = (bytes[at]! << 8) | bytes[at + 1]!, l0 = (bytes[at + 2]! << 8) | bytes[at + 3]!;
  const h1 = (bytes[at + 4]! << 8) | bytes[at + 5]!, l1 = (bytes[at + 6]! << 8) | bytes[at + 7]!;
  const h2 = (bytes[at + 8]! << 8) | bytes[at + 9]!, l2 = (bytes[at + 10]! << 8) | bytes[at + 11]!;
  const h3 = (bytes[at + 12]! << 8) | bytes[at + 13]!, l3 = (bytes[at + 14]! << 8) | bytes[at + 15]!;
  const h4 = (bytes[at + 16]! << 8) | bytes[at + 17]!, l4 = (bytes[at + 18]! << 8) | bytes[at + 19]!;
  const h5 = (bytes[at + 20]! << 8) | bytes[at + 21]!, l5 = (bytes[at + 22]! << 8) | bytes[at + 23]!;
  const h6 = (bytes[at + 24]! << 8) | bytes[at + 25]!, l6 = (bytes[at + 26]! << 8) | bytes[at + 27]!;
  const h7 = (bytes[at + 28]! << 8) | bytes[at + 29]!, l7 = (bytes[at + 30]! << 8) | bytes[at + 31]!;
  const h8 = (bytes[at + 32]! << 8) | bytes[at + 33]!, l8 = (bytes[at + 34]! << 8) | bytes[at + 35]!;
  const h9 = (bytes[at + 36]! << 8) | bytes[at + 37]!, l9 = (bytes[at + 38]! << 8) | bytes[at + 39]!;
  const h10 = (bytes[at + 40]! << 8) | bytes[at + 41]!, l10 = (bytes[at + 42]! << 8) | bytes[at + 43]!;
  const h11 = (bytes[at + 44]! << 8) | bytes[at + 45]!, l11 = (bytes[at + 46]! << 8) | bytes[at + 47]!;
  const h12 = (bytes[at + 48]! << 8) | bytes[at + 49]!, l12 = (bytes[at + 50]! << 8) | bytes[at + 51]!;
  const h13 = (bytes[at + 52]! << 8) | bytes[at + 53]!, l13 = (bytes[at + 54]! << 8) | bytes[at + 55]!;
  const h14 = (bytes[at + 56]! << 8) | bytes[at + 57]!, l14 = (bytes[at + 58]! << 8) | bytes[at + 59]!;
  const h15 = (bytes[at + 60]! << 8) | bytes[at + 61]!, l15 = (bytes[at + 62]! << 8) | bytes[at + 63]!;
  sums[0] = 0;
  sums[1] = 0;
  sums[2] = h0 * 2631;
  sums[3] = l0 * 2631;
  sums[4] = h0 * 149457141 + h1 * 402;
  sums[5] = l0 * 149457141 + l1 * 402;
  sums[6] = h0 * 577092685 + h1 * 68350375 + h2 * 61;
  sums[7] = l0 * 577092685 + l1 * 68350375 + l2 * 61;
  sums[8] = h0 * 632289089 + h1 * 30641941 + h2 * 295059608 + h3 * 9;
  sums[9] = l0 * 632289089 + l1 * 30641941 + l2 * 295059608 + l3 * 9;
  sums[10] = h0 * 81912456 + h1 * 266024478 + h2 * 141201404 + h3 * 256449755 + h4;
  sums[11] = l0 * 81912456 + l1 * 266024478 + l2 * 141201404 + l3 * 256449755 + l4;
  sums[12] = h0 * 221591423 + h1 * 208884256 + h2 * 517024870 + h3 * 500124311 + h4 * 285573662;
  sums[13] = l0 * 221591423 + l1 * 208884256 + l2 * 517024870 + l3 * 500124311 + l4 * 285573662;
  sums[14] = h0 * 502967496 + h1 * 571208415 + h2 * 239296485 + h3 * 479690581 + h4 * 455976778 + h5 * 143945778;
  sums[15] = l0 * 502967496 + l1 * 571208415 + l2 * 239296485 + l3 * 479690581 + l4 * 455976778 + l5 * 143945778;
  sums[16] = h0 * 403284731 + h1 * 337765723 + h2 * 527697587 + h3 * 372802935 + h4 * 379818553 + h5 * 651677945 + h6 * 21997789;
  sums[17] = l0 * 403284731 + l1 * 337765723 + l2 * 527697587 + l3 * 372802935 + l4 * 379818553 + l5 * 651677945 + l6 * 21997789;
  sums[18] = h0 * 377738089 + h1 * 215140626 + h2 * 212906911 + h3 * 413254725 + h4 * 100001224 + h5 * 281429047 + h6 * 294590275 + h7 * 3361701;
  sums[19] = l0 * 377738089 + l1 * 215140626 + l2 * 212906911 + l3 * 413254725 + l4 * 100001224 + l5 * 281429047 + l6 * 294590275 + l7 * 3361701;
  sums[20] = h0 * 492128779 + h1 * 129419325 + h2 * 453637228 + h3 * 487877412 + h4 * 448949512 + h5 * 535878743 + h6 * 148640294 + h7 * 325788598 + h8 * 513735;
  sums[21] = l0 * 492128779 + l1 * 129419325 + l2 * 453637228 + l3 * 487877412 + l4 * 448949512 + l5 * 535878743 + l6 * 148640294 + l7 * 325788598 + l8 * 513735;
  sums[22] = h0 * 746799 + h1 * 480359048 + h2 * 467589845 + h3 * 520263169 + h4 * 109507367 + h5 * 264290972 + h6 * 595017589 + h7 * 30977630 + h8 * 77223048 + h9 * 78508;
  sums[23] = l0 * 746799 + l1 * 480359048 + l2 * 467589845 + l3 * 520263169 + l4 * 109507367 + l5 * 264290972 + l6 * 595017589 + l7 * 30977630 + l8 * 77223048 + l9 * 78508;
  sums[24] = h0 * 366351977 + h1 * 398051646 + h2 * 144614682 + h3 * 176791855 + h4 * 117185012 + h5 * 526964023 + h6 * 210481832 + h7 * 513969330 + h8 * 437087610 + h9 * 646269101 + h10 * 11997;
  sums[25] = l0 * 366351977 + l1 * 398051646 + l2 * 144614682 + l3 * 176791855 + l4 * 117185012 + l5 * 526964023 + l6 * 210481832 + l7 * 513969330 + l8 * 437087610 + l9 * 646269101 + l10 * 11997;
  sums[26] = h0 * 190199623 + h1 * 635841659 + h2 * 45134568 + h3 * 78190744 + h4 * 347328982 + h5 * 199595821 + h6 * 404203788 + h7 * 194569730 + h8 * 300156666 + h9 * 118408823 + h10 * 486083817 + h11 * 1833;
  sums[27] = l0 * 190199623 + l1 * 635841659 + l2 * 45134568 + l3 * 78190744 + l4 * 347328982 + l5 * 199595821 + l6 * 404203788 + l7 * 194569730 + l8 * 300156666 + l9 * 118408823 + l10 * 486083817 + l11 * 1833;
  sums[28] = h0 * 38066284 + h1 * 214020719 + h2 * 184514320 + h3 * 291820402 + h4 * 522665809 + h5 * 597442702 + h6 * 574729546 + h7 * 164019635 + h8 * 605448490 + h9 * 91512303 + h10 * 3737691 + h11 * 324463681 + h12 * 280;
  sums[29] = l0 * 38066284 + l1 * 214020719 + l2 * 184514320 + l3 * 291820402 + l4 * 522665809 + l5 * 597442702 + l6 * 574729546 + l7 * 164019635 + l8 * 605448490 + l9 * 91512303 + l10 * 3737691 + l11 * 324463681 + l12 * 280;
  sums[30] = h0 * 526403762 + h1 * 136986618 + h2 * 644355351 + h3 * 74998585 + h4 * 36908802 + h5 * 499113091 + h6 * 160126051 + h7 * 136596846 + h8 * 214625350 + h9 * 209184527 + h10 * 294005210 + h11 * 385795061 + h12 * 127692781 + h13 * 42;
  sums[31] = l0 * 526403762 + l1 * 136986618 + l2 * 644355351 + l3 * 74998585 + l4 * 36908802 + l5 * 499113091 + l6 * 160126051 + l7 * 136596846 + l8 * 214625350 + l9 * 209184527 + l10 * 294005210 + l11 * 385795061 + l12 * 127692781 + l13 * 42;
  sums[32] = h0 * 650603058 + h1 * 626219915 + h2 * 104784612 + h3 * 496097732 + h4 * 577276849 + h5 * 424550935 + h6 * 430102516 + h7 * 626087230 + h8 * 141436834 + h9 * 413102373 + h10 * 247894721 + h11 * 551597588 + h12 * 389432875 + h13 * 537767569 + h14 * 6;
  sums[33] = l0 * 650603058 + l1 * 626219915 + l2 * 104784612 + l3 * 496097732 + l4 * 577276849 + l5 * 424550935 + l6 * 430102516 + l7 * 626087230 + l8 * 141436834 + l9 * 413102373 + l10 * 247894721 + l11 * 551597588 + l12 * 389432875 + l13 * 537767569 + l14 * 6;
  sums[34] = h0 * 454901440 + h1 * 49699360 + h2 * 308625792 + h3 * 59100544 + h4 * 64504928 + h5 * 458949280 + h6 * 44963712 + h7 * 503769920 + h8 * 379377856 + h9 * 153715680 + h10 * 289024608 + h11 * 21339008 + h12 * 357132832 + h13 * 410450016 + h14 * 356826688 + h15;
  sums[35] = l0 * 454901440 + l1 * 49699360 + l2 * 308625792 + l3 * 59100544 + l4 * 64504928 + l5 * 458949280 + l6 * 44963712 + l7 * 503769920 + l8 * 379377856 + l9 * 153715680 + l10 * 289024608 + l11 * 21339008 + l12 * 357132832 + l13 * 410450016 + l14 * 356826688 + l15;
}

/** Tables shared by all base58 paths. */
const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const PAIR = 58 * 58;
/** The digit of the fixed paths: five characters. */
const DIGIT = 58 ** 5;
const CHARS_PER_DIGIT = 5;
/** Character code of the digit zero. */
const ONE = 0x31;
/** Marks a character outside the alphabet. */
const INVALID = 255;

interface Tables {
  /** Character code of each value. */
  readonly chars: Uint8Array;
  /** Two character codes of each value below 58^2: high byte first character. */
  readonly pairs: Uint16Array;
  /** Value of each ASCII code, or INVALID. */
  readonly values: Uint8Array;
}

const tables = lazy((): Tables => {
  const chars = Uint8Array.from(ALPHABET, (char) => char.charCodeAt(0));
  const values = new Uint8Array(128).fill(INVALID);
  for (let value = 0; value < 58; value++) values[chars[value]!] = value;
  const pairs = new Uint16Array(PAIR);
  for (let value = 0; value < PAIR; value++) pairs[value] = (chars[Math.floor(value / 58)]! << 8) | chars[value % 58]!;
  return { chars, pairs, values };
});

/** Writes the five characters of a digit below 58^5. */
function writeDigit(digit: number, out: Uint8Array, at: number, { chars, pairs }: Tables): void {
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
