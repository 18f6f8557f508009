import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as zlib from 'node:zlib';
import { zstdFrame, zstdParts } from '../../src/lib/zstd.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { compress, encodingOf, loadCodec, unpackerOf } from './codecs.ts';

const WORDS = Buffer.from('parhelion '.repeat(2_000));
const ZEROS = Buffer.alloc(3_000_000);

/** Made by zstd 1.5.7 of Node 24, at once and as a stream, which does not say how much it holds. */
const FRAMES: readonly (readonly [string, Buffer])[] = [
  ['28b52ffd2000010000', Buffer.alloc(0)],
  ['28b52ffd240001000099e9d851', Buffer.alloc(0)],
  ['28b52ffd04580800007801000023110483', Buffer.from('x')],
  ['28b52ffd60204d9500005070617268656c696f6e200100134ef78204', WORDS],
  ['28b52ffd04589400005070617268656c696f6e200100134ef782040100003326b3f5', WORDS],
  ['28b52ffd00689400005070617268656c696f6e200100134ef78204010000', WORDS],
  [`28b52ffd00684c0000080001009c86391002${'02350c00'.repeat(29)}010000`, ZEROS],
];

interface Limits {
  readonly maxBytes?: number;
  /** Bytes that may be reserved at once. */
  readonly budget?: number;
}

async function unpack(packed: Buffer, { maxBytes = 10_000_000, budget = Number.POSITIVE_INFINITY }: Limits = {}) {
  const parts: Uint8Array[] = [];
  const reserve = (bytes: number) => {
    if (bytes > budget) throw new RangeError('the budget is used up');
  };
  for await (const part of unpackerOf('zstd')!(packed, { maxBytes, reserve })) parts.push(part);
  return Buffer.concat(parts);
}

test('frames of the library zstd are unpacked, several in one message too', async () => {
  for (const [hex, content] of FRAMES) {
    assert.deepEqual(await unpack(Buffer.from(hex, 'hex')), content, hex);
    // In JavaScript too, which this version of Node may do without.
    const parts = zstdParts(Buffer.from(hex, 'hex'), { limit: 10_000_000, reserve: () => undefined });
    assert.deepEqual(Buffer.concat([...parts]), content, hex);
  }
  const skippable = Buffer.from('532a4d1803000000010203', 'hex');
  const all = [...zstdParts(Buffer.concat([frameOf(3), skippable, frameOf(4)]), { limit: 50_000, reserve() {} })];
  assert.deepEqual(Buffer.concat(all), Buffer.concat([WORDS, WORDS]));
});

const frameOf = (at: number): Buffer => Buffer.from(FRAMES[at]![0], 'hex');

test('messages for clients that accept zstd are compressed on every version of Node', async () => {
  await loadCodec('identity,zstd');
  assert.deepEqual(
    ['gzip', 'gzip, zstd', 'identity,zstd,gzip', 'br', undefined].map((accepted) => encodingOf(accepted)),
    ['gzip', 'zstd', 'zstd', 'identity', 'identity'],
  );
  const random = createSfc32(7);
  for (const length of [1, 256, 3_000, 200_000]) {
    const text = Buffer.from(Array.from({ length }, () => 97 + random.below(4)));
    const packed = compress(text, 'zstd');
    assert.ok(length < 256 || packed.length < length / 2, `${packed.length} of ${length}`);
    assert.deepEqual(await unpack(packed), text);
    const parts = zstdParts(packed, { limit: length, reserve: () => undefined });
    assert.deepEqual(Buffer.concat([...parts]), text);
    if ('zstdDecompressSync' in zlib)
      assert.deepEqual(
        (zlib as unknown as { zstdDecompressSync(bytes: Buffer): Buffer }).zstdDecompressSync(packed),
        text,
      );
  }
});

test('nothing is unpacked beyond the largest message or beyond what the tenant may hold', async () => {
  for (const [hex, content] of FRAMES) {
    if (content.length < 20_000) continue;
    const packed = Buffer.from(hex, 'hex');
    await assert.rejects(async () => {
      const bytes = await unpack(packed, { maxBytes: 19_999 });
      // The library of Node leaves the comparison to who reads the parts.
      assert.ok(bytes.length <= 19_999, 'more than the largest message');
    });
    const small = () => [...zstdParts(packed, { limit: 19_999, reserve: () => undefined })];
    assert.throws(small, /more than 19999 bytes/);
    await assert.rejects(unpack(packed, { budget: 10 }), /the budget is used up/);
  }
});

/** A frame header that asks for a window of this exponent, and blocks. */
const framed = (descriptor: string, blocks: string) => Buffer.from(`28b52ffd${descriptor}${blocks}`, 'hex');
const TINY_RUN = '0a000078';

test('memory and time follow the bytes of a message, whatever its headers say', () => {
  const hostile: readonly (readonly [string, Buffer, RegExp])[] = [
    ['a window of 2 GB', framed('00a8', '0a000078010000'), /window is too large/],
    ['a window of 16 MB', framed('0070', '0a000078010000'), /window is too large/],
    ['four billion bytes in one block', framed('a0ffffffff', '030000ff'), /blocks are missing/],
    ['a content of 2^63 bytes', framed('e0ffffffffffffff7f', '030000ff'), /blocks are missing/],
    ['100,000 blocks of one byte', framed('0068', `${TINY_RUN.repeat(100_000)}010000`), /too many small blocks/],
    ['a dictionary', framed('015807', '010000'), /dictionaries/],
    ['a reserved block', framed('0058', '070000'), /./],
    ['no end', framed('0058', TINY_RUN), /cut off/],
    ['half a header', Buffer.from('28b52ffd', 'hex'), /cut off/],
    ['text', Buffer.from('nothing of the kind'), /not a frame/],
    ['nothing', Buffer.alloc(0), /no frame/],
  ];
  for (const [name, bytes, reason] of hostile) {
    const reserved = [0];
    const options = { limit: 41_943_040, reserve: (more: number) => void reserved.push(more) };
    assert.throws(() => [...zstdParts(bytes, options)], reason, name);
    assert.ok(Math.max(...reserved) <= 8_388_608, `${name}: ${Math.max(...reserved)} bytes reserved`);
  }
});

test('damaged frames are errors or come out no longer than they say', async () => {
  const random = createSfc32(11);
  for (let round = 0; round < 300; round += 1) {
    const packed = Buffer.from(frameOf(2 + random.below(4)));
    for (let count = random.between(1, 3); count > 0; count -= 1)
      packed[random.below(packed.length)]! ^= 1 << random.below(8);
    try {
      const bytes = [...zstdParts(packed, { limit: 100_000, reserve: () => undefined })];
      assert.ok(Buffer.concat(bytes).length <= 100_000);
    } catch (error) {
      assert.ok(error instanceof Error);
    }
  }
});

test('frames that hold what they say are unpacked without a window', () => {
  const text = Buffer.concat([ZEROS, WORDS]);
  const reserved: number[] = [];
  const parts = [...zstdParts(zstdFrame(text), { limit: 4_000_000, reserve: (bytes) => void reserved.push(bytes) })];
  assert.deepEqual([Buffer.concat(parts), reserved], [text, [text.length]]);
});
