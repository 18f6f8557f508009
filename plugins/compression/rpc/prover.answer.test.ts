import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  answerOf,
  decompressG1,
  decompressG2,
  GENERATOR_G2,
  multipleG1,
  negativeG1,
  negativeG2,
} from '../../../test/helpers/bn254.ts';
import { compressG1, compressG2, readProofAnswer } from './prover.ts';

const read = (answer: unknown) => readProofAnswer(JSON.stringify(answer));

test('the points are restored from their compressed form, the first one negated', () => {
  const signs = { a: new Set<boolean>(), b: new Set<boolean>(), c: new Set<boolean>() };
  for (let count = 1; count <= 12; count += 1) {
    const [ar, krs] = [multipleG1(count), multipleG1(count + 3)];
    const bs = count % 2 === 0 ? GENERATOR_G2 : negativeG2(GENERATOR_G2);
    const proof = read(answerOf(ar, bs, krs));
    assert.ok(proof !== null);
    assert.deepEqual([proof.a.length, proof.b.length, proof.c.length], [32, 64, 32]);
    assert.deepEqual(decompressG1(proof.a), negativeG1(ar));
    assert.deepEqual(decompressG2(proof.b), bs);
    assert.deepEqual(decompressG1(proof.c), krs);
    for (const part of ['a', 'b', 'c'] as const) signs[part].add(proof[part][0]! >= 0x80);
  }
  // Both signs must occur, otherwise the test would not distinguish them.
  for (const seen of Object.values(signs)) assert.equal(seen.size, 2);
});

test('a second component of zero alone does not decide the sign of a point', () => {
  const [x] = GENERATOR_G2;
  const topBit = (y: readonly [bigint, bigint]) => compressG2([x, y])[0]! >= 0x80;
  assert.equal(topBit([0n, 1n]), false);
  assert.equal(
    topBit([
      0n,
      GENERATOR_G2[1][0] * 0n + 21888242871839275222246405745257275088696311157297823662689037894645226208582n,
    ]),
    true,
  );
  assert.equal(topBit([1n, 21888242871839275222246405745257275088696311157297823662689037894645226208582n]), false);
});

test('infinity has a separate bit', () => {
  assert.deepEqual([...compressG1([0n, 0n])], [0x40, ...Array(31).fill(0)]);
  assert.deepEqual(
    [
      ...compressG2([
        [0n, 0n],
        [0n, 0n],
      ]),
    ],
    [0x40, ...Array(63).fill(0)],
  );
});

test('invalid proofs: other shapes, too large numbers, points off the curve', () => {
  const good = answerOf(multipleG1(2), GENERATOR_G2, multipleG1(5));
  assert.ok(read(good) !== null);
  const large = '0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47';
  const [x1, x0] = good.bs[0] as [string, string];
  for (const bad of [
    null,
    [],
    'proof',
    { ...good, ar: undefined },
    { ...good, ar: [...good.ar, '0x0'] },
    { ...good, ar: [large, '0x2'] },
    { ...good, ar: ['0x1', '2'] },
    { ...good, ar: ['0x1', 2] },
    { ...good, ar: ['0x1', '0x3'] },
    { ...good, krs: ['0x1', '0x3'] },
    { ...good, krs: ['0x', '0x2'] },
    { ...good, bs: [good.bs[0]] },
    { ...good, bs: [[x0, x1], good.bs[1]] },
    { ...good, bs: { 0: good.bs[0], 1: good.bs[1] } },
  ])
    assert.equal(read(bad), null, JSON.stringify(bad));
  assert.equal(readProofAnswer('{'), null);
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      assert.equal(read(value), null);
    }),
  );
});
