import assert from 'node:assert/strict';
import { test } from 'node:test';
import { address } from '@solana/kit';
import { Keypair, type PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import { createHelius } from 'helius-sdk';
import { sendViaSender } from 'helius-sdk/transactions/sendViaSender';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { type ChainBed, startChainBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;

async function transferWire({ chain }: ChainBed, from: Keypair, to: PublicKey, lamports: number): Promise<string> {
  const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
  const transaction = new Transaction({ feePayer: from.publicKey, blockhash, lastValidBlockHeight });
  transaction.add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports }));
  transaction.sign(from);
  return transaction.serialize().toString('base64');
}

async function funded({ chain }: ChainBed): Promise<Keypair> {
  const pair = Keypair.generate();
  await chain.fund(pair.publicKey.toBase58(), 5_000_000_000);
  return pair;
}

test('the unmodified hosted client: standard methods, errors, the root’s codes', { skip }, async (t) => {
  const bed = await startChainBed(t);
  t.after(redirectHostedClients(bed.daemon.apiUrl));
  const helius = createHelius({ apiKey: bed.daemon.key, network: 'mainnet' });
  const someone = await funded(bed);
  const owner = address(someone.publicKey.toBase58());
  assert.equal((await helius.getBalance(owner, { commitment: 'confirmed' })).value, 5_000_000_000n);
  assert.equal(typeof (await helius.getSlot()), 'bigint');
  await assert.rejects(helius.getAsset({ id: owner }), /RPC error \(getAsset\): /);
  const stranger = createHelius({ apiKey: 'wrong', network: 'mainnet' });
  await assert.rejects(stranger.getSlot(), /401/);
});

test('the unmodified hosted client: a transaction through the RPC address and through the sender', {
  skip,
}, async (t) => {
  const bed = await startChainBed(t);
  t.after(redirectHostedClients(bed.daemon.apiUrl));
  const helius = createHelius({ apiKey: bed.daemon.key, network: 'mainnet' });
  const [from, to] = [await funded(bed), Keypair.generate()];
  const broadcast = await helius.tx.broadcastTransaction(await transferWire(bed, from, to.publicKey, 2_000_000), {
    pollIntervalMs: 20,
  });
  assert.match(broadcast, /^[1-9A-HJ-NP-Za-km-z]{64,88}$/);
  for (const region of ['Default', 'EU_CENTRAL', 'AP_TOKYO'] as const) {
    const before = await bed.chain.connection.getBalance(to.publicKey);
    const signature = await sendViaSender(await transferWire(bed, from, to.publicKey, 3_000_000), region);
    await until(`the transfer of ${signature}`, async () => {
      await bed.chain.seal();
      return (await bed.chain.connection.getBalance(to.publicKey)) === before + 3_000_000;
    });
  }
  await assert.rejects(sendViaSender('AAAA'), /-32602/);
  assert.equal(await (await fetch('https://sender.helius-rpc.com/ping')).text(), 'ok');
});

test('the sender repeats until the transaction is final, then rests', { skip }, async (t) => {
  const bed = await startChainBed(t, { sender: { rebroadcast: { intervalMs: 50 } } });
  const [from, to] = [await funded(bed), Keypair.generate()];
  const wire = await transferWire(bed, from, to.publicKey, 4_000_000);
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'sendTransaction',
    params: [wire, { encoding: 'base64' }],
  });
  const response = await fetch(`${bed.daemon.apiUrl}/fast`, { method: 'POST', body });
  assert.equal(response.status, 200);
  const queued = async () => {
    const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
    return /^parhelion_sender_rebroadcast_queued(?:\{[^}]*\})? (\d+)$/m.exec(text)?.[1];
  };
  await until('it is in a block', async () => (await bed.chain.connection.getBalance(to.publicKey)) === 4_000_000);
  // Not final yet: a fork could drop it.
  assert.equal(await queued(), '1');
  await bed.chain.seal(40);
  await until('nothing waits', async () => (await queued()) === '0');
  assert.equal(await bed.chain.connection.getBalance(to.publicKey), 4_000_000);
});
