/** Lives of a whole daemon that once ended wrongly, repeated by their number. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byCase } from '../../helpers/run-part.ts';
import { live } from './many-lives.ts';
import { randomLife } from './random-life.ts';

/** What was found, by the seed that found it. */
const FOUND: readonly { readonly seed: number; readonly what: string }[] = [
  { seed: 147, what: 'a wallet is read while no node gives its blocks, and the blocks come later' },
  { seed: 177, what: 'what went in a batch is given free by a fork, and what went alone goes in a batch after a kill' },
  { seed: 178, what: 'what went in a batch is given free by a fork' },
  { seed: 111, what: 'the store is in trouble before the first attempt at a delivery' },
  { seed: 449, what: 'an upstream lists a transaction that another one does not have' },
  { seed: 605, what: 'a wallet is read while the index has yet to hear of a fork' },
  { seed: 824, what: 'a wallet is filled from a node that is behind the one that began it' },
  { seed: 912, what: 'a place that was made up for one wallet is told when another one is filled' },
  { seed: 2689, what: 'a process is killed just after outcomes were written that had long failed to be' },
  { seed: 1_002_602, what: 'the disk fails while a batch is being sent, and then its block is rolled back' },
  { seed: 1_000_329, what: 'of transactions whose places were made up one is told when another wallet is filled' },
  { seed: 1_000_132, what: 'the connection breaks after outcomes of deliveries were committed' },
  { seed: 1_006_827, what: 'a batch is under way when its process ends, and the webhook wants no batches any more' },
  { seed: 1_007_727, what: 'a block is lost, and a wallet has transactions in it with and without a known place' },
];

byCase(FOUND, (own) => {
  for (const { seed, what } of own) test(`seed ${seed}: ${what}`, () => live(seed));
});

test('a seed gives the same life again', async () => {
  const [first, second] = [await randomLife(7), await randomLife(7)];
  assert.deepEqual(first, second);
});
