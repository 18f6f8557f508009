import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  address,
  appendTransactionMessageInstruction,
  assertIsTransactionWithBlockhashLifetime,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import { chainMissing } from '../../helpers/chain.ts';
import { startChainBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const SYSTEM = address('11111111111111111111111111111111');

test('@solana/kit sends, confirms by websocket and reads', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const rpc = createSolanaRpc(bed.url);
  const rpcSubscriptions = createSolanaRpcSubscriptions(bed.socketUrl);
  const [from, to] = await Promise.all([generateKeyPairSigner(), generateKeyPairSigner()]);
  await bed.chain.fund(from.address, 5_000_000_000);
  const { value: lifetime } = await rpc.getLatestBlockhash().send();
  const data = new Uint8Array(12);
  new DataView(data.buffer).setUint32(0, 2, true);
  new DataView(data.buffer).setBigUint64(4, 7_000_000n, true);
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (m) => setTransactionMessageFeePayerSigner(from, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) =>
      appendTransactionMessageInstruction(
        {
          programAddress: SYSTEM,
          accounts: [
            { address: from.address, role: 3 },
            { address: to.address, role: 1 },
          ],
          data,
        },
        m,
      ),
  );
  const transaction = await signTransactionMessageWithSigners(message);
  assertIsTransactionWithBlockhashLifetime(transaction);
  await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, { commitment: 'confirmed' });
  assert.equal((await rpc.getBalance(to.address, { commitment: 'confirmed' }).send()).value, 7_000_000n);
  const read = await rpc
    .getTransaction(getSignatureFromTransaction(transaction), {
      commitment: 'confirmed',
      encoding: 'json',
      maxSupportedTransactionVersion: 0,
    })
    .send();
  assert.ok(read !== null && read.meta?.err === null);
});

test('a u64 beyond 2^53 arrives as it is', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const to = await generateKeyPairSigner();
  await bed.chain.fund(to.address, 1_000_000);
  const direct = await createSolanaRpc(bed.chain.rpcUrl)
    .getAccountInfo(to.address, { commitment: 'confirmed', encoding: 'base64' })
    .send();
  const proxied = await createSolanaRpc(bed.url)
    .getAccountInfo(to.address, { commitment: 'confirmed', encoding: 'base64' })
    .send();
  assert.deepEqual(proxied.value, direct.value);
});

test('slot notifications as an async iterable, ended by abort', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const controller = new AbortController();
  const slots = await createSolanaRpcSubscriptions(bed.socketUrl)
    .slotNotifications()
    .subscribe({ abortSignal: controller.signal });
  await bed.chain.seal();
  const seen: bigint[] = [];
  for await (const { slot } of slots) {
    seen.push(slot);
    if (seen.length === 3) break;
    await bed.chain.seal();
  }
  controller.abort();
  assert.equal(seen.length, 3);
  assert.ok(seen[0]! < seen[1]! && seen[1]! < seen[2]!);
});
