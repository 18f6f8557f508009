import assert from 'node:assert/strict';
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';

/** @solana/web3.js 1.x: legacy and v0, a lookup table, subscriptions. */
export default async ({ url, socketUrl, funded, ends }) => {
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: socketUrl });
  ends.push(() => {
    connection._rpcWebSocket.reconnect = false;
    connection._rpcWebSocket.close(1000);
  });
  const payer = Keypair.fromSecretKey(await funded());
  const to = Keypair.generate().publicKey;
  const pay = (lamports) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
  return {
    'legacy transfer, confirmed by websocket': async () => {
      const signature = await sendAndConfirmTransaction(connection, new Transaction().add(pay(2_000_000)), [payer]);
      const { meta } = await connection.getParsedTransaction(signature);
      assert.equal(meta.err, null);
      assert.equal(await connection.getBalance(to), 2_000_000);
    },
    'v0 transfer by a lookup table': async () => {
      const recentSlot = await connection.getSlot('finalized');
      const parts = { authority: payer.publicKey, payer: payer.publicKey };
      const [create, lookupTable] = AddressLookupTableProgram.createLookupTable({ ...parts, recentSlot });
      const extend = AddressLookupTableProgram.extendLookupTable({ ...parts, lookupTable, addresses: [to] });
      await sendAndConfirmTransaction(connection, new Transaction().add(create, extend), [payer]);
      const writtenAt = await connection.getSlot();
      while ((await connection.getSlot()) <= writtenAt + 1) await new Promise((resolve) => setTimeout(resolve, 50));
      const { value } = await connection.getAddressLookupTable(lookupTable);
      const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
      const message = { payerKey: payer.publicKey, recentBlockhash: blockhash, instructions: [pay(1_000_000)] };
      const transaction = new VersionedTransaction(new TransactionMessage(message).compileToV0Message([value]));
      transaction.sign([payer]);
      const signature = await connection.sendTransaction(transaction);
      await connection.confirmTransaction({ signature, blockhash, lastValidBlockHeight });
      const read = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
      assert.equal(read.version, 0);
    },
    'a refused transaction shows its logs': async () => {
      const sending = sendAndConfirmTransaction(connection, new Transaction().add(pay(1e18)), [payer]);
      await assert.rejects(sending, (error) => error.logs?.some((line) => line.includes('insufficient lamports')));
    },
    'account and log notifications': async () => {
      const seen = new Set();
      const account = connection.onAccountChange(to, () => seen.add('account'));
      const logs = connection.onLogs(to, () => seen.add('logs'));
      for (let tries = 0; seen.size < 2; tries += 1) {
        assert.ok(tries < 30, `only ${[...seen]}`);
        await sendAndConfirmTransaction(connection, new Transaction().add(pay(1_000_000 + tries)), [payer]);
      }
      await connection.removeAccountChangeListener(account);
      await connection.removeOnLogsListener(logs);
    },
  };
};
