/** A sink waits for slots that nobody has: readiness and doctor name it, and it goes on by itself once an upstream has them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
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
  const readiness = async (): Promise<Readiness> =>
    (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as Readiness;
  const named = async (isOk: boolean) => {
    const found = await readiness();
    const check = found.checks.find(({ name }) => name === 'deliverer: sinks');
    return found.ready && check?.ok === isOk ? check : null;
  };
  const doctor = async () => {
    const { out } = await runCommand(['doctor', '--json', '--config', daemon.configFile]);
    const { findings } = JSON.parse(out) as {
      readonly findings: readonly { readonly check: string; readonly level: string; readonly detail: string }[];
    };
    return findings.filter(({ check }) => check === 'sinks');
  };
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
