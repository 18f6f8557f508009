import assert from 'node:assert/strict';
import {
  appendTransactionMessageInstruction,
  createKeyPairSignerFromBytes,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit';

const SYSTEM = '11111111111111111111111111111111';

/** Data of a System transfer. */
function transferData(amount) {
  const data = new DataView(new ArrayBuffer(12));
  data.setUint32(0, 2, true);
  data.setBigUint64(4, amount, true);
  return new Uint8Array(data.buffer);
}

/** @solana/kit: a transfer in each version. */
export default async ({ url, socketUrl, funded }) => {
  const rpc = createSolanaRpc(url);
  const rpcSubscriptions = createSolanaRpcSubscriptions(socketUrl);
  const payer = await createKeyPairSignerFromBytes(await funded());
  const pay = (version) => async () => {
    const { address } = await generateKeyPairSigner();
    const { value: lifetime } = await rpc.getLatestBlockhash({ commitment: 'confirmed' }).send();
    const accounts = [
      { address: payer.address, role: 3 },
      { address, role: 1 },
    ];
    const message = pipe(
      createTransactionMessage({ version }),
      (m) => setTransactionMessageFeePayerSigner(payer, m),
      (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
      (m) =>
        appendTransactionMessageInstruction({ programAddress: SYSTEM, accounts, data: transferData(5_000_000n) }, m),
      // A version 1 transaction has no limits but those that it names.
      (m) => setTransactionMessageComputeUnitLimit(10_000, m),
      (m) => setTransactionMessageLoadedAccountsDataSizeLimit(1_000_000, m),
    );
    const transaction = await signTransactionMessageWithSigners(message);
    await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, { commitment: 'confirmed' });
    const options = { commitment: 'confirmed', encoding: 'json', maxSupportedTransactionVersion: 1 };
    const read = await rpc.getTransaction(getSignatureFromTransaction(transaction), options).send();
    assert.equal(String(read.version), String(version));
    assert.equal((await rpc.getBalance(address, { commitment: 'confirmed' }).send()).value, 5_000_000n);
  };
  return { 'legacy transfer': pay('legacy'), 'v0 transfer': pay(0), 'v1 transfer': pay(1) };
};
