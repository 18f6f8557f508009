import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { ASSET_METHODS, type AssetMethod, namesOf } from '../../src/solana/assets/methods.ts';
import { type ProxyConfig, proxyConfig } from './config.ts';
import { createMethodPrices } from './fallback.ts';

const price = createMethodPrices((Value.Default(proxyConfig, {}) as ProxyConfig).credits);
const of = (method: string, params: unknown = []) => {
  const { product, credits, groups } = price(method, () => params);
  return [product, credits, [...groups]];
};

test('published prices', () => {
  for (const [method, product, credits, ...groups] of [
    ['getSlot', 'rpc', 1, 'rpc'],
    ['someVendorMethod', 'rpc', 1, 'rpc'],
    ['getPriorityFeeEstimate', 'rpc', 1, 'rpc'],
    ['sendTransaction', 'rpc', 1, 'rpc', 'sendTransaction'],
    ['getBundleStatuses', 'rpc', 1, 'rpc'],
    ['sendBundle', 'rpc', 10, 'rpc', 'sendBundle'],
    ['simulateBundle', 'rpc', 1, 'rpc', 'simulateBundle'],
    ['getProgramAccounts', 'rpc', 10, 'rpc', 'getProgramAccounts'],
    ['getBlock', 'archival', 1, 'rpc'],
    ['getBlocks', 'archival', 1, 'rpc'],
    ['getBlocksWithLimit', 'archival', 1, 'rpc'],
    ['getBlockTime', 'archival', 1, 'rpc'],
    ['getTransaction', 'archival', 1, 'rpc'],
    ['getSignaturesForAddress', 'archival', 1, 'rpc'],
    ['getInflationReward', 'archival', 1, 'rpc'],
    ['getTransactionsForAddress', 'archival', 10, 'rpc'],
    ['getAsset', 'das', 10, 'das'],
    ['getAssetsByOwner', 'das', 10, 'das'],
    ['searchAssets', 'das', 10, 'das'],
    ['getTokenAccounts', 'das', 10, 'das'],
    ['getTokenAccountsByOwner', 'rpc', 1, 'rpc'],
    ['getCompressedAccount', 'photon', 10, 'photon'],
    ['getMultipleNewAddressProofsV2', 'photon', 10, 'photon'],
    ['getValidityProof', 'photon', 100, 'photon', 'getValidityProof'],
  ] as const) {
    assert.deepEqual(of(method), [product, credits, groups], method);
  }
});

test('a method of the asset API costs the same under each of its names', () => {
  const names = (Object.keys(ASSET_METHODS) as AssetMethod[]).flatMap(namesOf);
  assert.ok(names.length > 30 && new Set(names).size === names.length);
  for (const name of [...names, 'getAssetsByTree', 'get_assets_by_tree'])
    assert.deepEqual(of(name), ['das', 10, ['das']], name);
});

test('getSignatureStatuses is an archival call when it searches the history', () => {
  const dear = of('getSignatureStatuses', [['sig'], { searchTransactionHistory: true }]);
  assert.deepEqual(dear, ['archival', 1, ['rpc']]);
  for (const params of [
    undefined,
    [],
    [['sig']],
    [['sig'], null],
    [['sig'], { searchTransactionHistory: 'true' }],
    {},
  ]) {
    assert.deepEqual(of('getSignatureStatuses', params), ['rpc', 1, ['rpc']]);
  }
});

test('getTransactionsForAddress costs 10 for each 100 full results, and 10 for signatures', () => {
  const credits = (options?: unknown) => of('getTransactionsForAddress', ['address', options])[1];
  assert.equal(credits(), 10);
  assert.equal(credits(null), 10);
  assert.equal(credits({ limit: 1_000 }), 10);
  assert.equal(credits({ transactionDetails: 'signatures', limit: 1_000 }), 10);
  assert.equal(credits({ transactionDetails: 'full' }), 10);
  assert.equal(credits({ transactionDetails: 'full', limit: 100 }), 10);
  assert.equal(credits({ transactionDetails: 'full', limit: 101 }), 20);
  assert.equal(credits({ transactionDetails: 'full', limit: 1_000 }), 100);
  assert.equal(credits({ transactionDetails: 'full', limit: 1e300 }), 100);
});

test('parameters are parsed only where the price depends on them', () => {
  price('getSlot', () => assert.fail('parsed'));
  price('getBlock', () => assert.fail('parsed'));
});
