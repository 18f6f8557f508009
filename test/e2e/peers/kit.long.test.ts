import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  type Address,
  address,
  airdropFactory,
  appendTransactionMessageInstruction,
  assertIsTransactionWithBlockhashLifetime,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  type KeyPairSigner,
  lamports,
  pipe,
  type Signature,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import { backends } from '../../helpers/backends.ts';
import { type PeerBed, startPeerBed } from './harness.ts';

const SYSTEM = address('11111111111111111111111111111111');
const confirmed = { commitment: 'confirmed' } as const;

/** Data of a System transfer. */
function transferData(amount: bigint): Uint8Array {
  const data = new Uint8Array(12);
  const view = new DataView(data.buffer);
  view.setUint32(0, 2, true);
  view.setBigUint64(4, amount, true);
  return data;
}

async function first<T>(list: AsyncIterable<T>): Promise<T> {
  for await (const item of list) return item;
  throw new Error('the list ended');
}

const clientsOf = ({ url, socketUrl }: PeerBed) => ({
  rpc: createSolanaRpc(url),
  rpcSubscriptions: createSolanaRpcSubscriptions(socketUrl),
});

for (const backend of backends) {
  suite(`@solana/kit over ${backend.name}`, { skip: (await backend.missing()) ?? false }, () => {
    let bed: PeerBed;
    let rpc: ReturnType<typeof clientsOf>['rpc'];
    let rpcSubscriptions: ReturnType<typeof clientsOf>['rpcSubscriptions'];
    before(async () => {
      bed = await startPeerBed(backend);
      ({ rpc, rpcSubscriptions } = clientsOf(bed));
    });
    after(() => bed?.stop());

    async function funded(): Promise<KeyPairSigner> {
      const signer = await generateKeyPairSigner();
      await bed.chain.fund(signer.address, 5_000_000_000);
      return signer;
    }
    async function signed(from: KeyPairSigner, to: Address, amount: bigint) {
      const { value: lifetime } = await rpc.getLatestBlockhash(confirmed).send();
      const accounts = [
        { address: from.address, role: 3 },
        { address: to, role: 1 },
      ];
      const message = pipe(
        createTransactionMessage({ version: 0 }),
        (m) => setTransactionMessageFeePayerSigner(from, m),
        (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
        (m) => appendTransactionMessageInstruction({ programAddress: SYSTEM, accounts, data: transferData(amount) }, m),
      );
      const transaction = await signTransactionMessageWithSigners(message);
      assertIsTransactionWithBlockhashLifetime(transaction);
      return transaction;
    }
    async function pay(from: KeyPairSigner, to: Address, amount: bigint): Promise<Signature> {
      const transaction = await signed(from, to, amount);
      await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, confirmed);
      return getSignatureFromTransaction(transaction);
    }

    test('an airdrop is confirmed by websocket', async () => {
      const { address: recipientAddress } = await generateKeyPairSigner();
      const amount = lamports(1_500_000_000n);
      const airdrop = airdropFactory({ rpc, rpcSubscriptions });
      await airdrop({ ...confirmed, lamports: amount, recipientAddress });
      assert.equal((await rpc.getBalance(recipientAddress, confirmed).send()).value, amount);
    });

    test('sends, confirms by websocket and reads', async () => {
      const [from, to] = [await funded(), await generateKeyPairSigner()];
      const signature = await pay(from, to.address, 7_000_000n);
      assert.equal((await rpc.getBalance(to.address, confirmed).send()).value, 7_000_000n);
      const options = { ...confirmed, maxSupportedTransactionVersion: 0 } as const;
      const read = await rpc.getTransaction(signature, { ...options, encoding: 'json' }).send();
      assert.ok(read?.meta);
      assert.deepEqual([Number(read.version), read.meta.err, read.meta.fee], [0, null, 5000n]);
      assert.equal(read.meta.postBalances[1], 7_000_000n);
      const [entry] = await rpc.getSignaturesForAddress(to.address, confirmed).send();
      assert.deepEqual([entry?.signature, entry?.slot], [signature, read.slot]);
      const block = await rpc.getBlock(read.slot, { ...options, encoding: 'json', transactionDetails: 'full' }).send();
      assert.ok(block?.transactions.some((one) => one.transaction.signatures[0] === signature));
    });

    test('numbers beyond 2^53 arrive as the node sent them', async () => {
      const someone = await funded();
      const read = (url: string) =>
        createSolanaRpc(url)
          .getAccountInfo(someone.address, { ...confirmed, encoding: 'base64' })
          .send();
      const [direct, through] = [await read(bed.chain.rpcUrl), await read(bed.url)];
      assert.deepEqual(through.value, direct.value);
      const body = {
        jsonrpc: '2.0',
        id: 1,
        method: 'getAccountInfo',
        params: [someone.address, { encoding: 'base64' }],
      };
      const raw = async (url: string) => {
        const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
        return /"rentEpoch":\s*(\d+)/.exec(await (await fetch(url, init)).text())?.[1];
      };
      assert.equal(await raw(bed.url), await raw(bed.chain.rpcUrl));
    });

    test('a refused transaction keeps its code', async () => {
      const poor = await generateKeyPairSigner();
      const { address: to } = await generateKeyPairSigner();
      await assert.rejects(pay(poor, to, 5n), (error: { context?: { __code?: number } }) => {
        assert.equal(error.context?.__code, -32002);
        return true;
      });
    });

    test('account, log and slot notifications', async () => {
      const [from, to] = [await funded(), await generateKeyPairSigner()];
      const abort = new AbortController();
      const options = { abortSignal: abort.signal };
      const accounts = await rpcSubscriptions
        .accountNotifications(to.address, { ...confirmed, encoding: 'base64' })
        .subscribe(options);
      const logs = await rpcSubscriptions.logsNotifications({ mentions: [to.address] }, confirmed).subscribe(options);
      const slots = await rpcSubscriptions.slotNotifications().subscribe(options);
      // The client drops what comes before somebody asks for it.
      const [account, log] = [first(accounts), first(logs)];
      const signature = await pay(from, to.address, 3_000_000n);
      assert.equal((await account).value.lamports, 3_000_000n);
      const { value } = await log;
      assert.deepEqual([value.signature, value.err], [signature, null]);
      const seen: bigint[] = [];
      for await (const { slot } of slots) {
        seen.push(slot);
        if (seen.length === 3) break;
      }
      abort.abort();
      assert.ok(seen[0]! < seen[1]! && seen[1]! < seen[2]!);
    });
  });
}
