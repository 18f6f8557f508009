import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { decodeResponse } from '../../src/solana/decode/response.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { inLongTier } from '../helpers/run-part.ts';
import { createSfc32 } from '../helpers/sfc32.ts';
import { pairsOf, whyNotBeside } from './beside.ts';
import { changesFrom } from './compare.ts';
import { paired, ratioOf } from './paired.ts';
import type { RowResult } from './row.ts';
import { ingestRow } from './rows/g1-ingest.ts';
import { matchingRow } from './rows/g7-matching.ts';
import { syntheticBlock } from './samples/synthetic-block.ts';

test('ratios are those of each pair', () => {
  assert.deepEqual(ratioOf([2, 9, 4], [1, 3, 4]), { median: 2, min: 1, max: 3 });
  assert.deepEqual(ratioOf([1, 4], [1, 1]), { median: 2.5, min: 1, max: 4 });
  assert.throws(() => ratioOf([], []), RangeError);
});

const row = (id: string, unit: string, ours: number[], baseline: number[]): RowResult => ({
  row: id,
  name: id,
  unit,
  ours,
  baseline,
  ratio: null,
  goal: 'a report',
  verdict: 'not assessed',
  sizes: {},
  seed: 1,
  notes: [],
});

test('runs of two checkouts are matched by row, and more is better whatever the unit', () => {
  const here = [
    [row('rate', 'blocks/s', [30, 10, 20], []), row('time', 'ms', [5], []), row('new', 'ms', [1], [])],
    [row('rate', 'blocks/s', [60], []), row('time', 'ms', [10], []), row('new', 'ms', [1], [])],
  ];
  const there = [
    [row('time', 'ms', [10], []), row('rate', 'blocks/s', [10], []), row('gone', 'ms', [1], [])],
    [row('time', 'ms', [40], []), row('rate', 'blocks/s', [20], []), row('gone', 'ms', [1], [])],
  ];
  const results = pairsOf(here, there);
  assert.deepEqual(
    results.map((result) => [result.row, result.ours, result.baseline, result.ratio]),
    [
      ['rate', [20, 60], [10, 20], { median: 2.5, min: 2, max: 3 }],
      ['time', [5, 10], [10, 40], { median: 3, min: 2, max: 4 }],
    ],
  );
});

test('what is no checkout with its packages is refused by its name', () => {
  assert.match(whyNotBeside('/nowhere')!, /^\/nowhere is no checkout/);
  assert.equal(whyNotBeside(findProjectRoot()), null);
});

test('a comparison of two runs names what got worse, by the ratio to the baseline and in the sense of the unit', () => {
  const before = [
    row('rate', 'calls/s', [100, 110], [100, 100]),
    row('time', 'ms', [10, 11], [10, 10]),
    row('noisy', 'ms', [10, 30], [10, 10]),
    row('alone', 'bytes', [10], []),
  ];
  const now = [
    // Twice the rate on a machine that is four times as fast.
    row('rate', 'calls/s', [200, 220], [400, 400]),
    row('time', 'ms', [5, 5], [10, 10]),
    row('noisy', 'ms', [25, 28], [10, 10]),
    row('alone', 'bytes', [20], []),
    row('new', 'ms', [1], [1]),
  ];
  const named = changesFrom(before, now).map((line) => line.trim().split(' ').slice(0, 2).join(' '));
  assert.deepEqual(named, ['', 'worse:', 'rate rate:', 'better:', 'time time:', 'not compared:']);
  assert.match(changesFrom(before, now).at(-1)!, /alone \(no baseline\), new \(not in the earlier run\)/);
  assert.deepEqual(changesFrom(before, before).slice(1, 3), ['worse: none', 'better: none']);
});

test('candidates take turns: A B, B A', () => {
  const order: string[] = [];
  const candidate = (name: string) => ({
    run: () => {
      order.push(name);
      return 1;
    },
  });
  const { oursMs, baselineMs, sink } = paired(candidate('A'), candidate('B'), { pairs: 4, minMs: 0 });
  assert.equal(order.slice(-8).join(''), 'ABBAABBA');
  assert.deepEqual([oursMs.length, baselineMs.length, sink], [4, 4, order.length]);
});

test('the generator draws as many distinct values as chance allows', () => {
  // n draws of m values give m(1 - (1 - 1/m)^n) distinct ones.
  const random = createSfc32(1);
  const values = new Set(Array.from({ length: 200_000 }, () => random.below(1_000_000)));
  const expected = 1_000_000 * (1 - (1 - 1 / 1_000_000) ** 200_000);
  assert.ok(Math.abs(values.size - expected) < 1_000, `${values.size} of ${expected}`);
  const keys = new Set(Array.from({ length: 20_000 }, () => random.fill(new Uint8Array(32)).join()));
  assert.equal(keys.size, 20_000);
});

test('the synthetic block is made as described and always the same', () => {
  const options = { seed: 3, transactions: 600, slot: 1000 };
  const { body, slot } = syntheticBlock(options);
  assert.ok(body.equals(syntheticBlock(options).body));
  const { transactions } = decodeBlock(slot, (decodeResponse(body) as { result: unknown }).result);
  assert.equal(transactions.length, 600);
  const votes = transactions.filter((tx) => tx.isVote);
  assert.ok(Math.abs(votes.length / 600 - 0.66) < 0.06, `${votes.length} votes`);
  const others = transactions.filter((tx) => !tx.isVote);
  const v0 = others.filter((tx) => tx.version === 0).length;
  assert.ok(Math.abs(v0 / others.length - 0.65) < 0.12, `${v0} of ${others.length}`);
  const keysPerTransaction = transactions.reduce((sum, tx) => sum + tx.keys.length, 0) / 600;
  assert.ok(keysPerTransaction > 9 && keysPerTransaction < 12, `${keysPerTransaction}`);
  for (const tx of others) {
    assert.ok(tx.staticKeyCount >= 12 && tx.staticKeyCount <= 25);
    assert.ok(tx.preTokenBalances.length >= 2 && tx.preTokenBalances.length <= 9);
    assert.ok(tx.logMessages!.length >= 12 && tx.logMessages!.length <= 51);
  }
});

test('a fifth of the transactions is of version 1 where a row asks for it', () => {
  const { body, slot } = syntheticBlock({ seed: 3, transactions: 600, slot: 1000, version1Share: 0.2 });
  const { transactions } = decodeBlock(slot, (decodeResponse(body) as { result: unknown }).result);
  const version1 = transactions.filter((tx) => tx.version === 1);
  assert.ok(Math.abs(version1.length / 600 - 0.2) < 0.05, `${version1.length}`);
  assert.ok(version1.every((tx) => tx.config?.computeUnitLimit !== null && tx.addressTableLookups.length === 0));
});

inLongTier(() =>
  test('the rows find equal answers on both sides, at a tiny size', async () => {
    for (const row of [ingestRow, matchingRow]) {
      const results = await row.run({ size: 'smoke', seed: 5, say: () => undefined });
      assert.ok(results.length >= 2);
      for (const { ours, baseline, verdict, seed } of results) {
        assert.ok([...ours, ...baseline].every((value) => value > 0));
        assert.deepEqual([verdict, seed], ['not assessed', 5]);
      }
    }
  }),
);
