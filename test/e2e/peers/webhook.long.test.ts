import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createAssociatedTokenAccount, createMint, mintTo, transfer } from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  type Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  type TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { Webhook } from 'standardwebhooks';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { backends } from '../../helpers/backends.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { type PeerBed, startPeerBed } from './harness.ts';

interface Element {
  readonly slot: number;
  readonly version: unknown;
  readonly blockTime: number;
  readonly meta: {
    readonly err: unknown;
    readonly loadedAddresses: { readonly writable: readonly string[] };
    readonly postTokenBalances: readonly {
      readonly owner: string;
      readonly uiTokenAmount: { readonly amount: string };
    }[];
  };
  readonly transaction: { readonly signatures: readonly string[] };
}

const confirm = { commitment: 'confirmed' } as const;
const version = { ...confirm, maxSupportedTransactionVersion: 0 } as const;

for (const backend of backends) {
  suite(`raw webhooks over ${backend.name}`, { skip: (await backend.missing()) ?? false }, () => {
    let bed: PeerBed;
    let receiver: Receiver;
    let connection: Connection;
    let payer: Keypair;
    before(async () => {
      bed = await startPeerBed(backend);
      receiver = await startReceiver();
      connection = bed.connect();
      payer = await bed.funded(100 * LAMPORTS_PER_SOL);
    });
    after(async () => {
      await bed?.stop();
      await receiver?.close();
    });

    const pay = (to: PublicKey, lamports: number): TransactionInstruction =>
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
    const send = (...items: TransactionInstruction[]) =>
      sendAndConfirmTransaction(connection, new Transaction().add(...items), [payer], confirm);
    async function watch(address: PublicKey): Promise<{ signingSecret: string }> {
      const { status, body } = await apiOf(bed.daemon.apiUrl, bed.daemon.key)('POST', '/v0/webhooks', {
        webhookURL: `${receiver.url}/${address.toBase58()}`,
        webhookType: 'raw',
        accountAddresses: [address.toBase58()],
      });
      assert.equal(status, 200, JSON.stringify(body));
      return body;
    }
    /** What came for an address: the first request, and its element. */
    async function arrival(address: PublicKey) {
      const found = () => receiver.received.find(({ url }) => url === `/${address.toBase58()}`);
      await until('the delivery', () => found() !== undefined);
      const request = found()!;
      const [element] = JSON.parse(String(request.body)) as Element[];
      assert.ok(element);
      return { request, element };
    }

    test('a payment arrives signed, with the slot and the time of its block', async () => {
      const to = Keypair.generate().publicKey;
      const { signingSecret } = await watch(to);
      const signature = await send(pay(to, 1_000_000));
      const { request, element } = await arrival(to);
      new Webhook(signingSecret).verify(String(request.body), request.headers as Record<string, string>);
      assert.deepEqual(element.transaction.signatures, [signature]);
      const [listed] = await connection.getSignaturesForAddress(to);
      assert.deepEqual([element.slot, element.meta.err], [listed?.slot, null]);
      const apartSeconds = Math.abs(element.blockTime - listed!.blockTime!);
      assert.ok(apartSeconds <= (bed.has('unsteadyTime') ? 2 : 0), `${apartSeconds} s apart`);
    });

    test('a failed payment arrives with the error of the chain', async () => {
      const to = Keypair.generate().publicKey;
      await watch(to);
      const transaction = new Transaction().add(pay(to, 10_000 * LAMPORTS_PER_SOL));
      await connection.sendTransaction(transaction, [payer], { skipPreflight: true });
      assert.deepEqual((await arrival(to)).element.meta.err, { InstructionError: [0, { Custom: 1 }] });
    });

    test('the owner of a token account that is paid', async () => {
      const owner = Keypair.generate().publicKey;
      const mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm);
      const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm);
      const theirs = await createAssociatedTokenAccount(connection, payer, mint, owner, confirm);
      await mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], confirm);
      // Blocks that were made before the webhook are not told.
      const mark = Keypair.generate().publicKey;
      await watch(mark);
      await send(pay(mark, 1_000_000));
      await arrival(mark);
      await watch(owner);
      const signature = await transfer(connection, payer, ours, theirs, payer, 250_000n, [], confirm);
      const { element } = await arrival(owner);
      assert.deepEqual(element.transaction.signatures, [signature]);
      const amounts = new Map(element.meta.postTokenBalances.map((one) => [one.owner, one.uiTokenAmount.amount]));
      assert.deepEqual([amounts.get(owner.toBase58()), amounts.get(payer.publicKey.toBase58())], ['250000', '750000']);
    });

    test('an address that only a lookup table names', async () => {
      const to = Keypair.generate().publicKey;
      const authority = payer.publicKey;
      const recentSlot = await connection.getSlot('finalized');
      const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
      const extend = { lookupTable: table, authority, payer: authority, addresses: [to] };
      await send(create, AddressLookupTableProgram.extendLookupTable(extend));
      const made = await connection.getSlot('confirmed');
      await until('the table counts', async () => (await connection.getSlot('confirmed')) > made + 1);
      await watch(to);
      const found = (await connection.getAddressLookupTable(table)).value;
      assert.ok(found);
      const { blockhash } = await connection.getLatestBlockhash();
      const instructions = [pay(to, 1_000_000)];
      const message = new TransactionMessage({ payerKey: authority, recentBlockhash: blockhash, instructions });
      const transaction = new VersionedTransaction(message.compileToV0Message([found]));
      transaction.sign([payer]);
      const signature = await connection.sendTransaction(transaction);
      const { element } = await arrival(to);
      assert.deepEqual([element.version, element.transaction.signatures[0]], [0, signature]);
      assert.deepEqual(element.meta.loadedAddresses.writable, [to.toBase58()]);
      const listed = (await connection.getSignaturesForAddress(to)).map((one) => one.signature);
      assert.deepEqual(listed, bed.has('loadedUnlisted') ? [] : [signature]);
      assert.equal((await connection.getTransaction(signature, version))?.slot, element.slot);
      const body = {
        jsonrpc: '2.0',
        id: 1,
        method: 'getTransaction',
        params: [signature, { commitment: 'confirmed' }],
      };
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
      const bare = (await (await fetch(bed.url, init)).json()) as { error?: { code: number } };
      assert.equal(bare.error?.code, bed.has('versionUnchecked') ? undefined : -32015);
    });
  });
}
