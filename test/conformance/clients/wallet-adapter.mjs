import assert from 'node:assert/strict';
import { BaseSignerWalletAdapter, WalletReadyState } from '@solana/wallet-adapter-base';
import { Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';

/** A wallet of an application: it signs, the adapter sends. */
class KeypairWallet extends BaseSignerWalletAdapter {
  name = 'Keypair';
  url = 'https://wallet.example';
  icon = 'data:image/png;base64,';
  supportedTransactionVersions = null;
  readyState = WalletReadyState.Loadable;
  connecting = false;

  constructor(pair) {
    super();
    this.pair = pair;
  }

  get publicKey() {
    return this.pair.publicKey;
  }

  async connect() {
    this.emit('connect', this.publicKey);
  }

  async disconnect() {
    this.emit('disconnect');
  }

  async signTransaction(transaction) {
    transaction.partialSign(this.pair);
    return transaction;
  }
}

/** @solana/wallet-adapter: the flow of its example, at each commitment. */
export default async ({ url, socketUrl, funded, ends }) => {
  const wallet = new KeypairWallet(Keypair.fromSecretKey(await funded()));
  const flow = (commitment, options) => async () => {
    const connection = new Connection(url, { commitment, wsEndpoint: socketUrl });
    ends.push(() => {
      connection._rpcWebSocket.reconnect = false;
      connection._rpcWebSocket.close(1000);
    });
    const to = Keypair.generate().publicKey;
    const pay = SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: to, lamports: 1_000_000 });
    const {
      context: { slot: minContextSlot },
      value: { blockhash, lastValidBlockHeight },
    } = await connection.getLatestBlockhashAndContext();
    const transaction = new Transaction({ feePayer: wallet.publicKey, blockhash, lastValidBlockHeight }).add(pay);
    const signature = await wallet.sendTransaction(transaction, connection, { minContextSlot, ...options });
    await connection.confirmTransaction({ blockhash, lastValidBlockHeight, signature });
    assert.equal(await connection.getBalance(to), 1_000_000);
  };
  return Object.fromEntries(
    ['processed', 'confirmed', 'finalized'].flatMap((commitment) => [
      [`sendTransaction, ${commitment}`, flow(commitment, {})],
      [`without preflight, ${commitment}`, flow(commitment, { skipPreflight: true })],
    ]),
  );
};
