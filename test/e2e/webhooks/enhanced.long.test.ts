import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createAssociatedTokenAccount, createMint, mintTo, transfer } from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { Webhook } from 'standardwebhooks';
import type { Api } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, type TestChain } from '../../helpers/chain.ts';
import type { Receiver } from '../../helpers/receiver.ts';
import { type ChainBed, startChainBed } from './chain-harness.ts';

interface Enhanced {
  readonly type: string;
  readonly source: string;
  readonly description: string;
  readonly signature: string;
  readonly feePayer: string;
  readonly fee: number;
  readonly accountData: readonly { account: string; nativeBalanceChange: number }[];
  readonly nativeTransfers: readonly object[];
  readonly tokenTransfers: readonly object[];
}

const WAIT_ROUNDS = 6_000;

describe('enhanced and Discord webhooks on a real chain', { skip: (await chainMissing()) ?? false }, () => {
  let bed: ChainBed;
  let chain: TestChain;
  let receiver: Receiver;
  let api: Api;
  let payer: Keypair;

  before(async () => {
    bed = await startChainBed();
    ({ chain, receiver, api, payer } = bed);
  });
  after(() => bed?.stop());

  async function watch(path: string, address: PublicKey, patch: object): Promise<string> {
    const { status, body } = await api('POST', '/v0/webhooks', {
      webhookURL: `${receiver.url}/${path}`,
      accountAddresses: [address.toBase58()],
      ...patch,
    });
    assert.equal(status, 200, JSON.stringify(body));
    return (body as { signingSecret: string }).signingSecret;
  }

  async function arrived(path: string, count: number) {
    const own = () => receiver.received.filter(({ url }) => url === `/${path}`);
    for (let round = 0; round < WAIT_ROUNDS && own().length < count; round += 1)
      await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(own().length, count);
    return own();
  }

  async function pay(to: PublicKey, lamports: number): Promise<string> {
    const instruction = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
    return sendAndConfirmTransaction(chain.connection, new Transaction().add(instruction), [payer], {
      commitment: 'confirmed',
    });
  }

  test('a payment comes as one enhanced transaction, signed, and as one Discord message', async () => {
    const to = Keypair.generate().publicKey;
    const secret = await watch('pay', to, { webhookType: 'enhanced' });
    await watch('pay-discord', to, { webhookType: 'discord' });
    const signature = await pay(to, 1_500_000_000);
    const [delivery] = await arrived('pay', 1);
    const [element] = new Webhook(secret).verify(
      delivery!.body.toString(),
      delivery!.headers as Record<string, string>,
    ) as Enhanced[];
    const from = payer.publicKey.toBase58();
    assert.equal(element!.signature, signature);
    assert.deepEqual([element!.type, element!.source], ['TRANSFER', 'SYSTEM_PROGRAM']);
    assert.equal(element!.description, `${from} transferred 1.5 SOL to ${to.toBase58()}.`);
    assert.deepEqual(element!.nativeTransfers, [
      { amount: 1_500_000_000, fromUserAccount: from, toUserAccount: to.toBase58() },
    ]);
    const sum = element!.accountData.reduce((total, { nativeBalanceChange }) => total + nativeBalanceChange, 0);
    assert.equal(sum, -element!.fee);
    assert.deepEqual(Object.keys(element!), Object.keys(element!).sort());
    const [message] = await arrived('pay-discord', 1);
    const { embeds, allowed_mentions: mentions } = JSON.parse(message!.body.toString()) as {
      embeds: { title: string; description: string; url: string; fields: { name: string; value: string }[] }[];
      allowed_mentions: object;
    };
    assert.deepEqual(mentions, { parse: [] });
    assert.equal(embeds.length, 1);
    assert.equal(embeds[0]!.title, 'TRANSFER on SYSTEM_PROGRAM');
    assert.equal(embeds[0]!.description, element!.description);
    assert.ok(embeds[0]!.url.includes(signature));
    assert.deepEqual(
      embeds[0]!.fields.map(({ name }) => name),
      ['Signature', 'Fee payer', 'Fee', 'Transfer'],
    );
  });

  test('types are filtered where blocks are matched; failed transactions are included only on request', async () => {
    const mint = await createMint(chain.connection, payer, payer.publicKey, null, 6, undefined, {
      commitment: 'confirmed',
    });
    const owner = Keypair.generate().publicKey;
    const own = await createAssociatedTokenAccount(chain.connection, payer, mint, payer.publicKey);
    const other = await createAssociatedTokenAccount(chain.connection, payer, mint, owner);
    await watch('mints', payer.publicKey, { transactionTypes: ['token_mint'] });
    await watch('transfers', owner, { transactionTypes: ['TRANSFER', 'NFT_SALE'] });
    await watch('failed', payer.publicKey, { txnStatus: 'failed' });
    await mintTo(chain.connection, payer, mint, own, payer, 5_000_000n);
    await transfer(chain.connection, payer, own, other, payer, 1_250_000n);
    const broke = Keypair.generate();
    const instruction = SystemProgram.transfer({
      fromPubkey: broke.publicKey,
      toPubkey: payer.publicKey,
      lamports: LAMPORTS_PER_SOL,
    });
    const transaction = new Transaction().add(instruction);
    transaction.feePayer = payer.publicKey;
    transaction.recentBlockhash = (await chain.connection.getLatestBlockhash()).blockhash;
    transaction.sign(payer, broke);
    await chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });

    const [minted] = (await arrived('mints', 1)).map(({ body }) => (JSON.parse(body.toString()) as Enhanced[])[0]!);
    assert.deepEqual([minted!.type, minted!.source], ['TOKEN_MINT', 'SOLANA_PROGRAM_LIBRARY']);
    const [moved] = (await arrived('transfers', 1)).map(({ body }) => (JSON.parse(body.toString()) as Enhanced[])[0]!);
    assert.equal(moved!.type, 'TRANSFER');
    assert.deepEqual(moved!.tokenTransfers, [
      {
        fromTokenAccount: own.toBase58(),
        fromUserAccount: payer.publicKey.toBase58(),
        mint: mint.toBase58(),
        toTokenAccount: other.toBase58(),
        toUserAccount: owner.toBase58(),
        tokenAmount: 1.25,
        tokenStandard: 'Fungible',
      },
    ]);
    const [failed] = (await arrived('failed', 1)).map(({ body }) => (JSON.parse(body.toString()) as Enhanced[])[0]!);
    assert.deepEqual([failed!.type, failed!.nativeTransfers, failed!.description], ['TRANSFER', [], '']);
    // Nothing else came on the way.
    for (const path of ['mints', 'transfers']) assert.equal((await arrived(path, 1)).length, 1);
  });
});
