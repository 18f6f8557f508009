import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { editDistance, nearest } from './nearest.ts';

const word = fc.stringMatching(/^[a-d]{0,8}$/);

test('edit distance: zero exactly for equal words, symmetric, at most the longer word', () => {
  fc.assert(
    fc.property(word, word, (a, b) => {
      const distance = editDistance(a, b);
      assert.equal(distance === 0, a === b);
      assert.equal(distance, editDistance(b, a));
      assert.ok(distance <= Math.max(a.length, b.length));
      assert.ok(distance >= Math.abs(a.length - b.length));
    }),
  );
});

test('one edit of any kind is distance one', () => {
  for (const other of ['prot', 'pot', 'ports', 'part']) assert.equal(editDistance('port', other), 1, other);
});

test('nearest suggests what is near and nothing else', () => {
  assert.equal(nearest('websokcetPort', ['host', 'websocketPort', 'port']), 'websocketPort');
  assert.equal(nearest('zzzzzz', ['host', 'port']), null);
});
