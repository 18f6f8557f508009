import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  approve,
  compress as compressToken,
  createMint,
  decompress as decompressToken,
  mergeTokenAccounts,
  mintTo,
  revoke,
  transferDelegated,
  transfer as transferToken,
} from '@lightprotocol/compressed-token';
import { bn, compress, createRpc, decompress, transfer } from '@lightprotocol/stateless.js';
import { getOrCreateAssociatedTokenAccount } from '@solana/spl-token';
import type { Keypair } from '@solana/web3.js';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { startLightBed } from './harness.ts';

const LAMPORTS = 5_000_000;

test('the client library’s own actions work with the daemon as their node and as their indexer', {
  skip: await lightMissing(),
}, async (t) => {
  const { daemon, wallets, newKey } = await startLightBed(t);
  const [owner, other, third] = wallets as [Keypair, Keypair, Keypair];
  const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
  const rpc = createRpc(url, url, url, {
    commitment: 'confirmed',
    wsEndpoint: `${daemon.wsUrl}/?api-key=${daemon.key}`,
  });
  const [tree] = createStateTrees().v2;
  const lamportsOf = async ({ publicKey }: Keypair) => Number(await rpc.getCompressedBalanceByOwner(publicKey));

  await t.test('lamports', async () => {
    await compress(rpc, owner, LAMPORTS, owner.publicKey, tree);
    await compress(rpc, owner, LAMPORTS, owner.publicKey, tree);
    await transfer(rpc, owner, LAMPORTS + 1, owner, other.publicKey);
    assert.deepEqual([await lamportsOf(owner), await lamportsOf(other)], [LAMPORTS - 1, LAMPORTS + 1]);
    await decompress(rpc, other, LAMPORTS, third.publicKey);
    assert.equal(await lamportsOf(other), 1);
  });

  await t.test('tokens', async () => {
    const { mint } = await createMint(rpc, owner, owner.publicKey, 6, newKey());
    const account = await getOrCreateAssociatedTokenAccount(rpc, owner, mint, owner.publicKey);
    const tokensOf = async ({ publicKey }: Keypair) => {
      const { value } = await rpc.getCompressedTokenBalancesByOwnerV2(publicKey, { mint });
      return value.items.reduce((sum, { balance }) => sum + Number(balance), 0);
    };
    await mintTo(rpc, owner, mint, [owner.publicKey, owner.publicKey, other.publicKey], owner, [500, 300, 200], tree);
    assert.deepEqual([await tokensOf(owner), await tokensOf(other)], [800, 200]);
    await mergeTokenAccounts(rpc, owner, mint, owner);
    assert.equal((await rpc.getCompressedTokenAccountsByOwner(owner.publicKey, { mint })).items.length, 1);
    await transferToken(rpc, owner, mint, 100, owner, other.publicKey);
    assert.deepEqual([await tokensOf(owner), await tokensOf(other)], [700, 300]);
    await approve(rpc, other, mint, 150, other, owner.publicKey);
    await transferDelegated(rpc, owner, mint, 50, owner, third.publicKey);
    assert.deepEqual([await tokensOf(other), await tokensOf(third)], [250, 50]);
    const delegated = await rpc.getCompressedTokenAccountsByDelegate(owner.publicKey, { mint });
    assert.equal(delegated.items.length, 1);
    await revoke(rpc, other, delegated.items, other);
    assert.equal((await rpc.getCompressedTokenAccountsByDelegate(owner.publicKey, { mint })).items.length, 0);
    await decompressToken(rpc, owner, mint, 600, owner, account.address);
    assert.equal(await tokensOf(owner), 100);
    await compressToken(rpc, owner, mint, 40, owner, account.address, third.publicKey, tree);
    assert.deepEqual([await tokensOf(owner), await tokensOf(third)], [100, 90]);
    const [one] = (await rpc.getCompressedTokenAccountsByOwner(third.publicKey, { mint })).items;
    assert.equal(
      Number((await rpc.getCompressedTokenAccountBalance(bn(one?.compressedAccount.hash ?? []))).amount),
      Number(one?.parsed.amount),
    );
  });
});
