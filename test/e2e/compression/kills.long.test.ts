import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BOOTSTRAP_KEY, type BuiltDaemon, startBuiltDaemon } from '../../helpers/built-daemon.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { integrityOf } from '../../helpers/delivery-ledger.ts';
import { dumpCompression } from '../../helpers/light/dump.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createSolOperations } from '../../helpers/light/sol-operations.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { createCall, followAll, type LightBed, proveLeaf, SEED, startLightBed } from './harness.ts';

const KILLS = Math.ceil(8 * Number(process.env['PARHELION_KILL_TIMES'] ?? 1));
const MAX_LIFE_MS = 1_500;
const TRIES = 600;

/** A second built daemon, on the same chain with its own store. */
function makePlace(t: TestContext, { chain }: LightBed) {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-light-'));
  const configFile = join(dataDir, 'parhelion.yaml');
  const upstream = { urls: [{ url: chain.rpcUrl, websocketUrl: chain.wsUrl }] };
  const log = { level: 'info', format: 'json' };
  writeFileSync(
    configFile,
    JSON.stringify({ dataDir, http: { port: 0 }, admin: { port: 0 }, upstream, log, ...followAll }),
  );
  const daemons: BuiltDaemon[] = [];
  t.after(async () => {
    for (const daemon of daemons) await daemon.kill('SIGKILL');
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    path: join(dataDir, 'parhelion.db'),
    start() {
      const daemon = startBuiltDaemon({ configFile, dataDir, warm: true });
      daemons.push(daemon);
      return daemon;
    },
  };
}

test(`${KILLS} SIGKILLs while compressed accounts are indexed: in the end the store holds what a fresh index holds`, {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, random, wallets } = bed;
  const operation = createSolOperations({ rpc, random, wallets, trees: createStateTrees() });
  const work = async (count: number) => {
    for (let done = 0; done < count; done += 1) {
      await operation();
      await bed.caughtUp();
    }
  };
  const place = makePlace(t, bed);
  let next = place.start();
  for (let kill = 0; kill < KILLS; kill += 1) {
    // What happens while it is down is what it indexes when it is killed.
    await work(6);
    const daemon = next;
    daemon.go();
    next = place.start();
    if (kill % 3 > 0) await daemon.ready();
    await Promise.all([work(2), sleep(random.below(MAX_LIFE_MS))]);
    assert.equal(daemon.child.exitCode, null, daemon.output());
    await daemon.kill('SIGKILL');
    if (kill > 0) assert.equal(integrityOf(place.path), 'ok');
  }
  await work(2);
  next.go();
  const { api } = await next.ready();
  const call = createCall(`${api}/?api-key=${BOOTSTRAP_KEY}`);
  await untilSlot(call, await chain.connection.getSlot('confirmed'), next);
  const accounts = await proveAll({ ...bed, call });
  await next.kill('SIGTERM');
  assert.equal(next.child.exitCode, 0, next.output());
  assert.deepEqual(dumpCompression(place.path), await freshDump(t, bed));
  t.diagnostic(`${accounts} unspent accounts, seed ${SEED}`);
});

type Call = ReturnType<typeof createCall>;

async function untilSlot(call: Call, slot: number, daemon?: BuiltDaemon): Promise<void> {
  for (let tries = 0; (await call<number>('getIndexerSlot', []).catch(() => 0)) < slot; tries += 1) {
    assert.ok(tries < TRIES, `slot ${slot} is not reached: ${daemon?.output()}`);
    await sleep(50);
  }
}

/** Every leaf of a V1 tree that a wallet still has. */
async function proveAll(bed: LightBed): Promise<number> {
  let count = 0;
  for (const owner of bed.owners) {
    type Items = { value: { items: readonly { hash: string; merkleContext: { treeType: number } }[] } };
    const { value } = await bed.call<Items>('getCompressedAccountsByOwnerV2', { owner: owner.toBase58() });
    for (const { hash, merkleContext } of value.items) {
      if (merkleContext.treeType === 1) await proveLeaf(bed, hash);
      count += 1;
    }
  }
  return count;
}

/** The index of a daemon that starts now without interruption. */
async function freshDump(t: TestContext, { chain }: LightBed): Promise<Record<string, string[]>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-fresh-'));
  const daemon = await startDaemon({ chain, dataDir, config: followAll });
  let isRunning = true;
  const stop = async () => {
    if (isRunning) await daemon.stop();
    isRunning = false;
  };
  t.after(async () => {
    await stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  await untilSlot(createCall(`${daemon.apiUrl}/?api-key=${daemon.key}`), await chain.connection.getSlot('confirmed'));
  await stop();
  return dumpCompression(join(dataDir, 'parhelion.db'));
}
