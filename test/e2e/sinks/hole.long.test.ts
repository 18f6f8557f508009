/**
 * A sink waits for slots that nobody has, or the archive cannot be written: readiness and doctor name it, the daemon stays ready, and it goes on by itself
 * once an upstream has the slots, or the server is back.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { serversMissing, startClickHouse } from '../../helpers/clickhouse.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';

const KEY = '0d2b6cf8-6c1e-4a0e-9a44-c3cfe9a2b0d1';
/** Slots of the sink that the node has pruned. */
const PRUNED = 8;
const FINALITY = 4;
/** Each look is a command. */
const LOOK_MS = 120_000;

interface Readiness {
  readonly ready: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
}

/** The check, once it says so and the daemon is ready. */
async function checkOf({ adminUrl }: DaemonProcess, name: string, isOk: boolean) {
  const { ready, checks } = (await (await fetch(`${adminUrl}/readyz`)).json()) as Readiness;
  const found = checks.find((check) => check.name === name);
  return ready && found?.ok === isOk ? found : null;
}

async function findingsOf({ configFile }: DaemonProcess, name: string) {
  const { out } = await runCommand(['doctor', '--json', '--config', configFile]);
  const { findings } = JSON.parse(out) as {
    readonly findings: readonly { readonly check: string; readonly level: string; readonly detail: string }[];
  };
  return findings.filter(({ check }) => check === name);
}

test('a hole that a sink waits for is named by readiness and doctor, and the daemon stays ready', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  const chain = await startChain({ finalityDepth: FINALITY });
  const wallet = Keypair.generate().publicKey.toBase58();
  const pay = async (count: number) => {
    for (let paid = 0; paid < count; paid++) await chain.fund(wallet, 1_000_000_000 + paid);
  };
  await pay(20);
  const start = await chain.connection.getSlot('finalized');
  const from = start - PRUNED;
  chain.faults.set([{ action: 'pruned', first: start }]);
  const target = { kind: 'ndjson', tables: ['blocks'], batchSlots: 1, batchSeconds: 0 };
  const daemon = await startDaemonProcess({
    chain,
    dataDir,
    key: KEY,
    config: {
      plugins: ['access', 'proxy', 'sinks'],
      ledger: { retain: { hours: 24 } },
      follow: { startSlot: start, pollMs: 50 },
      sinks: {
        targets: [
          { ...target, name: 'old', target: join(dataDir, 'old'), from },
          { ...target, name: 'new', target: join(dataDir, 'new') },
        ],
      },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const named = (isOk: boolean) => checkOf(daemon, 'deliverer: sinks', isOk);
  const doctor = () => findingsOf(daemon, 'sinks');
  await pay(FINALITY + 2);
  const waiting = await until(() => named(false), 'readiness names the hole');
  assert.match(waiting.detail, new RegExp(`^old waits for the slots from ${from} on: `));
  assert.ok(!waiting.detail.includes('127.0.0.1'), waiting.detail);
  const [finding, ...others] = await doctor();
  assert.deepEqual([finding?.level, others], ['warn', []]);
  assert.match(finding!.detail, new RegExp(`old waits for the slots from ${from} on`));

  chain.faults.clear();
  await until(() => named(true), 'the sink goes on', LOOK_MS);
  assert.deepEqual(await doctor(), []);
});

test('an archive that cannot be written is named by readiness and doctor, and the daemon stays ready', {
  skip: (await chainMissing()) ?? serversMissing(1) ?? false,
}, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-archive-'));
  const [chain, { servers, stop }] = [await startChain({ finalityDepth: FINALITY }), await startClickHouse(1)];
  const [server] = servers;
  await server!.kill();
  // The archive brings its plugin; that of sinks has the chain followed.
  const daemon = await startDaemonProcess({
    chain,
    dataDir,
    key: KEY,
    config: {
      plugins: ['access', 'proxy', 'sinks'],
      ledger: { retain: { hours: 24 }, archive: `clickhouse://${server!.host}/named` },
      follow: { pollMs: 50 },
      sinks: { targets: [{ name: 'rows', kind: 'ndjson', target: join(dataDir, 'rows') }] },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    await stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  for (let paid = 0; paid < 20; paid++) await chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000_000);
  const away = await until(() => checkOf(daemon, 'indexer: archive', false), 'readiness names the archive');
  assert.equal(away.detail, 'main: cannot be written (ARCHIVE_UNREACHABLE)');
  const [finding, ...others] = await findingsOf(daemon, 'archive');
  assert.deepEqual([finding?.level, finding?.detail, others], ['warn', away.detail, []]);
  await server!.start();
  const isWritten = async () =>
    /^main: has slot \d+$/.test((await checkOf(daemon, 'indexer: archive', true))?.detail ?? '');
  await until(isWritten, 'the archive goes on', LOOK_MS);
  assert.deepEqual(await findingsOf(daemon, 'archive'), []);
});
