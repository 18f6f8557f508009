import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ComputeBudgetProgram, Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { until } from '../proxy/rpc-client.ts';
import { address, startFollowedChain } from './specified-chain.ts';

const missing = (await chainMissing()) ?? false;
const plugins = ['access', 'proxy', 'fees'];
const LEVELS = { options: { includeAllPriorityFeeLevels: true } };

async function ask({ apiUrl, key }: DaemonInProcess, params: unknown, method = 'getPriorityFeeEstimate') {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body });
  return {
    status: response.status,
    body: (await response.json()) as { result?: never; error?: { code: number; data?: { details: string } } },
  };
}

test('fees of real transactions; a fork takes its own back, a restart keeps the rest without fetching', {
  skip: missing,
}, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-fees-'));
  const chain = await startChain();
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 10_000_000_000);
  const pay = async (microLamports: number) => {
    const instructions = [
      ComputeBudgetProgram.setComputeUnitPrice({ microLamports }),
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1 }),
    ];
    const { blockhash } = await chain.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey });
    transaction.recentBlockhash = blockhash;
    transaction.add(...instructions).sign(payer);
    await chain.connection.sendRawTransaction(transaction.serialize());
  };
  const start = (follow: object) => startDaemon({ chain, dataDir, key: 'test-fees-key', config: { plugins, follow } });
  const highest = async (daemon: DaemonInProcess) => {
    const { body } = await ask(daemon, [{ accountKeys: [payer.publicKey.toBase58()], ...LEVELS }]);
    return (body.result as { priorityFeeLevels?: { unsafeMax: number } } | undefined)?.priorityFeeLevels?.unsafeMax;
  };
  let daemon = await start({ pollMs: 50, startSlot: 0 });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(dataDir, { recursive: true });
  });
  await pay(700);
  await until('the price is seen', async () => (await highest(daemon)) === 700);
  await pay(90_000);
  await until('the higher price is seen', async () => (await highest(daemon)) === 90_000);
  await chain.fork({ depth: 1, replay: 'none', extraBlocks: 1 });
  await until('what was taken back does not count', async () => (await highest(daemon)) === 700);
  await daemon.stop();
  daemon = await start({ enabled: false });
  assert.equal(await highest(daemon), 700);
});

test('as long as no block was followed there is no estimate', async (t) => {
  const daemon = await startDaemon({ config: { plugins, follow: { enabled: false } } });
  t.after(() => daemon.stop());
  const { status, body } = await ask(daemon, [{}]);
  assert.deepEqual([status, body.error?.code], [503, -32002]);
  assert.match(body.error?.data?.details ?? '', /no block has been followed/);
});

test('the first algorithm takes all accounts together; the object may be the params themselves', async (t) => {
  const { daemon } = await startFollowedChain(t, {
    name: 'two accounts',
    slots: [
      { transactions: [{ price: 10, writable: ['@a'] }] },
      { transactions: [{ price: 1_000, writable: ['@b'] }] },
      { transactions: [{ price: 5, writable: ['@c'] }] },
    ],
  });
  const asked = { accountKeys: [address('@a'), address('@b')], options: { includeDetails: true, lookbackSlots: 3 } };
  const { body } = await ask(daemon, asked, 'getPriorityFeeEstimateV1');
  const { priorityFeeEstimate, priorityFeeEstimateDetails } = body.result as unknown as {
    priorityFeeEstimate: number;
    priorityFeeEstimateDetails: [string, { count: number; mean: number }][];
  };
  assert.equal(priorityFeeEstimate, 10);
  assert.deepEqual(
    priorityFeeEstimateDetails.map(([name, { count, mean }]) => [name, count, mean]),
    [
      ['Global', 3, 338],
      ['All Accounts', 3, 337],
    ],
  );
});

test('lookup tables that cannot be read are no estimate', async (t) => {
  const { daemon, upstream } = await startFollowedChain(t, {
    name: 'one',
    slots: [{ transactions: [{ price: 10, writable: ['@a'] }] }],
  });
  upstream.on('getMultipleAccounts', { fault: 'reset' });
  const { textOf, wireOf } = await import('./specified-chain.ts');
  const spec = { version: 0, writable: ['@a'], table: '@table', tableWritable: ['@x'] } as const;
  const transaction = textOf(wireOf(spec, { '@table': ['@x'] }).wire, 'base58');
  const { status, body } = await ask(daemon, [{ transaction }]);
  assert.deepEqual([status, body.error?.code], [503, -32002]);
});
