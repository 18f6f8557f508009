/** Where the link of a Discord message leads: to the cluster that the daemon follows, whatever its configuration calls it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import { DEVNET_GENESIS, MAINNET_GENESIS, TESTNET_GENESIS } from '../../../src/solana/programs.ts';
import { signatureOf } from './blocks.ts';
import { patient, stage } from './stage.ts';

const PRIVATE_GENESIS = '11111111111111111111111111111112';
const CASES: readonly (readonly [name: string, status: Partial<ChainStatus>, query: string])[] = [
  ['mainnet', { kind: 'rpc', genesisHash: MAINNET_GENESIS }, '?cluster=mainnet-beta'],
  ['devnet as the main chain', { kind: 'rpc', genesisHash: DEVNET_GENESIS }, '?cluster=devnet'],
  ['testnet as the main chain', { kind: 'rpc', genesisHash: TESTNET_GENESIS }, '?cluster=testnet'],
  ['a private cluster', { kind: 'rpc', genesisHash: PRIVATE_GENESIS }, '?cluster=custom'],
  ['a chain that is not known yet', { kind: 'rpc', genesisHash: null }, '?cluster=custom'],
  [
    'the local chain',
    { kind: 'local', genesisHash: PRIVATE_GENESIS, rpcUrl: 'http://127.0.0.1:8899' },
    '?cluster=custom&customUrl=http%3A%2F%2F127.0.0.1%3A8899',
  ],
];

test('the link of a Discord message names the cluster of the genesis hash, and no public one for other chains', async (t) => {
  let status: Partial<ChainStatus> = {};
  const it = await stage(t, { ...patient, status: () => status });
  await it.create({ webhookType: 'discord' });
  for (const [at, [name, now, query]] of CASES.entries()) {
    status = now;
    await it.event(name);
    const message = (await it.receiver.waitFor(at + 1))[at];
    const { embeds } = JSON.parse(String(message?.body)) as { embeds: { url: string }[] };
    assert.equal(embeds[0]?.url, `https://explorer.solana.com/tx/${signatureOf(name)}${query}`, name);
  }
});
