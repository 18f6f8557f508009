import assert from 'node:assert/strict';
import anchor from '@coral-xyz/anchor';
import { Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';

/** Anchor: a provider, and a program with its IDL (that of the System program, which every chain has). */
export default async ({ url, socketUrl, funded, ends }) => {
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: socketUrl });
  ends.push(() => {
    connection._rpcWebSocket.reconnect = false;
    connection._rpcWebSocket.close(1000);
  });
  const payer = Keypair.fromSecretKey(await funded());
  const wallet = new anchor.Wallet(payer);
  const provider = new anchor.AnchorProvider(connection, wallet, { commitment: 'confirmed' });
  const program = anchor.Native.system(provider);
  const transfer = (to, lamports) =>
    program.methods.transfer(new anchor.BN(lamports)).accounts({ from: payer.publicKey, to });
  return {
    'a method by rpc()': async () => {
      const to = Keypair.generate().publicKey;
      await transfer(to, 6_000_000).rpc();
      assert.equal(await connection.getBalance(to), 6_000_000);
    },
    'simulate()': async () => {
      const { raw } = await transfer(Keypair.generate().publicKey, 6_000_000).simulate();
      assert.ok(raw.some((line) => line.includes('success')));
    },
    'sendAndConfirm and sendAll of the provider': async () => {
      const to = Keypair.generate().publicKey;
      const make = (lamports) =>
        new Transaction().add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports }));
      await provider.sendAndConfirm(make(1_000_000));
      await provider.sendAll([{ tx: make(2_000_000) }, { tx: make(3_000_000) }]);
      assert.equal(await connection.getBalance(to), 6_000_000);
    },
    'an account by fetch()': async () => {
      const nonce = Keypair.generate();
      const lamports = await connection.getMinimumBalanceForRentExemption(80);
      const parts = { fromPubkey: payer.publicKey, noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey };
      await provider.sendAndConfirm(new Transaction().add(SystemProgram.createNonceAccount({ ...parts, lamports })), [
        nonce,
      ]);
      const account = await program.account.nonce.fetch(nonce.publicKey);
      assert.deepEqual(account.authorizedPubkey, payer.publicKey);
    },
  };
};
