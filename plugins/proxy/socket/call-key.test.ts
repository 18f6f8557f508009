import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callKey } from './call-key.ts';

const K = 'So11111111111111111111111111111111111111112';
const keyOf = (method: string, params: unknown) =>
  callKey(method, params === undefined ? null : JSON.stringify(params));

test('calls with equal values are one subscription, as on a node', () => {
  const same: readonly (readonly [method: string, ...calls: unknown[]])[] = [
    ['slotSubscribe', undefined, [], null],
    [
      'accountSubscribe',
      [K],
      [K, null],
      [K, {}],
      [K, { commitment: 'finalized' }],
      [K, { encoding: 'binary' }],
      [K, { encoding: null, commitment: null }],
      [K, { minContextSlot: 5 }],
      [K, { someMember: 1 }],
    ],
    [
      'accountSubscribe',
      [K, { encoding: 'base64', commitment: 'confirmed' }],
      [K, { commitment: 'confirmed', encoding: 'base64' }],
      [K, { commitment: 'confirmed', encoding: 'base64', minContextSlot: 7 }],
    ],
    [
      'accountSubscribe',
      [K, { dataSlice: { offset: 0, length: 1 } }],
      [K, { dataSlice: { length: 1, offset: 0 }, commitment: 'finalized' }],
    ],
    [
      'programSubscribe',
      [K, { filters: [{ dataSize: 165 }] }],
      [K, { withContext: false, filters: [{ dataSize: 165 }] }],
    ],
    ['logsSubscribe', ['all'], ['all', {}], ['all', { commitment: 'finalized' }]],
    ['signatureSubscribe', ['s'], ['s', { enableReceivedNotification: false }]],
    ['transactionSubscribe', [{ a: 1, b: 2 }], [{ b: 2, a: 1 }]],
  ];
  const keys = same.map(([method, ...calls]) => {
    const [first, ...others] = calls.map((params) => keyOf(method, params));
    for (const other of others) assert.equal(other, first);
    return first;
  });
  assert.equal(new Set(keys).size, keys.length);
});

test('calls with other values are others, and those that a node refuses stay as they are written', () => {
  const different: readonly (readonly [method: string, params: unknown])[] = [
    ['accountSubscribe', [K]],
    ['accountSubscribe', [K, { commitment: 'confirmed' }]],
    ['accountSubscribe', [K, { commitment: 'newest' }]],
    ['accountSubscribe', [K, { encoding: 'base64' }]],
    ['accountSubscribe', [K, { dataSlice: { offset: 0, length: 1 } }]],
    ['accountSubscribe', [K, {}, 1]],
    ['accountSubscribe', [K, 'confirmed']],
    ['accountSubscribe', []],
    ['accountSubscribe', {}],
    ['programSubscribe', [K]],
    ['programSubscribe', [K, { withContext: true }]],
    ['programSubscribe', [K, { filters: [{ dataSize: 165 }] }]],
    ['slotSubscribe', []],
    ['slotSubscribe', [1]],
    ['rootSubscribe', []],
    ['logsSubscribe', ['all']],
    ['logsSubscribe', [{ mentions: [K] }]],
    ['signatureSubscribe', ['s', { enableReceivedNotification: true }]],
    ['signatureSubscribe', ['s']],
  ];
  const keys = different.map(([method, params]) => keyOf(method, params));
  assert.equal(new Set(keys).size, keys.length);
  assert.equal(callKey('accountSubscribe', '[1'), 'accountSubscribe [1');
});
