import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zeroHashes } from './path.ts';
import { createPoseidon } from './poseidon.ts';
import { updateTrees } from './update-trees.ts';

test('pages given as Buffers stay unchanged, and previous nodes are kept', () => {
  const poseidon = createPoseidon();
  const zeros = zeroHashes(poseidon, 6);
  const leaf = (byte: number) => ({ index: 0, hash: new Uint8Array(32).fill(byte, 1) });
  const first = updateTrees(poseidon, zeros, [{ height: 6, page: () => null, leaves: [leaf(1)] }]).trees[0]!;
  const stored = new Map([...first.pages].map(([key, bytes]) => [key, Buffer.from(bytes)]));
  const second = updateTrees(poseidon, zeros, [
    { height: 6, page: (key) => stored.get(key) ?? null, leaves: [leaf(2)] },
  ]).trees[0]!;
  assert.deepEqual(
    [...stored].map(([key, bytes]) => [key, new Uint8Array(bytes)]),
    [...first.pages],
  );
  assert.deepEqual(second.before[0]?.hash, leaf(1).hash);
});
