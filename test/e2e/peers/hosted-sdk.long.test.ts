import assert from 'node:assert/strict';
import { connect, isIP } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { address } from '@solana/kit';
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import { createHelius } from 'helius-sdk';
import { sendViaSender } from 'helius-sdk/transactions/sendViaSender';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { backends } from '../../helpers/backends.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { type PeerBed, startPeerBed } from './harness.ts';

interface Delivered {
  readonly transaction: { readonly signatures: readonly string[] };
}

/**
 * Connections of the global `fetch` to any named host end at the daemon; the `Host` header stays the hosted one. Addresses stay
 * what they are: parts of the bed use `fetch` too.
 */
function dialDaemon(apiUrl: string): () => void {
  const before = getGlobalDispatcher();
  const port = Number(new URL(apiUrl).port);
  const agent = new Agent({
    connect({ hostname, port: asked }, done) {
      const socket = connect(isIP(hostname) === 0 ? port : Number(asked), '127.0.0.1');
      socket.once('connect', () => done(null, socket));
      socket.once('error', (error) => done(error, null));
    },
  });
  setGlobalDispatcher(agent);
  return () => {
    setGlobalDispatcher(before);
    void agent.destroy();
  };
}

const ways = [
  ['a fetch that rewrites the address', redirectHostedClients],
  ['an untouched fetch whose connections end at the daemon', dialDaemon],
] as const;

for (const backend of backends) {
  const skip = (await backend.missing()) ?? false;
  for (const [way, redirect] of ways) {
    suite(`helius-sdk over ${backend.name}, by ${way}`, { skip }, () => {
      let bed: PeerBed;
      let receiver: Receiver;
      let restore = (): void => undefined;
      let helius: ReturnType<typeof createHelius>;
      before(async () => {
        bed = await startPeerBed(backend);
        receiver = await startReceiver();
        restore = redirect(bed.daemon.apiUrl);
        helius = createHelius({ apiKey: bed.daemon.key, network: 'mainnet' });
      });
      after(async () => {
        restore();
        await bed?.stop();
        await receiver?.close();
      });

      /** A signed transfer in base64. The daemon is asked by the client under test: its own fetch may be diverted. */
      async function wire(from: Keypair, to: Keypair, lamports: number): Promise<string> {
        const { value } = await helius.getLatestBlockhash({ commitment: 'confirmed' });
        const lifetime = { blockhash: value.blockhash, lastValidBlockHeight: Number(value.lastValidBlockHeight) };
        const transaction = new Transaction({ feePayer: from.publicKey, ...lifetime });
        transaction.add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports }));
        transaction.sign(from);
        return transaction.serialize().toString('base64');
      }
      const balance = async (of: Keypair) =>
        (await helius.getBalance(address(of.publicKey.toBase58()), { commitment: 'confirmed' })).value;

      test('standard methods, and errors as the client shows them', async () => {
        const someone = await bed.funded(5_000_000_000);
        assert.equal(await balance(someone), 5_000_000_000n);
        assert.equal(typeof (await helius.getSlot()), 'bigint');
        const { value } = await helius.getAccountInfo(address(someone.publicKey.toBase58()), {
          commitment: 'confirmed',
          encoding: 'base64',
        });
        assert.equal(value?.owner, SystemProgram.programId.toBase58());
        await assert.rejects(helius.getAsset({ id: someone.publicKey.toBase58() }), /RPC error \(getAsset\): /);
        await assert.rejects(createHelius({ apiKey: 'wrong', network: 'mainnet' }).getSlot(), /401/);
      });

      test('a transaction through the RPC address and through the sender', async () => {
        const [from, to] = [await bed.funded(), Keypair.generate()];
        const signature = await helius.tx.broadcastTransaction(await wire(from, to, 2_000_000), { pollIntervalMs: 50 });
        assert.match(signature, /^[1-9A-HJ-NP-Za-km-z]{64,88}$/);
        assert.equal(await balance(to), 2_000_000n);
        let expected = 2_000_000n;
        for (const region of ['Default', 'EU_CENTRAL', 'AP_TOKYO'] as const) {
          await sendViaSender(await wire(from, to, 3_000_000 + Number(expected)), region);
          expected += 3_000_000n + expected;
          await until(`the transfer by ${region}`, async () => (await balance(to)) === expected);
        }
        await assert.rejects(sendViaSender('AAAA'), /-32602/);
        assert.equal(await (await fetch('https://sender.helius-rpc.com/ping')).text(), 'ok');
      });

      test('webhooks: made, listed, read, changed, switched, deleted; and one arrives', async () => {
        const { webhooks } = helius;
        const [from, one, two] = [await bed.funded(), Keypair.generate(), Keypair.generate()];
        const made = await webhooks.create({
          webhookURL: `${receiver.url}/hook`,
          webhookType: 'raw',
          transactionTypes: ['ANY'],
          accountAddresses: [one.publicKey.toBase58()],
          authHeader: 'secret',
        } as never);
        assert.match(made.webhookID, /^[0-9a-f-]{36}$/);
        const id = made.webhookID;
        assert.ok((await webhooks.getAll()).some((hook: { webhookID: string }) => hook.webhookID === id));
        assert.deepEqual((await webhooks.get(id)).accountAddresses, [one.publicKey.toBase58()]);
        const changed = await webhooks.update(id, { accountAddresses: [two.publicKey.toBase58()] } as never);
        assert.deepEqual(changed.accountAddresses, [two.publicKey.toBase58()]);
        const send = async (to: Keypair) =>
          helius.tx.broadcastTransaction(await wire(from, to, 1_000_000), { pollIntervalMs: 50 });
        await send(one);
        const signature = await send(two);
        await until('the delivery', () => receiver.received.length > 0);
        assert.equal(receiver.received[0]?.headers.authorization, 'secret');
        const [element] = JSON.parse(String(receiver.received[0]?.body)) as Delivered[];
        assert.equal(element?.transaction.signatures[0], signature);
        assert.equal((await webhooks.toggle(id, false)).active, false);
        assert.equal((await webhooks.toggle(id, true)).active, true);
        await webhooks.delete(id);
        await assert.rejects(webhooks.get(id), /404/);
      });
    });
  }
}
