import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createAssociatedTokenAccount, createMint, mintTo, transfer } from '@solana/spl-token';
import {
  AddressLookupTableProgram,
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
import type { Api, WebhookDaemon } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, type TestChain } from '../../helpers/chain.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { answer, type Receiver } from '../../helpers/receiver.ts';
import { type ChainBed, startChainBed } from './chain-harness.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const ROOT = '/v0/webhooks';
const confirm = { commitment: 'confirmed' } as const;

interface Element {
  readonly slot: number;
  readonly blockTime: number;
  readonly indexWithinBlock: number;
  readonly meta: { err: unknown; loadedAddresses: { writable: string[]; readonly: string[] } };
  readonly transaction: { signatures: string[]; message: { accountKeys: string[] } };
  readonly version: number | 'legacy';
}

describe('webhooks on a real chain', { skip: (await chainMissing()) ?? false }, () => {
  let bed: ChainBed;
  let chain: TestChain;
  let daemon: WebhookDaemon;
  let receiver: Receiver;
  let api: Api;
  let payer: Keypair;

  before(async () => {
    bed = await startChainBed();
    ({ chain, daemon, receiver, api, payer } = bed);
  });
  after(() => bed?.stop());

  const pay = (to: PublicKey, lamports: number): TransactionInstruction =>
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
  const send = (...items: TransactionInstruction[]) =>
    sendAndConfirmTransaction(chain.connection, new Transaction().add(...items), [payer], confirm);
  const watch = async (address: PublicKey, patch: object = {}) => {
    const { status, body } = await api('POST', ROOT, {
      webhookURL: `${receiver.url}/${address.toBase58()}`,
      webhookType: 'raw',
      accountAddresses: [address.toBase58()],
      ...patch,
    });
    assert.equal(status, 200, JSON.stringify(body));
    return body as { webhookID: string; signingSecret: string };
  };
  const arrived = (address: PublicKey) => receiver.received.filter(({ url }) => url === `/${address.toBase58()}`);
  /** The elements that came for an address, once there are as many. */
  const elements = async (address: PublicKey, count: number): Promise<Element[]> => {
    for (let round = 0; round < 2_000 && arrived(address).length < count; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.equal(arrived(address).length, count);
    return arrived(address).map(({ body }) => (JSON.parse(body.toString()) as Element[])[0]!);
  };
  /** Another payment arrives: everything that was to come before it has come. */
  const flush = async () => {
    const mark = Keypair.generate().publicKey;
    await watch(mark);
    await send(pay(mark, 1_000_000));
    await elements(mark, 1);
  };

  test('a payment arrives signed, as the node shows it', async () => {
    const to = Keypair.generate().publicKey;
    const hook = await watch(to, { authHeader: 'Bearer abc' });
    const signature = await send(pay(to, 1_000_000));
    const [element] = await elements(to, 1);
    const [request] = arrived(to);
    assert.ok(request && element);
    new Webhook(hook.signingSecret).verify(request.body.toString(), request.headers as Record<string, string>);
    assert.equal(request.headers.authorization, 'Bearer abc');
    assert.deepEqual(element.transaction.signatures, [signature]);
    const shown = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0, ...confirm });
    assert.ok(shown);
    assert.deepEqual([element.slot, element.blockTime, element.meta.err], [shown.slot, shown.blockTime, null]);
    assert.deepEqual(
      element.transaction.message.accountKeys,
      shown.transaction.message.staticAccountKeys.map((key) => key.toBase58()),
    );
  });

  test('a failed transaction arrives too', async () => {
    const to = Keypair.generate().publicKey;
    await watch(to);
    const onlyGood = Keypair.generate().publicKey;
    await watch(onlyGood, { accountAddresses: [to.toBase58()], txnStatus: 'success' });
    const transaction = new Transaction().add(pay(to, 10_000 * LAMPORTS_PER_SOL));
    await chain.connection.sendTransaction(transaction, [payer], { skipPreflight: true });
    const [element] = await elements(to, 1);
    assert.deepEqual(element?.meta.err, { InstructionError: [0, { Custom: 1 }] });
    await flush();
    assert.equal(arrived(onlyGood).length, 0);
  });

  test('an address that only a lookup table names', async () => {
    const to = Keypair.generate().publicKey;
    await chain.seal();
    const recentSlot = await chain.connection.getSlot('confirmed');
    const authority = payer.publicKey;
    const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
    await send(
      create,
      AddressLookupTableProgram.extendLookupTable({ lookupTable: table, authority, payer: authority, addresses: [to] }),
    );
    await watch(to);
    const found = (await chain.connection.getAddressLookupTable(table)).value;
    assert.ok(found);
    const { blockhash } = await chain.connection.getLatestBlockhash();
    const instructions = [pay(to, 1_000_000)];
    const message = new TransactionMessage({ payerKey: authority, recentBlockhash: blockhash, instructions });
    const transaction = new VersionedTransaction(message.compileToV0Message([found]));
    transaction.sign([payer]);
    await chain.connection.sendTransaction(transaction);
    const [element] = await elements(to, 1);
    assert.equal(element?.version, 0);
    assert.deepEqual(element?.meta.loadedAddresses.writable, [to.toBase58()]);
    assert.equal(element?.transaction.message.accountKeys.includes(to.toBase58()), false);
  });

  test('the owner of a token account, unless that is switched off', async () => {
    const owner = Keypair.generate().publicKey;
    const { connection } = chain;
    const mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm);
    const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm);
    const theirs = await createAssociatedTokenAccount(connection, payer, mint, owner, confirm);
    await mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], confirm);
    await flush();
    await watch(owner);
    const keysOnly = Keypair.generate().publicKey;
    await watch(keysOnly, { accountAddresses: [owner.toBase58()], matchTokenOwners: false });
    const signature = await transfer(connection, payer, ours, theirs, payer, 250_000n, [], confirm);
    const [element] = await elements(owner, 1);
    assert.deepEqual(element?.transaction.signatures, [signature]);
    assert.equal(element?.transaction.message.accountKeys.includes(owner.toBase58()), false);
    await flush();
    assert.equal(arrived(keysOnly).length, 0);
  });

  test('a payment that lands again after a fork arrives once', async () => {
    const to = Keypair.generate().publicKey;
    const hook = await watch(to);
    const signature = await send(pay(to, 1_000_000));
    await elements(to, 1);
    const report = await chain.fork({ depth: 1, replay: 'all', extraBlocks: 2, gap: 1 });
    assert.ok(report.moved.some((move) => move.signature === signature));
    await flush();
    assert.equal(arrived(to).length, 1);
    const { data } = (await api('GET', `${ROOT}/${hook.webhookID}/deliveries`)).body;
    assert.equal(data.length, 1);
    assert.equal(data[0].status, 'delivered');
  });

  test('slots from before a webhook was made are read again for it', async () => {
    const to = Keypair.generate().publicKey;
    const signature = await send(pay(to, 1_000_000));
    const [listed] = await chain.connection.getSignaturesForAddress(to);
    const slot = listed?.slot ?? 0;
    await flush();
    const hook = await watch(to);
    await flush();
    assert.equal(arrived(to).length, 0);
    const { status, body } = await api('POST', `${ROOT}/${hook.webhookID}/replay`, { fromSlot: slot, toSlot: slot });
    assert.equal(status, 202, JSON.stringify(body));
    // Only what is final is read again.
    for (let count = 0; count < 40; count += 1) await chain.seal();
    const [element] = await elements(to, 1);
    assert.deepEqual([element?.slot, element?.transaction.signatures], [slot, [signature]]);
    await flush();
    assert.equal(arrived(to).length, 1);
  });

  test('the unmodified hosted client manages webhooks', { skip: sdk.skip }, async (t) => {
    t.after(redirectHostedClients(daemon.apiUrl));
    const { webhooks } = sdk.module.createHelius({ apiKey: daemon.key, network: 'mainnet' });
    const [one, two] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const made = await webhooks.create({
      webhookURL: `${receiver.url}/sdk`,
      webhookType: 'raw',
      transactionTypes: ['ANY'],
      accountAddresses: [one.toBase58()],
      authHeader: 'secret',
    } as never);
    assert.match(made.webhookID, /^[0-9a-f-]{36}$/);
    assert.deepEqual((await webhooks.get(made.webhookID)).accountAddresses, [one.toBase58()]);
    assert.ok((await webhooks.getAll()).some((hook: { webhookID: string }) => hook.webhookID === made.webhookID));
    const updated = await webhooks.update(made.webhookID, { accountAddresses: [two.toBase58()] } as never);
    assert.deepEqual(updated.accountAddresses, [two.toBase58()]);
    assert.equal((updated as { authHeader?: string }).authHeader, 'secret');
    await send(pay(one, 1_000_000));
    const signature = await send(pay(two, 1_000_000));
    await flush();
    const bodies = receiver.received.filter(({ url }) => url === '/sdk').map(({ body }) => JSON.parse(body.toString()));
    assert.deepEqual(
      bodies.map(([element]) => element.transaction.signatures[0]),
      [signature],
    );
    assert.equal((await webhooks.toggle(made.webhookID, false)).active, false);
    assert.equal((await webhooks.toggle(made.webhookID, true)).active, true);
    await webhooks.delete(made.webhookID);
    await assert.rejects(webhooks.get(made.webhookID), /404/);
  });

  test('a receiver that was down gets it on the next attempt', async () => {
    const to = Keypair.generate().publicKey;
    receiver.setFallback(answer(503));
    await watch(to, { retryPreset: 'compat' });
    await send(pay(to, 1_000_000));
    await elements(to, 1);
    receiver.setFallback(answer(200));
    await elements(to, 2);
    const [first, second] = arrived(to);
    assert.equal(first?.headers['webhook-id'], second?.headers['webhook-id']);
    assert.deepEqual(first?.body, second?.body);
  });
});
