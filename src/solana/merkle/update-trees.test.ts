import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bySeed } from '../../../test/helpers/run-part.ts';
import { pathPages, siblings, zeroHashes } from './path.ts';
import { createPoseidon } from './poseidon.ts';
import { type LeafChange, updateTrees } from './update-trees.ts';

const poseidon = createPoseidon();
const zeros = zeroHashes(poseidon, 40);
const zero = (level: number) => zeros.subarray(32 * level, 32 * level + 32);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

function parent(left: Uint8Array, right: Uint8Array): Uint8Array {
  const pair = Buffer.concat([left, right]);
  poseidon.hashPairs(pair, 0, pair, 0, 1);
  return pair.subarray(0, 32);
}

/** By definition: nodes in a map, every ancestor of every leaf. */
function plainRoot(height: number, leaves: ReadonlyMap<number, Uint8Array>): { root: string; ancestors: number } {
  let level = new Map(leaves);
  let ancestors = 0;
  for (let depth = 0; depth < height; depth += 1) {
    const above = new Map<number, Uint8Array>();
    for (const index of level.keys()) {
      const up = Math.floor(index / 2);
      if (above.has(up)) continue;
      above.set(up, parent(level.get(2 * up) ?? zero(depth), level.get(2 * up + 1) ?? zero(depth)));
      ancestors += 1;
    }
    level = above;
  }
  return { root: hex(level.get(0) ?? zero(height)), ancestors };
}

/** A tree as stored. */
function createTree(height: number) {
  const pages = new Map<number, Uint8Array>();
  const page = (key: number) => pages.get(key) ?? null;
  const take = (result: ReturnType<typeof updateTrees>['trees'][number]) => {
    for (const [key, bytes] of result.pages) pages.set(key, bytes);
    return result;
  };
  return {
    pages,
    page,
    take,
    update(leaves: readonly LeafChange[]) {
      const { trees, hashCount } = updateTrees(poseidon, zeros, [{ height, page, leaves }]);
      return { ...take(trees[0]!), hashCount };
    },
  };
}

const fold = (index: number, leaf: Uint8Array, path: readonly Uint8Array[]) =>
  hex(
    path.reduce(
      (node, sibling, level) =>
        Math.floor(index / 2 ** level) % 2 === 0 ? parent(node, sibling) : parent(sibling, node),
      leaf,
    ),
  );

const HEIGHTS = [1, 2, 5, 6, 7, 12, 13, 26, 32, 40];
const leafOf = fc.uint8Array({ minLength: 31, maxLength: 31 }).map((bytes) => Uint8Array.of(0, ...bytes));
const changesOf = (height: number) =>
  fc.array(
    fc.array(
      fc.record({
        index: fc.oneof(
          fc.integer({ min: 0, max: Math.min(200, 2 ** height - 1) }),
          fc.maxSafeInteger().map((n) => Math.abs(n) % 2 ** height),
        ),
        hash: fc.oneof({ weight: 4, arbitrary: leafOf }, { weight: 1, arbitrary: fc.constant(new Uint8Array(32)) }),
      }),
      { maxLength: 12 },
    ),
    { minLength: 1, maxLength: 4 },
  );

bySeed(25, ({ length: numRuns }) => {
  for (const height of HEIGHTS) {
    test(`height ${height}: any batches give the root of the definition, paths fold to it, and going back restores every page`, () => {
      fc.assert(
        fc.property(changesOf(height), (batches) => {
          const tree = createTree(height);
          const leaves = new Map<number, Uint8Array>();
          let root = hex(zero(height));
          for (const batch of batches) {
            const pagesBefore = new Map([...tree.pages].map(([key, bytes]) => [key, hex(bytes)]));
            const result = tree.update(batch);
            const touched = new Map(batch.map(({ index, hash }) => [index, hash]));
            for (const [index, hash] of touched) leaves.set(index, hash);
            assert.equal(result.hashCount, plainRoot(height, touched).ancestors);
            if (batch.length > 0) root = hex(result.root);
            assert.equal(root, plainRoot(height, leaves).root);
            const undone = new Map([...tree.pages].map(([key, bytes]) => [key, bytes.slice()]));
            for (const { page, offset, hash } of result.before.toReversed()) undone.get(page)!.set(hash, offset);
            for (const [key, bytes] of undone) assert.equal(hex(bytes), pagesBefore.get(key) ?? hex(emptyLike(key)));
          }
          for (const [index, leaf] of leaves) {
            const path = siblings(height, index, tree.page, zeros);
            assert.equal(path.length, height);
            assert.equal(fold(index, leaf, path), root);
          }
        }),
        { numRuns },
      );
    });
  }
});

function emptyLike(key: number): Uint8Array {
  const tree = createTree(40);
  const group = Math.floor(key / 2 ** 34);
  // A change that touches the page and sets the existing value.
  const index = (key % 2 ** 34) * 2 ** (6 * (group + 1));
  tree.update([{ index: index % 2 ** 40, hash: new Uint8Array(32) }]);
  return tree.pages.get(key)!;
}

test('several trees in one call give the same result as separate calls', () => {
  const list = [3, 26, 32].map((height, i) => ({
    height,
    leaves: Array.from({ length: 3 + i }, (_, j) => ({
      index: j * (i + 1),
      hash: Uint8Array.of(0, ...Buffer.alloc(31, i + j + 1)),
    })),
  }));
  const { trees } = updateTrees(
    poseidon,
    zeros,
    list.map((one) => ({ ...one, page: () => null })),
  );
  for (const [i, one] of list.entries())
    assert.equal(hex(trees[i]!.root), hex(createTree(one.height).update(one.leaves).root));
});

test('pages of a path: 5 for height 26, 6 for 32, 7 for 40', () => {
  for (const [height, pages] of [
    [26, 5],
    [32, 6],
    [40, 7],
  ] as const) {
    for (const index of [0, 1, 77, 2 ** height - 1]) assert.equal(pathPages(height, index).length, pages);
  }
});

test('an aligned append of 500 leaves at height 32 costs 524 hashes', () => {
  const leaves = Array.from({ length: 500 }, (_, index) => ({ index, hash: Uint8Array.of(0, ...Buffer.alloc(31, 1)) }));
  assert.equal(createTree(32).update(leaves).hashCount, 524);
});

test('a leaf outside the tree is refused', () => {
  for (const index of [-1, 2 ** 26, 0.5, Number.NaN])
    assert.throws(() => createTree(26).update([{ index, hash: new Uint8Array(32) }]), RangeError);
});
