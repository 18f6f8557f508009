import assert from 'node:assert/strict';
import { test } from 'node:test';
import bs58 from 'bs58';
import fc from 'fast-check';
import { bySeed } from '../../test/helpers/run-part.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { decode, decode32, decode32Into, encode, encode32, encode32Into, encode64 } from './base58.ts';

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** Values that are hard on carries and on leading zeros. */
function edgeValues(length: number): Uint8Array[] {
  const edges = [new Uint8Array(length), new Uint8Array(length).fill(255), new Uint8Array(length).fill(1)];
  for (let zeros = 1; zeros < length; zeros++) {
    edges.push(
      new Uint8Array(length).fill(255, zeros),
      Uint8Array.from({ length }, (_, at) => (at === zeros ? 1 : 0)),
    );
  }
  return edges;
}

function randomValues(length: number, count: number, seed: number): Uint8Array[] {
  const random = createSfc32(seed);
  return Array.from({ length: count }, (_, index) => {
    const value = Uint8Array.from({ length }, () => random.next() & 255);
    return value.fill(0, 0, index % 5 === 0 ? index % length : 0);
  });
}

bySeed(10, (tenths) => {
  test('32 bytes: 100,000 random values and the edges agree with bs58 both ways', () => {
    for (const value of [...edgeValues(32), ...randomValues(32, 10_000 * tenths.length, tenths[0]!)]) {
      const text = encode32(value);
      assert.equal(text, bs58.encode(value));
      assert.deepEqual(decode32(text), value);
    }
  });

  test('64 bytes: 20,000 random values and the edges agree with bs58', () => {
    for (const value of [...edgeValues(64), ...randomValues(64, 2_000 * tenths.length, 10 + tenths[0]!)])
      assert.equal(encode64(value), bs58.encode(value));
  });
});

bySeed(2_000, ({ length: numRuns }) => {
  test('any length agrees with bs58 both ways', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(20), (tail, zeros) => {
        const value = Uint8Array.from([...new Uint8Array(zeros), ...tail]);
        const text = encode(value);
        assert.equal(text, bs58.encode(value));
        assert.deepEqual(decode(text), value);
      }),
      { numRuns },
    );
  });
});

test('long texts agree with bs58 both ways, whatever their length', () => {
  for (let length = 100; length < 1_400; length += 13)
    for (const value of randomValues(length, 6, length)) assert.deepEqual(decode(bs58.encode(value)), value);
  for (const value of [new Uint8Array(300).fill(255), Uint8Array.from({ length: 300 }, (_, at) => (at === 20 ? 1 : 0))])
    assert.deepEqual(decode(bs58.encode(value)), value);
  const text = bs58.encode(new Uint8Array(300).fill(9));
  for (const at of [0, 4, 5, 8, 9, 200, text.length - 1])
    for (const char of ['0', 'l', 'é', ' ']) assert.equal(decode(text.slice(0, at) + char + text.slice(at + 1)), null);
});

test('values inside a larger buffer are read at their offset, and never behind its end', () => {
  const bytes = randomValues(256, 1, 3)[0]!;
  for (let offset = 0; offset <= 192; offset++) {
    assert.equal(encode32(bytes, offset), bs58.encode(bytes.subarray(offset, offset + 32)));
    assert.equal(encode64(bytes, offset), bs58.encode(bytes.subarray(offset, offset + 64)));
  }
  for (const offset of [-1, 225, 256, 1000]) assert.throws(() => encode32(bytes, offset), RangeError);
  for (const offset of [-1, 193]) assert.throws(() => encode64(bytes, offset), RangeError);
});

test('encode32Into writes what encode32 answers and refuses a small target', () => {
  for (const value of [...edgeValues(32), ...randomValues(32, 200, 4)]) {
    const target = Buffer.alloc(60, 0x7e);
    const length = encode32Into(value, 0, target, 5);
    assert.equal(target.toString('latin1', 0, 5 + length + 1), `~~~~~${encode32(value)}~`);
  }
  assert.throws(() => encode32Into(new Uint8Array(32).fill(255), 0, Buffer.alloc(43), 0), RangeError);
  assert.throws(() => decode32Into('1'.repeat(32), new Uint8Array(31), 0), RangeError);
});

/** What decode32 must answer, from bs58 alone. */
function oracle32(text: string): Uint8Array | null {
  const bytes = [...text].every((char) => ALPHABET.includes(char)) ? bs58.decode(text) : new Uint8Array(0);
  return bytes.length === 32 ? bytes : null;
}

bySeed(20_000, ({ length: numRuns }) => {
  test('decode32 answers null for whatever is not exactly 32 bytes', () => {
    const alphabetText = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 28, maxLength: 48 });
    fc.assert(
      fc.property(alphabetText, (text) => assert.deepEqual(decode32(text), oracle32(text))),
      { numRuns },
    );
    for (let length = 0; length <= 60; length++) {
      assert.deepEqual(decode32('1'.repeat(length)), oracle32('1'.repeat(length)));
      assert.deepEqual(decode32('z'.repeat(length)), oracle32('z'.repeat(length)));
    }
  });
});

test('the first value above 2^256 - 1 is refused, the last one below is not', () => {
  const largest = bs58.encode(new Uint8Array(32).fill(255));
  assert.deepEqual(decode32(largest), new Uint8Array(32).fill(255));
  const next = bs58.encode(Uint8Array.from([1, ...new Uint8Array(32)]));
  assert.equal(next.length, 44);
  assert.equal(decode32(next), null);
});

test('every character outside the alphabet is refused at every place', () => {
  const good = bs58.encode(randomValues(32, 1, 6)[0]!);
  for (let code = 0; code < 0x180; code++) {
    const char = String.fromCharCode(code);
    if (ALPHABET.includes(char)) continue;
    for (let at = 0; at < good.length; at++) {
      const bad = good.slice(0, at) + char + good.slice(at + 1);
      assert.equal(decode32(bad), null);
      assert.equal(decode(bad), null);
    }
  }
});

test('results are independent of each other', () => {
  const [first, second] = randomValues(32, 2, 7);
  const text = encode32(first!);
  const bytes = decode32(text)!;
  encode32(second!);
  decode32(encode32(second!));
  assert.equal(text, bs58.encode(first!));
  assert.deepEqual(bytes, first);
});
