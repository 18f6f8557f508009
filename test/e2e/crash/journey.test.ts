import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Connection, Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction } from '@solana/web3.js';
import { Webhook } from 'standardwebhooks';
import { BOOTSTRAP_KEY, type BuiltDaemon, startBuiltDaemon } from '../../helpers/built-daemon.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type Received, startReceiver } from '../../helpers/receiver.ts';

const skip = (await chainMissing()) ?? false;

interface Bed {
  readonly chain: Awaited<ReturnType<typeof startChain>>;
  readonly receiver: Awaited<ReturnType<typeof startReceiver>>;
  start(): BuiltDaemon;
}

async function makeBed(t: { after(fn: () => Promise<void>): void }): Promise<Bed> {
  const chain = await startChain({ slotMs: 100, time: { kind: 'wall' } });
  const receiver = await startReceiver();
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-journey-'));
  const configFile = join(dataDir, 'parhelion.yaml');
  writeFileSync(configFile, configFor(chain.rpcUrl, dataDir));
  const daemons: BuiltDaemon[] = [];
  t.after(async () => {
    for (const daemon of daemons) await daemon.kill('SIGKILL');
    await receiver.close();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    chain,
    receiver,
    start() {
      const daemon = startBuiltDaemon({ configFile, dataDir });
      daemons.push(daemon);
      return daemon;
    },
  };
}

/** Any free ports, one upstream, receivers on loopback. */
function configFor(rpcUrl: string, dataDir: string): string {
  return [
    `dataDir: ${dataDir}`,
    'http: { port: 0 }',
    'admin: { port: 0 }',
    `upstream: { urls: ['${rpcUrl}'] }`,
    'follow: { pollMs: 100 }',
    'log: { level: info, format: json }',
    'webhooks: { allowCidrs: [127.0.0.0/8] }',
    '',
  ].join('\n');
}

async function createWebhook(api: string, webhookURL: string, address: string): Promise<string> {
  const response = await fetch(`${api}/v0/webhooks?api-key=${BOOTSTRAP_KEY}`, {
    method: 'POST',
    body: JSON.stringify({ webhookType: 'raw', webhookURL, accountAddresses: [address], authHeader: 'Bearer mine' }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  return ((await response.json()) as { signingSecret: string }).signingSecret;
}

/** Sends a payment through the daemon; resolves when the daemon has accepted it, whatever becomes of it. */
async function pay(api: string, bed: Bed, to: Keypair): Promise<string> {
  const connection = new Connection(`${api}/?api-key=${BOOTSTRAP_KEY}`, 'confirmed');
  const from = Keypair.generate();
  await bed.chain.fund(from.publicKey.toBase58(), LAMPORTS_PER_SOL);
  await bed.chain.seal(1);
  const transaction = new Transaction().add(
    SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports: 10_000_000 }),
  );
  return connection.sendTransaction(transaction, [from]);
}

function assertDelivered(received: Received | undefined, secret: string, signature: string): void {
  assert.ok(received !== undefined);
  const body = received.body.toString();
  assert.doesNotThrow(() => new Webhook(secret).verify(body, received.headers as Record<string, string>));
  assert.equal(received.headers['authorization'], 'Bearer mine');
  const [element] = JSON.parse(body) as { transaction: { signatures: string[] }; meta: { err: unknown } }[];
  assert.equal(element?.transaction.signatures[0], signature);
  assert.equal(element?.meta.err, null);
}

test('a payment sent through the daemon is delivered although the daemon is killed right after it took it', {
  skip,
}, async (t) => {
  const bed = await makeBed(t);
  const first = bed.start();
  const { api } = await first.ready();
  const to = Keypair.generate();
  const secret = await createWebhook(api, `${bed.receiver.url}/`, to.publicKey.toBase58());
  const signature = await pay(api, bed, to);
  await first.kill('SIGKILL');
  await bed.start().ready();
  const [received] = await bed.receiver.waitFor(1);
  assertDelivered(received, secret, signature);
});

test('a delivery that failed before the kill is tried again after it, with the same id and a fresh timestamp', {
  skip,
}, async (t) => {
  const bed = await makeBed(t);
  bed.receiver.script({ kind: 'answer', status: 500 });
  const first = bed.start();
  const { api } = await first.ready();
  const to = Keypair.generate();
  const secret = await createWebhook(api, `${bed.receiver.url}/`, to.publicKey.toBase58());
  const signature = await pay(api, bed, to);
  await bed.receiver.waitFor(1);
  // The outcome is written within milliseconds; a kill before that is the other case of the crash test.
  await new Promise((resolve) => setTimeout(resolve, 500));
  await first.kill('SIGKILL');
  await bed.start().ready();
  const [failed, delivered] = await bed.receiver.waitFor(2);
  assertDelivered(delivered, secret, signature);
  assert.equal(delivered?.headers['webhook-id'], failed?.headers['webhook-id']);
  assert.deepEqual(delivered?.body, failed?.body);
  assert.equal(delivered?.headers['x-parhelion-attempt'], '2');
  assert.ok(Number(delivered?.headers['webhook-timestamp']) > Number(failed?.headers['webhook-timestamp']));
});
