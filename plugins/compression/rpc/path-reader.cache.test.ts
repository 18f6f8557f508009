import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createPageCache } from './path-reader.ts';

const rootOf = (number: number) => new Uint8Array(32).fill(number);
/** Content of a page in a state. */
const nodesOf = (id: number, root: number) => Uint8Array.of(id, root);

test('a page is returned only for the root that it was read with', () => {
  const step = fc.record({ tree: fc.nat(2), root: fc.nat(2), page: fc.nat(3), write: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(300, 1_000, 100_000), (steps, maxBytes) => {
      const cache = createPageCache(maxBytes);
      for (const { tree, root, page, write } of steps) {
        const id = tree * 10 + page;
        // Callers may change the bytes that they passed.
        const bytes = rootOf(root);
        const state = cache.state(tree, bytes);
        bytes.fill(9);
        const found = cache.get(id, state);
        if (found !== undefined) assert.deepEqual(found, page === 3 ? null : nodesOf(id, root));
        if (write) cache.set(id, state, page === 3 ? null : nodesOf(id, root));
      }
    }),
  );
});

test('it keeps pages up to its limit', () => {
  const cache = createPageCache(10 * (256 + 4_032));
  const state = cache.state(1, rootOf(1));
  assert.equal(cache.state(1, rootOf(1)), state);
  for (let id = 0; id < 100; id += 1) cache.set(id, state, new Uint8Array(4_032));
  const kept = Array.from({ length: 100 }, (_, id) => id).filter((id) => cache.get(id, state) !== undefined);
  assert.deepEqual(kept, [90, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
});
