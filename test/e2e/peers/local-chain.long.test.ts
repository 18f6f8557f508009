/** What clients see of a chain of a node, on the local chain and through a daemon. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSolanaRpcSubscriptions, type Signature } from '@solana/kit';
import {
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  SYSVAR_CLOCK_PUBKEY,
  SystemProgram,
  Transaction,
} from '@solana/web3.js';
import bs58 from 'bs58';
import { createHelius } from 'helius-sdk';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { cliArguments, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { startReceiver } from '../../helpers/receiver.ts';

const skip = (await chainMissing()) ?? false;
const WAIT = { skip, timeout: 60_000 };

async function bed(t: TestContext) {
  const chain = await startChain({ slotMs: 400, finalityDepth: 4, time: { kind: 'wall' } });
  const daemon = await startDaemon({
    chain,
    config: { plugins: ['access', 'proxy'], follow: { enabled: false } },
  });
  const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: url.replace('http', 'ws') });
  const listeners: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const remove of listeners) await remove();
    // The client of web3.js dials for ever otherwise.
    const socket = (connection as unknown as { _rpcWebSocket: { reconnect: boolean; close(code: number): void } })
      ._rpcWebSocket;
    socket.reconnect = false;
    socket.close(1000);
    await daemon.stop();
    await chain.stop();
  });
  return { chain, daemon, connection, listeners };
}

test('kit: a signature is received first, and then has its status', WAIT, async (t) => {
  const { chain, daemon, connection } = await bed(t);
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), LAMPORTS_PER_SOL);
  const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
  const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight });
  const toPubkey = Keypair.generate().publicKey;
  transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports: 2_000_000 }));
  transaction.sign(payer);
  const abort = new AbortController();
  t.after(() => abort.abort());
  const signature = bs58.encode(transaction.signature!) as Signature;
  const notices = await createSolanaRpcSubscriptions(`${daemon.wsUrl}/?api-key=${daemon.key}`)
    .signatureNotifications(signature, { commitment: 'finalized', enableReceivedNotification: true })
    .subscribe({ abortSignal: abort.signal });
  // What comes before somebody iterates is lost.
  const iterator = notices[Symbol.asyncIterator]();
  const told = [iterator.next(), iterator.next()].map(async (next) => (await next).value?.value);
  await connection.sendRawTransaction(transaction.serialize());
  assert.deepEqual(await Promise.all(told), ['receivedSignature', { err: null }]);
  const { value } = await connection.getSignatureStatus(signature);
  assert.equal(value?.confirmationStatus, 'finalized');
});

test('web3.js: the clock notifies in each slot', WAIT, async (t) => {
  const { connection, listeners } = await bed(t);
  const slots: number[] = [];
  await new Promise<void>((resolve) => {
    const id = connection.onAccountChange(
      SYSVAR_CLOCK_PUBKEY,
      ({ data }, { slot }) => {
        assert.equal(data.readBigUInt64LE(0), BigInt(slot));
        slots.push(slot);
        if (slots.length === 5) resolve();
      },
      { commitment: 'processed' },
    );
    listeners.push(() => connection.removeAccountChangeListener(id));
  });
  const [first, last] = [slots[0]!, slots[4]!];
  let blocks: number[] = [];
  while (blocks.at(-1) !== last) blocks = await connection.getBlocks(first, last, 'confirmed');
  assert.deepEqual(slots.slice(0, 5), blocks);
});

test('helius-sdk: a method that nobody has is not found, whatever the form of its params', WAIT, async (t) => {
  const { daemon } = await bed(t);
  const helius = createHelius({ apiKey: daemon.key, baseUrl: `${daemon.apiUrl}/` });
  const id = Keypair.generate().publicKey.toBase58();
  for (const [method, ask] of [
    ['getAsset', () => helius.getAsset({ id })],
    ['searchAssets', () => helius.searchAssets({ ownerAddress: id })],
    ['getAssetsByOwner', () => helius.getAssetsByOwner({ ownerAddress: id })],
  ] as const) {
    await assert.rejects(ask as () => Promise<unknown>, new RegExp(`${method}\\): Method not found`), method);
  }
});

test('ports of the local chain that a listener wants are named with the reason', async () => {
  const cases = [
    ['http.port', { PARHELION_HTTP__PORT: '8977' }],
    ['http.websocketPort', { PARHELION_HTTP__PORT: '8975' }],
    ['admin.port', { PARHELION_HTTP__PORT: '0', PARHELION_ADMIN__PORT: '8977' }],
  ] as const;
  for (const [name, env] of cases) {
    const { code, err } = await runCommand(['check-config'], {
      env: { PARHELION_UPSTREAM__LOCAL__PORT: '8976', ...env },
    });
    assert.equal(code, 78, err);
    assert.match(err, new RegExp(`${name} 897\\d is a port of the local chain, which takes upstream.local.port 8976`));
    assert.match(err, /\(8977\)/);
  }
});

test('a Discord message about the local chain links to an explorer of that chain', WAIT, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-discord-'));
  const receiver = await startReceiver();
  const key = 'a-key-of-the-test';
  const child = spawn(process.execPath, [...cliArguments, 'serve'], {
    cwd: dir,
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'test',
      PARHELION_BOOTSTRAP_KEY: key,
      PARHELION_DATA_DIR: dir,
      PARHELION_HTTP__PORT: '0',
      PARHELION_ADMIN__PORT: '0',
      PARHELION_UPSTREAM__LOCAL__PORT: '0',
      PARHELION_WEBHOOKS__ALLOW_CIDRS: '["127.0.0.0/8"]',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => output.push(String(text)));
  t.after(async () => {
    if (child.exitCode === null && child.kill()) await once(child, 'exit');
    await receiver.close();
    rmSync(dir, { recursive: true, force: true });
  });
  let run = findRunFile(dir);
  for (; run === null; run = findRunFile(dir)) {
    assert.equal(child.exitCode, null, output.join(''));
    await sleep(50);
  }
  const ask = async (path: string, body: object) => {
    const response = await fetch(`${run.api}${path}?api-key=${key}`, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as { result?: string };
  };
  const wallet = Keypair.generate().publicKey.toBase58();
  await ask('/v0/webhooks', { webhookURL: receiver.url, webhookType: 'discord', accountAddresses: [wallet] });
  const { result: signature } = await ask('/', {
    jsonrpc: '2.0',
    id: 1,
    method: 'requestAirdrop',
    params: [wallet, LAMPORTS_PER_SOL],
  });
  const [received] = await receiver.waitFor(1);
  const { embeds } = JSON.parse(received!.body.toString()) as { embeds: { url: string }[] };
  const link = new URL(embeds[0]!.url);
  assert.ok(link.pathname.endsWith(`/${signature}`), link.href);
  assert.equal(link.searchParams.get('cluster'), 'custom');
  // The node behind the link knows the transaction.
  const node = new Connection(link.searchParams.get('customUrl')!);
  const { value } = await node.getSignatureStatus(signature!);
  assert.equal(value?.err, null);
});
