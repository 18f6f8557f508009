/** A store that an older version wrote opens, takes the schema steps it lacks, and serves what was in it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { createRpc, LightSystemProgram } from '@lightprotocol/stateless.js';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { sql } from 'kysely';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { send } from '../../helpers/light/sender.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { allScopes, newestVersions, type SchemaVersions } from '../../helpers/migration-steps.ts';
import { writeOlderStore } from '../../helpers/older-store.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { eachStore, type TestDatabase } from '../../helpers/store.ts';
import { walletClient } from '../../helpers/wallet-client.ts';
import { createCall, followAll } from '../compression/bed.ts';

const skip = await lightMissing();
const KEY = 'key-of-the-first-project';
const { releases } = JSON.parse(
  readFileSync(new URL('../../contract/migrations/released-steps.json', import.meta.url), 'utf8'),
) as { releases: Record<string, SchemaVersions> };

/** Releases with an older schema, and the two states that stand for those before the first release. */
async function olderVersions(): Promise<ReadonlyMap<string, SchemaVersions>> {
  const newest = newestVersions(await allScopes());
  const all = (step: (newest: number) => number) =>
    Object.fromEntries(Object.entries(newest).map(([scope, last]) => [scope, Math.min(last, step(last))]));
  const older = Object.entries(releases).filter(([, versions]) => JSON.stringify(versions) !== JSON.stringify(newest));
  return new Map([
    ...older,
    ['the first steps', all(() => 1)],
    ['all steps but the last', all((last) => Math.max(1, last - 1))],
  ]);
}

interface World {
  readonly chain: TestChain;
  readonly receiver: Receiver;
  readonly payer: Keypair;
  pay(to: string): Promise<void>;
}

async function startWorld(t: TestContext): Promise<World> {
  const chain = await startChain({ lightAssets: null });
  const receiver = await startReceiver();
  t.after(() => Promise.all([chain.stop(), receiver.close()]));
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
  const pay = async (to: string) => void (await chain.fund(to, LAMPORTS_PER_SOL));
  return { chain, receiver, payer, pay };
}

const start = ({ chain }: World, { url }: TestDatabase): Promise<DaemonInProcess> =>
  startDaemon({
    ...{ chain, store: url, key: KEY },
    config: {
      ...followAll,
      webhooks: { allowCidrs: ['127.0.0.0/8'], retry: { compat: { steps: Array.from({ length: 40 }, () => 1) } } },
    },
  });

const until = async (what: string, check: () => Promise<boolean> | boolean): Promise<void> => {
  for (let round = 0; round < 1_200; round += 1) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`${what} did not come`);
};

interface Written {
  readonly wallet: string;
  readonly owner: string;
  readonly webhookID: string;
  /** The request that its receiver refused until the older daemon stopped. */
  readonly pendingId: string;
  readonly otherKey: string;
}

/** Everything that is looked for afterwards, by the ways in which users make it. */
async function write(world: World, daemon: DaemonInProcess): Promise<Written> {
  const { chain, receiver, payer, pay } = world;
  const api = apiOf(daemon.apiUrl, KEY);
  const wallet = Keypair.generate().publicKey.toBase58();
  const hook = {
    webhookURL: `${receiver.url}/hook`,
    webhookType: 'raw',
    accountAddresses: [wallet],
    retryPreset: 'compat',
  };
  const { status, body } = await api('POST', '/v0/webhooks', hook);
  assert.equal(status, 200, JSON.stringify(body));
  await pay(wallet);
  await receiver.waitFor(1);
  receiver.setFallback(answer(500));
  await pay(wallet);
  const [, pending] = await receiver.waitFor(2);
  const transfer = SystemProgram.transfer({
    fromPubkey: payer.publicKey,
    toPubkey: Keypair.generate().publicKey,
    lamports: 1e9,
  });
  await sendAndConfirmTransaction(chain.connection, new Transaction().add(transfer), [payer]);
  const compress = await LightSystemProgram.compress({
    ...{ payer: payer.publicKey, toAddress: payer.publicKey, lamports: 5_000_000 },
    outputStateTreeInfo: createStateTrees().v1[0]!,
  });
  const rpc = createRpc(chain.rpcUrl, chain.rpcUrl, chain.rpcUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
  await send(rpc, { kind: 'compress', instructions: [compress], payer });
  const ran = await runCommand([
    'keys',
    'create',
    '--project',
    daemon.projectId,
    '--json',
    '--config',
    daemon.configFile,
  ]);
  assert.equal(ran.code, 0, ran.err);
  return {
    ...{ wallet, owner: payer.publicKey.toBase58(), webhookID: body.webhookID as string },
    pendingId: String(pending?.headers['webhook-id']),
    otherKey: (JSON.parse(ran.out) as { key: string }).key,
  };
}

/** What users see of it. */
async function look(daemon: DaemonInProcess, written: Written) {
  const { wallet, owner, webhookID, otherKey } = written;
  const api = apiOf(daemon.apiUrl, otherKey);
  const call = createCall(`${daemon.apiUrl}/?api-key=${otherKey}`);
  const wallets = walletClient({ apiUrl: daemon.apiUrl, key: otherKey });
  type Accounts = { readonly value: { readonly items: readonly { readonly hash: string }[] } };
  const accounts = () => call<Accounts>('getCompressedAccountsByOwner', { owner });
  await until('the compressed account', async () => (await accounts().catch(() => null))?.value.items.length === 1);
  const { items } = (await accounts()).value;
  const { value: proof } = await call<{ value: object }>('getCompressedAccountProof', { hash: items[0]?.hash });
  const delivered = await api('GET', `/v0/webhooks/${webhookID}/deliveries?status=delivered`);
  return {
    hooks: (await api('GET', '/v0/webhooks')).body as unknown,
    hook: (await api('GET', `/v0/webhooks/${webhookID}`)).body as unknown,
    delivered: delivered.body as unknown,
    history: await wallets.get(`${owner}/history?limit=50`),
    transfers: await wallets.get(`${wallet}/transfers?limit=50`),
    funded: await wallets.get(`${wallet}/funded-by`),
    ...{ items, proof },
  };
}

eachStore('a store of an older version', ({ database }) => {
  test('opens, takes the steps it lacks, and serves what it holds', { skip }, async (t) => {
    const world = await startWorld(t);
    const newest = await database(t);
    const writer = await start(world, newest);
    let written: Written;
    let before: Awaited<ReturnType<typeof look>>;
    try {
      written = await write(world, writer);
      before = await look(writer, written);
    } finally {
      await writer.stop();
    }
    assert.equal((before.hooks as unknown[]).length, 1);
    const source = await newest.open();
    const scopes = await allScopes();
    for (const [name, versions] of await olderVersions()) {
      const older = await database(t);
      const store = await older.open();
      await writeOlderStore(source, store, scopes, versions);
      const seen = world.receiver.received.length;
      world.receiver.setFallback(answer(500));
      const daemon = await start(world, older);
      try {
        assert.deepEqual(await look(daemon, written), before, name);
        world.receiver.setFallback(answer(200));
        await until(`the delivery that waited, ${name},`, () =>
          world.receiver.received.slice(seen).some(({ headers }) => headers['webhook-id'] === written.pendingId),
        );
        assert.equal((await apiOf(daemon.apiUrl, 'another-key')('GET', '/v0/webhooks')).status, 401);
        await goesOn(world, daemon);
      } finally {
        await daemon.stop();
      }
      const { rows } = await sql<{ scope: string; version: number }>`
        select scope, max(version) as version from parhelion_migrations group by scope`.execute(store.read);
      const used = Object.entries(newestVersions(scopes)).filter(([scope]) => scope !== 'signup');
      assert.deepEqual(Object.fromEntries(rows.map((row) => [row.scope, row.version])), {
        ...Object.fromEntries(used),
        ...(versions['signup'] === undefined ? {} : { signup: versions['signup'] }),
      });
    }
  });
});

/** A webhook that is made now gets what happens now. */
async function goesOn({ receiver, pay }: World, daemon: DaemonInProcess): Promise<void> {
  const wallet = Keypair.generate().publicKey.toBase58();
  const hook = { webhookURL: `${receiver.url}/${wallet}`, webhookType: 'raw', accountAddresses: [wallet] };
  const api = apiOf(daemon.apiUrl, KEY);
  const { status, body } = await api('POST', '/v0/webhooks', hook);
  assert.equal(status, 200, JSON.stringify(body));
  await pay(wallet);
  await until('a new delivery', () => receiver.received.some(({ url }) => url === `/${wallet}`));
}
