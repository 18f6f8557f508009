import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bn, createRpc, type Rpc } from '@lightprotocol/stateless.js';
import { PublicKey } from '@solana/web3.js';
import { u64Bytes } from '../../../plugins/compression/store/tables.ts';
import { decode32 } from '../../../src/lib/base58.ts';
import { blocksOf, loadRecording } from '../../helpers/compression.ts';
import { readFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { startRecordedDaemon } from '../../helpers/recorded-daemon.ts';

const BOB = new PublicKey('EU57rQxcmFhJ24ApVdUy3y4MxFXcTUN3uiVeWvGgtWXu');
const CHARLES = new PublicKey('CHvwuTvTiwRSNBwAnrCG14V8YTJ6wwhHQrifxdFzHzsX');
const MINT = new PublicKey('2U35cKS3Cj2xs5EBdByXYU7LaKAitqjSZc1Jnvu4iPf4');
const TOKENS = 'e2e_mint_and_transfer_transactions';

test('the client library reads tokens', { skip: skipWithoutFixtures }, async (t) => {
  const recording = loadRecording(TOKENS);
  const { url, upstream, call } = await startRecordedDaemon(t, blocksOf(recording), { trees: recording.trees });
  const rpc = createRpc(url, url, url);
  const files = recording.expected.steps.map(({ file }) => file);
  upstream.on('getTransaction', ({ params }) => {
    const [signature] = params as [string];
    return { result: readFixture(`compression/transactions/${TOKENS}/${signature}`).toString('utf8') };
  });

  const { items, cursor } = await rpc.getCompressedTokenAccountsByOwner(BOB, { mint: MINT });
  assert.equal(cursor, null);
  assert.deepEqual(items.map(({ parsed }) => Number(parsed.amount)).sort(), [100, 5]);
  for (const { parsed, compressedAccount } of items) {
    assert.ok(parsed.owner.equals(BOB) && parsed.mint.equals(MINT));
    assert.equal(compressedAccount.treeInfo.tree.toBase58(), 'smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT');
    const again = await rpc.getCompressedAccount(undefined, compressedAccount.hash);
    assert.deepEqual(
      [again?.leafIndex, again?.hash.toString()],
      [compressedAccount.leafIndex, compressedAccount.hash.toString()],
    );
    const { amount } = await rpc.getCompressedTokenAccountBalance(compressedAccount.hash);
    assert.equal(amount.toString(), parsed.amount.toString());
    const signatures = await rpc.getCompressionSignaturesForAccount(compressedAccount.hash);
    assert.ok(signatures.length === 1 && files.includes(signatures[0]!.signature));
  }
  const hashes = items.map(({ compressedAccount }) => compressedAccount.hash);
  const many = await rpc.getMultipleCompressedAccounts(hashes);
  assert.deepEqual(many.map(({ hash }) => hash.toString()).sort(), hashes.map(String).sort());

  const old = await rpc.getCompressedTokenBalancesByOwner(BOB);
  const { value } = await rpc.getCompressedTokenBalancesByOwnerV2(BOB);
  for (const list of [old.items, value.items])
    assert.deepEqual(
      list.map(({ balance, mint }) => [balance.toString(), mint.toBase58()]),
      [['105', MINT.toBase58()]],
    );
  const holders = await rpc.getCompressedMintTokenHolders(MINT);
  assert.deepEqual(
    holders.value.items.map(({ owner, balance }) => [owner.toBase58(), balance.toString()]),
    [
      [CHARLES.toBase58(), '895'],
      [BOB.toBase58(), '105'],
    ],
  );
  const signatures = await rpc.getCompressionSignaturesForTokenOwner(BOB);
  assert.deepEqual(signatures.items.map(({ signature }) => signature).sort(), [...files].sort());
  const latest = await rpc.getLatestCompressionSignatures();
  assert.deepEqual(latest.value.items.map(({ signature }) => signature).sort(), [...files].sort());
  assert.equal((await rpc.getLatestNonVotingSignatures()).value.items.length, files.length);

  const info = await rpc.getTransactionWithCompressionInfo(files[1]!);
  assert.deepEqual(
    info?.compressionInfo.openedAccounts.map(({ maybeTokenData }) => Number(maybeTokenData?.amount)),
    [300, 700],
  );
  assert.deepEqual(
    info?.compressionInfo.closedAccounts.map(({ maybeTokenData }) => Number(maybeTokenData?.amount)),
    [1_000],
  );
  assert.equal(await rpc.getIndexerSlot(), await call('getIndexerSlot', []));
});

test('the client library reads lamports, the largest number too', { skip: skipWithoutFixtures }, async (t) => {
  const recording = loadRecording('lamport_transfers');
  const most = 2n ** 64n - 1n;
  const rich = new PublicKey(new Uint8Array(32).fill(9));
  const { url } = await startRecordedDaemon(t, blocksOf(recording), { trees: recording.trees }, async (store) => {
    await store.write(async ({ db }) => {
      const row = { owner: decode32(rich.toBase58()), lamports: u64Bytes(most) };
      await db.insertInto('compression_balances').values(row).execute();
    });
  });
  const rpc: Rpc = createRpc(url, url, url);
  const receiver = new PublicKey('FLkMEA7eA82Cvp7MqamqFKsRN3E2Vfg3Xa8NRyVARq5n');
  const { items } = await rpc.getCompressedAccountsByOwner(receiver);
  assert.deepEqual(items.map(({ lamports, leafIndex }) => [lamports.toString(), leafIndex]).sort(), [
    ['1000', 2],
    ['1000', 4],
  ]);
  const page = await rpc.getCompressedAccountsByOwner(receiver, { limit: bn(1) });
  assert.ok(page.cursor !== null && page.items.length === 1);
  const rest = await rpc.getCompressedAccountsByOwner(receiver, { limit: bn(1), cursor: page.cursor });
  assert.deepEqual([rest.cursor, rest.items.length], [null, 1]);
  assert.equal((await rpc.getCompressedBalanceByOwner(receiver)).toString(), '2000');
  assert.equal((await rpc.getCompressedBalanceByOwner(rich)).toString(), most.toString());
  assert.equal((await rpc.getCompressedBalance(undefined, items[0]!.hash)).toString(), '1000');
  assert.equal(await rpc.getCompressedAccount(undefined, bn(5)), null);
  const signatures = await rpc.getCompressionSignaturesForOwner(receiver);
  assert.equal(signatures.items.length, 2);
  assert.deepEqual((await rpc.getCompressionSignaturesForAddress(receiver)).items, []);
  // The detail of an error reaches who uses the library.
  await assert.rejects(rpc.getCompressionSignaturesForAccount(bn(5)), /Account not found/);
});
