import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as lite from 'poseidon-lite';
import { byCase, bySeed } from '../../../test/helpers/run-part.ts';
import { createSfc32 } from '../../../test/helpers/sfc32.ts';
import { createPoseidon, MAX_INPUTS } from './poseidon.ts';
import { PRIME, poseidonParameters } from './poseidon-field.ts';

type Oracle = (inputs: bigint[]) => bigint;
const oracles: readonly Oracle[] = Array.from(
  { length: MAX_INPUTS },
  (_, i) => (lite as unknown as Record<string, Oracle>)[`poseidon${i + 1}`] as Oracle,
);

const bytesOf = (value: bigint) => Buffer.from(value.toString(16).padStart(64, '0'), 'hex');
const numberOf = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
const poseidon = createPoseidon();

function hashOf(inputs: readonly bigint[], hasher = poseidon): string {
  const result = Buffer.alloc(32);
  hasher.hash(inputs.length, Buffer.concat(inputs.map(bytesOf)), 0, result, 0, 1);
  return result.toString('hex');
}

/** Around the boundaries of limbs, words and the field. */
const EDGES = [
  0n,
  1n,
  2n,
  PRIME - 1n,
  PRIME - 2n,
  PRIME >> 1n,
  1n << 253n,
  (1n << 232n) - 1n,
  1n << 232n,
  ...Array.from({ length: 8 }, (_, i) => (1n << BigInt(29 * (i + 1))) - 1n),
  ...Array.from({ length: 8 }, (_, i) => 1n << BigInt(29 * (i + 1))),
  ...Array.from({ length: 7 }, (_, i) => (1n << BigInt(32 * (i + 1))) - 1n),
];

test('published values', () => {
  const counting = [
    '29176100eaa962bdc1fe6c654d6a3c130e96a4d1168b33848b897dc502820133',
    '115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a',
    '0e7732d89e6939c0ff03d5e58dab6302f3230e269dc5b968f725df34ab36d732',
    '299c867db6c1fdd79dcefa40e4510b9837e60ebb1ce0663dbaa525df65250465',
    '0dab9449e4a1398a15224c0b15a49d598b2174d305a316c918125f8feeb123c0',
    '2d1a03850084442813c8ebf094dea47538490a68b05f2239134a4cca2f6302e1',
    '1c2f3482dbb140c4ebb9ada49abdbc374a9a85fcfc6533ec2e9df45b4921c318',
  ];
  for (const [i, expected] of counting.entries())
    assert.equal(hashOf(Array.from({ length: i + 1 }, (_, j) => BigInt(j + 1))), expected);
  const [ones, twos] = ['01', '02'].map((byte) => BigInt(`0x${byte.repeat(32)}`));
  assert.equal(
    hashOf([ones as bigint, twos as bigint]),
    '0d54e1938f8a8c1c7deb5e0355f26319207b84fe9ca2ce1b26e735c829821990',
  );
});

test('empty subtrees up to height 40', () => {
  const expected: Readonly<Record<number, string>> = {
    1: '2098f5fb9e239eab3ceac3f27b81e481dc3124d55ffed523a839ee8446b64864',
    2: '1069673dcdb12263df301a6ff584a7ec261a44cb9dc68df067a4774460b1f1e1',
    10: '1b7201da72494f1e28717ad1a52eb469f95892f957713533de6175e5da190af2',
    26: '120c58f143d491e95902f7f5277778a2e0ad5168f6add75669932630ce611518',
    32: '2f68a1c58e257e42a17a6c61dff5551ed560b9922ab119d5ac8e184c9734ead9',
    40: '1334fa4b552f00ef403361c935c1abcf896851003c40daa93bb0fd0a0bb9a881',
  };
  const pair = Buffer.alloc(64);
  for (let height = 1; height <= 40; height += 1) {
    poseidon.hashPairs(pair, 0, pair, 0, 1);
    pair.copy(pair, 32, 0, 32);
    const hex = expected[height];
    if (hex !== undefined) assert.equal(pair.toString('hex', 0, 32), hex, `height ${height}`);
  }
});

test('generated parameters', () => {
  const { constants, matrix, partialRounds } = poseidonParameters(2);
  assert.equal(constants.length, 65 * 3);
  assert.equal(partialRounds, 57);
  assert.equal(constants[0], 0x0ee9a592ba9a9518d05986d656f40c2114c4993c11bb29938d21d47304cd8e6en);
  assert.equal(constants.at(-1), 0x1da55cc900f0d21f4a3e694391918a1b3c23b2ac773c6b3ef88e2e4228325161n);
  assert.equal(matrix[0]?.[0], 0x109b7f411ba0e4c9b2b70caf5c36a7b194be7c11ad24378bfedb68592ba8118bn);
  for (const inputs of [0, 13, 1.5]) assert.throws(() => poseidonParameters(inputs), RangeError);
});

/** Every list is compared; together they contain more than 100,000 numbers. Odd counts leave a lane without a list. */
const COUNTS = [0, 10_001, 20_001, 8_001, 4_001, 2_001, 1_001, 1_001, 51, 51, 51, 51, 51];
bySeed(10, (tenths) => {
  for (let inputs = 1; inputs <= MAX_INPUTS; inputs += 1) {
    test(`random and edge numbers, ${inputs} at a time, as another library hashes them`, () => {
      const count = 1 + 2 * Math.ceil(((COUNTS[inputs] as number) * tenths.length) / 20);
      const random = createSfc32(inputs + 100 * (tenths[0] as number));
      const pick = (): bigint => {
        if (random.below(5) === 0) return EDGES[random.below(EDGES.length)] as bigint;
        let value = 0n;
        for (let i = 0; i < 8; i += 1) value = (value << 32n) | BigInt(random.next());
        return value % PRIME;
      };
      const lists = Array.from({ length: count }, () => Array.from({ length: inputs }, pick));
      const src = Buffer.concat([Buffer.alloc(5), ...lists.flat().map(bytesOf)]);
      const dst = Buffer.alloc(7 + 32 * count, 0xaa);
      poseidon.hash(inputs, src, 5, dst, 7, count);
      assert.ok(dst.subarray(0, 7).every((byte) => byte === 0xaa));
      for (const [i, list] of lists.entries()) {
        const own = numberOf(dst.subarray(7 + 32 * i, 39 + 32 * i));
        const expected = (oracles[inputs - 1] as Oracle)(list);
        if (own !== expected) assert.equal(own, expected, `${inputs} inputs, list ${i}: ${list.join()}`);
      }
    });
  }
});

byCase([2, 1, 3, 4, 5, 6, 7], (own) => {
  test('hashes before and after the kernel takes over, one or many at a time, as another library hashes them', () => {
    const random = createSfc32(99);
    for (const inputs of own) {
      const hasher = createPoseidon();
      for (let hashed = 0; hashed < 600; ) {
        const count = 1 + random.below(random.below(2) === 0 ? 2 : 100);
        const lists = Array.from({ length: count }, () =>
          Array.from({ length: inputs }, () => EDGES[random.below(EDGES.length)] as bigint),
        );
        const dst = Buffer.alloc(32 * count);
        hasher.hash(inputs, Buffer.concat(lists.flat().map(bytesOf)), 0, dst, 0, count);
        for (const [i, list] of lists.entries())
          assert.equal(numberOf(dst.subarray(32 * i, 32 * i + 32)), (oracles[inputs - 1] as Oracle)(list));
        if (hashed === 0) assert.equal(hasher.modules.has(inputs), false);
        hashed += count;
      }
      assert.equal(hasher.modules.has(inputs), true);
    }
  });
});

test('a level is hashed in place', () => {
  const level = Buffer.concat(EDGES.slice(0, 16).map(bytesOf));
  const apart = Buffer.alloc(8 * 32);
  poseidon.hashPairs(level, 0, apart, 0, 8);
  poseidon.hashPairs(level, 0, level, 0, 8);
  assert.deepEqual(level.subarray(0, 8 * 32), apart);
});

test('a number that is not below the prime is refused at any position', () => {
  for (const large of [PRIME, PRIME + 5n, (1n << 256n) - 1n]) {
    for (let inputs = 1; inputs <= MAX_INPUTS; inputs += 1) {
      for (let place = 0; place < inputs; place += 1) {
        const list = Array.from({ length: inputs }, (_, i) => (i === place ? large : PRIME - 1n));
        assert.throws(() => hashOf(list), { code: 'POSEIDON_INPUT_TOO_LARGE' });
      }
    }
  }
  const dst = Buffer.alloc(64);
  const src = Buffer.concat([bytesOf(1n), bytesOf(PRIME)]);
  assert.throws(() => poseidon.hash(1, src, 0, dst, 0, 2), { code: 'POSEIDON_INPUT_TOO_LARGE' });
  assert.deepEqual(dst, Buffer.alloc(64));
});

test('without vectors the plain implementation gives the same results', () => {
  const plain = createPoseidon(new Map(), false);
  assert.equal(plain.kind, 'plain');
  assert.equal(poseidon.kind, 'simd');
  for (let inputs = 1; inputs <= MAX_INPUTS; inputs += 1) {
    const list = Array.from({ length: inputs }, (_, i) => EDGES[(i * 5) % EDGES.length] as bigint);
    assert.equal(hashOf(list, plain), hashOf(list));
  }
});

test('compiled kernels work in another thread', async () => {
  const expected = hashOf([1n, 2n]);
  const entry = new URL('./poseidon-thread.mjs', import.meta.url);
  const worker = new Worker(entry, { workerData: poseidon.modules });
  const answer = await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
  await worker.terminate();
  assert.equal(answer, expected);
});
