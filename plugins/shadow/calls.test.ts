import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callsOf } from './calls.ts';

const rpc = (body: unknown) => ({ name: 'POST /', path: '/', query: '', body: Buffer.from(JSON.stringify(body)) });
const rest = (query: string) => ({
  name: 'GET /v1/wallet/:wallet/transfers',
  path: '/v1/wallet/abc/transfers',
  query,
  body: null,
});
const answer = { status: 200, body: '{"jsonrpc":"2.0","id":1,"result":1}' };
const call = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 1, method, params });

test('a page that a cursor of ours leads to is not asked of the reference', () => {
  const key = 'cursor-of-ours';
  assert.equal(callsOf(rpc(call('getProgramAccountsV2', ['a', { paginationKey: key }])), answer).length, 0);
  assert.equal(callsOf(rpc(call('getAssetsByOwner', { ownerAddress: 'a', cursor: key })), answer).length, 0);
  assert.equal(callsOf(rest(`limit=5&cursor=${key}`), answer).length, 0);
  assert.equal(callsOf(rpc(call('getProgramAccountsV2', ['a', { paginationKey: null }])), answer).length, 1);
  assert.equal(callsOf(rpc(call('getAssetsByOwner', { ownerAddress: 'a' })), answer).length, 1);
  assert.equal(callsOf(rest('limit=5'), answer).length, 1);
});
