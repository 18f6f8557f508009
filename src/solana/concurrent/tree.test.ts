import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createModelTree, treeAccount } from '../../../test/helpers/bubblegum.ts';
import { LayoutError } from '../../lib/bytes.ts';
import { CONCURRENT_HEADER_BYTES, readConcurrentTree } from './tree.ts';

test('the start of an account contains height, sequence number and the offset of the root', () => {
  const tree = createModelTree(new Uint8Array(32).fill(7), 5);
  for (let leaf = 0; leaf < 3; leaf++) tree.set(leaf, new Uint8Array(32).fill(leaf + 1));
  const bytes = treeAccount(tree);
  const account = readConcurrentTree(bytes.subarray(0, CONCURRENT_HEADER_BYTES));
  assert.deepEqual([account.height, account.seq, account.bufferSize, account.changes], [5, 3n, 1, 1]);
  const at = account.rootOffset(3n)!;
  assert.deepEqual(bytes.subarray(at, at + 32), Buffer.from(tree.root()));
  assert.deepEqual([account.rootOffset(2n), account.rootOffset(4n)], [null, null]);
});

test('roots wrap around in the buffer', () => {
  const bytes = treeAccount(createModelTree(new Uint8Array(32), 2));
  bytes.writeUInt32LE(8, 2);
  bytes.writeBigUInt64LE(21n, 56);
  bytes.writeBigUInt64LE(1n, 64);
  bytes.writeBigUInt64LE(8n, 72);
  const { rootOffset } = readConcurrentTree(bytes);
  const places = [21n, 20n, 19n, 14n, 13n].map((seq) => rootOffset(seq));
  const each = 32 + 64 + 8;
  assert.deepEqual(places, [80 + each, 80, 80 + 7 * each, 80 + 2 * each, null]);
});

test('other accounts are not trees', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), (bytes, marked) => {
      if (marked) bytes.set([1, 0].slice(0, bytes.length));
      try {
        const { height } = readConcurrentTree(bytes);
        assert.ok(height >= 1 && height <= 30);
      } catch (error) {
        assert.ok(error instanceof LayoutError);
      }
    }),
  );
});
