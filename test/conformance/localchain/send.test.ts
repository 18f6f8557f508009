import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

suite('web3.js sends and confirms', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  before(async () => {
    chain = await startChain();
  });
  after(() => chain.stop());

  test('a transfer lands with exact balances, fee and history', async () => {
    const { connection } = chain;
    const payer = Keypair.generate();
    const target = Keypair.generate().publicKey;
    const airdrop = await connection.requestAirdrop(payer.publicKey, LAMPORTS_PER_SOL);
    await connection.confirmTransaction(airdrop, 'confirmed');
    const transfer = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: target, lamports: 12_345_678 });
    const signature = await sendAndConfirmTransaction(connection, new Transaction().add(transfer), [payer]);
    assert.equal(await connection.getBalance(target), 12_345_678);
    assert.equal(await connection.getBalance(payer.publicKey), LAMPORTS_PER_SOL - 12_345_678 - 5000);
    const landed = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
    assert.equal(landed?.meta?.fee, 5000);
    assert.equal(landed.meta.err, null);
    assert.deepEqual(
      (await connection.getSignaturesForAddress(payer.publicKey)).map((item) => item.signature),
      [signature, airdrop],
    );
    const block = await connection.getBlock(landed.slot, { maxSupportedTransactionVersion: 0 });
    assert.deepEqual(
      block?.transactions.map((item) => item.transaction.signatures[0]),
      [signature],
    );
  });
});
