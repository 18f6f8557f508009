import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { type ProxyConfig, proxyConfig } from '../../../plugins/proxy/config.ts';
import { createPrices } from '../../../plugins/proxy/price.ts';

const price = createPrices((Value.Default(proxyConfig, {}) as ProxyConfig).credits);
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
    ['sendBundle', 'rpc', 1, 'rpc', 'sendBundle'],
    ['simulateBundle', 'rpc', 1, 'rpc', 'simulateBundle'],
    ['getProgramAccounts', 'rpc', 10, 'rpc', 'getProgramAccounts'],
    ['getBlock', 'archival', 10, 'rpc'],
    ['getBlocks', 'archival', 10, 'rpc'],
    ['getBlocksWithLimit', 'archival', 10, 'rpc'],
    ['getBlockTime', 'archival', 10, 'rpc'],
    ['getTransaction', 'archival', 10, 'rpc'],
    ['getSignaturesForAddress', 'archival', 10, 'rpc'],
    ['getInflationReward', 'archival', 10, 'rpc'],
    ['getTransactionsForAddress', 'archival', 100, 'rpc'],
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

test('getSignatureStatuses costs more when it searches the history', () => {
  const dear = of('getSignatureStatuses', [['sig'], { searchTransactionHistory: true }]);
  assert.deepEqual(dear, ['archival', 10, ['rpc']]);
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

test('parameters are parsed only where the price depends on them', () => {
  price('getSlot', () => assert.fail('parsed'));
  price('getBlock', () => assert.fail('parsed'));
});
