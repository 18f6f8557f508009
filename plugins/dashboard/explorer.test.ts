import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEVNET_GENESIS, MAINNET_GENESIS, TESTNET_GENESIS } from '../../src/solana/programs.ts';
import { explorerAddress } from './app/explorer.ts';

test('the link to the explorer names the cluster, and leads nowhere for a chain that the explorer does not know', () => {
  const link = 'https://explorer.solana.com/tx/abc';
  assert.equal(explorerAddress('abc', MAINNET_GENESIS), link);
  assert.equal(explorerAddress('abc', DEVNET_GENESIS), `${link}?cluster=devnet`);
  assert.equal(explorerAddress('abc', TESTNET_GENESIS), `${link}?cluster=testnet`);
  for (const unknown of ['11111111111111111111111111111112', null, undefined])
    assert.equal(explorerAddress('abc', unknown), null);
});
