import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashesText, inTurns, readInTurns } from './queues.ts';

/** Yields during the work, and its result. */
async function turnsOf<T>(work: () => Promise<T>): Promise<{ readonly turns: number; readonly result: T }> {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const result = await work();
  isOver = true;
  return { turns, result };
}

test('a list is processed in order, with yields between the pieces', async () => {
  const list = Array.from({ length: 10_000 }, (_, i) => i);
  const { turns, result } = await turnsOf(() =>
    inTurns(list, async (piece, from) => piece.map((n, i) => n * 2 - from - i)),
  );
  assert.deepEqual(result, list);
  assert.ok(turns >= 9, `${turns} turns`);
});

test('rows are read up to the limit or the end, whatever gaps exist', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.nat(20_000), { maxLength: 5_000, size: 'max' }),
      fc.integer({ min: 1, max: 6_000 }),
      fc.nat(20_000),
      async (places, limit, from) => {
        const sorted = places.toSorted((a, b) => a - b);
        const read = async (first: number, count: number) => sorted.filter((place) => place >= first).slice(0, count);
        const wanted = sorted.filter((place) => place >= from).slice(0, limit);
        assert.deepEqual(await readInTurns(limit, from, read, (place) => place), wanted);
      },
    ),
    { numRuns: 50 },
  );
});

test('texts of hashes are JSON', async () => {
  const hashes = Array.from({ length: 3_000 }, (_, i) => Buffer.alloc(32, i));
  for (const list of [[], hashes.slice(0, 1), hashes])
    assert.deepEqual(
      JSON.parse(await hashesText(list, (hash) => hash)),
      list.map((hash) => encode32(hash)),
    );
});
