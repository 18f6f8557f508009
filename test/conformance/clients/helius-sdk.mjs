import assert from 'node:assert/strict';
import { Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import { createHelius } from 'helius-sdk';

/** helius-sdk 3.x, unmodified: its requests to hosted names are sent to the daemon, as docs/how-to/clients.md shows. */
export default async ({ url, key, funded }) => {
  const helius = createHelius({ apiKey: key, network: 'mainnet' });
  const connection = new Connection(url, { commitment: 'confirmed' });
  const payer = Keypair.fromSecretKey(await funded());
  const wallet = payer.publicKey.toBase58();
  let signature = '';
  const until = async (what, ask) => {
    for (let tries = 0; tries < 300; tries += 1) {
      if (await ask()) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.fail(what);
  };
  return {
    'standard methods': async () => {
      assert.equal(typeof (await helius.getSlot()), 'bigint');
      assert.ok((await helius.getBalance(wallet, { commitment: 'confirmed' })).value > 0n);
    },
    broadcastTransaction: async () => {
      const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight });
      const toPubkey = Keypair.generate().publicKey;
      transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports: 3_000_000 }));
      transaction.sign(payer);
      signature = await helius.tx.broadcastTransaction(transaction.serialize().toString('base64'));
    },
    'enhanced transactions': () =>
      until('the transfer is no TRANSFER', async () => {
        const [parsed] = await helius.enhanced.getTransactions({ transactions: [signature], commitment: 'confirmed' });
        return parsed?.signature === signature && parsed.type === 'TRANSFER';
      }),
    'wallet history': () =>
      until('the transfer is not in the history', async () => {
        const { data } = await helius.wallet.getHistory({ wallet });
        return data.some((one) => one.signature === signature);
      }),
    webhooks: async () => {
      const webhook = await helius.webhooks.create({
        webhookURL: 'https://receiver.example/hook',
        webhookType: 'enhanced',
        transactionTypes: ['ANY'],
        accountAddresses: [wallet],
      });
      assert.ok((await helius.webhooks.getAll()).some(({ webhookID }) => webhookID === webhook.webhookID));
      await helius.webhooks.delete(webhook.webhookID);
    },
  };
};
