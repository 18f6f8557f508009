import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { Bag, type InBag } from './bag.ts';

test('whatever is added and removed, a bag holds what a set would', () => {
  const random = createSfc32(20261122);
  const items: InBag[] = Array.from({ length: 40 }, () => ({ place: -1 }));
  const bag = new Bag<InBag>();
  const model = new Set<InBag>();
  for (let step = 0; step < 5_000; step += 1) {
    const item = items[random.below(items.length)]!;
    if (random.below(2) === 0) {
      bag.add(item);
      model.add(item);
    } else assert.equal(bag.remove(item), model.delete(item));
    assert.equal(bag.size, model.size);
    assert.deepEqual(new Set(bag.all()), model);
    assert.deepEqual(items.filter(({ place }) => place >= 0).length, model.size);
  }
});

test('a list of the items does not change with the bag', () => {
  const bag = new Bag<InBag>();
  const items = [1, 2, 3].map(() => ({ place: -1 }));
  for (const item of items) bag.add(item);
  const all = bag.all();
  for (const item of all) assert.equal(bag.remove(item), true);
  assert.deepEqual([all.length, bag.size], [3, 0]);
});

test('items that leave a busy bag are garbage at once', () => {
  const { gc } = globalThis;
  assert.ok(gc !== undefined);
  const bag = new Bag<InBag & { readonly bytes: number[] }>();
  const waiting: (InBag & { readonly bytes: number[] })[] = [];
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let step = 0; step < 100_000; step += 1) {
    const item = { place: -1, bytes: new Array<number>(100).fill(step) };
    bag.add(item);
    if (waiting.push(item) > 64) bag.remove(waiting.shift()!);
    // Only minor collections.
    if (step % 5_000 === 0) gc({ type: 'minor' } as never);
  }
  gc({ type: 'minor' } as never);
  const grown = process.memoryUsage().heapUsed - before;
  // A Set takes 35 million bytes.
  assert.ok(grown < 10e6, `${grown} bytes`);
});
