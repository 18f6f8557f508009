import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cacheableCallOf } from './cached-ask.ts';

const key = (method: string, params: string | null) => cacheableCallOf(method, params)?.key ?? null;

test('only answers that never change are cached', () => {
  assert.equal(key('getGenesisHash', null), 'getGenesisHash');
  assert.equal(key('getGenesisHash', ' [ ] '), 'getGenesisHash');
  assert.equal(key('getAgGenesisCert', '[]'), 'getAgGenesisCert');
  assert.ok(key('getBlock', '[5]'));
  assert.ok(key('getBlockTime', '[5]'));
  assert.ok(key('getTransaction', '["sig"]'));
  for (const [method, params] of [
    ['getSlot', '[]'],
    ['getAccountInfo', '["x",{"commitment":"finalized"}]'],
    ['getBlock', '[5,{"commitment":"confirmed"}]'],
    ['getBlock', '[5,{"commitment":"max"}]'],
    ['getTransaction', '["sig",{"commitment":"processed"}]'],
    ['getTransaction', '["sig",{"commitment":"confirmed","encoding":"json"}]'],
    ['getTransaction', null],
    ['getBlock', '[]'],
    ['getBlock', '{"slot":5}'],
    ['getBlock', '["5"]'],
    ['getBlock', '[-1]'],
    ['getBlock', '[1.5]'],
    ['getBlock', '[18446744073709551615]'],
    ['getBlockTime', '[5,{}]'],
    ['getBlock', '[5,{},1]'],
    ['getBlock', '[5,7]'],
    ['getBlock', '[5'],
    ['getAgGenesisCert', '[{}]'],
    ['getRankMap', null],
    ['getRankMap', '[]'],
    ['getRankMap', '[null]'],
    ['getRankMap', '[5,{"minContextSlot":4}]'],
    ['getRankMap', '[5,{"commitment":"finalized"}]'],
    ['getRankMap', '[5,{},1]'],
    ['getRankMap', '[5,{"identity":7}]'],
  ] as const) {
    assert.equal(key(method, params), null, `${method} ${params}`);
  }
});

test('equal questions have one key, different ones never share a key', () => {
  const equal = ['[5]', '[5,{}]', ' [ 5 , null ] ', '[5,{"commitment":"finalized"}]', '[5,{"commitment":null}]'];
  assert.equal(new Set(equal.map((params) => key('getBlock', params))).size, 1);
  const sorted = ['[5,{"a":1,"b":2}]', '[5,{"b":2,"a":1}]', '[5,{"b":2,"commitment":"finalized","a":1}]'];
  assert.equal(new Set(sorted.map((params) => key('getBlock', params))).size, 1);
  assert.equal(key('getTransaction', '["s","json"]'), key('getTransaction', '["s",{"encoding":"json"}]'));
  const different = ['[5]', '[6]', '[5,{"encoding":"json"}]', '[5,{"encoding":"base64"}]', '[5,{"rewards":false}]'];
  assert.equal(new Set(different.map((params) => key('getBlock', params))).size, different.length);
});

test('ranks are those of an epoch and an identity, whatever slot of it is named', () => {
  const whole = cacheableCallOf('getRankMap', '[432001]');
  assert.deepEqual(whole, cacheableCallOf('getRankMap', '[432001,null]'));
  assert.deepEqual(whole, cacheableCallOf('getRankMap', '[432001,{"identity":null}]'));
  assert.equal(whole?.epochSlot, 432_001);
  assert.equal(key('getRankMap', '[7]'), whole.key);
  assert.notEqual(key('getRankMap', '[7,{"identity":"x"}]'), whole.key);
});

test('text that two parsers could read differently is not cached', () => {
  assert.equal(key('getBlock', '[5,{"encoding":"json","encoding":"base64"}]'), null);
  assert.equal(key('getBlock', '[5e0]'), null);
  assert.equal(key('getBlock', '[5.0]'), null);
  assert.equal(key('getTransaction', '["\\u0061"]'), null);
});

test('keys are equal exactly when the canonical parameters are', () => {
  const options = fc.record(
    {
      encoding: fc.constantFrom('json', 'base64', 'jsonParsed'),
      maxSupportedTransactionVersion: fc.constantFrom(0, 1),
      rewards: fc.boolean(),
    },
    { requiredKeys: [] },
  );
  const canonical = (slot: number, given: object) =>
    JSON.stringify([slot, Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1))]);
  fc.assert(
    fc.property(fc.nat(3), options, fc.nat(3), options, (slotA, a, slotB, b) => {
      const same = canonical(slotA, a) === canonical(slotB, b);
      const keys = [key('getBlock', JSON.stringify([slotA, a])), key('getBlock', JSON.stringify([slotB, b], null, 1))];
      assert.equal(keys[0] === keys[1], same);
    }),
    { numRuns: 500 },
  );
});
