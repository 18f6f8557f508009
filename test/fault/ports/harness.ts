import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonParts } from '../../../src/daemon/parts.ts';
import { openStore } from '../../../src/store/index.ts';
import { BOOTSTRAP_KEY } from '../../helpers/built-daemon.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createDeliveryLedger, integrityOf } from '../../helpers/delivery-ledger.ts';
import { startPayments } from '../../helpers/payments.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

type Change = (parts: DaemonParts) => DaemonParts;

/** Lives of a daemon in this process, one of them with a part that fails. */
export interface PortBed {
  /**
   * `first`: the part fails from the very first start on; `later`: in the second life of a store. In the third life everything is
   * whole, and what was acknowledged has to be there. The faulty life lasts until `hasFailed`, within bounds.
   */
  run(life: 'first' | 'later', change: Change, hasFailed: () => boolean): Promise<void>;
  /** Descriptors of this process. */
  descriptors(): number;
  stop(): Promise<void>;
}

const FAULTY_MS = 400;
const MAX_FAULTY_MS = 10 * FAULTY_MS;
/** Longer than any lease: the third life needs not wait for those that the second could not give back. */
const AHEAD_MS = 600_000;

export async function startPortBed(): Promise<PortBed> {
  const chain = await startChain();
  const receiver = await startReceiver();
  const template = mkdtempSync(join(tmpdir(), 'parhelion-template-'));
  await (await startLife(chain, template, (parts) => parts)).stop();
  return {
    run: (life, change, hasFailed) => runCase({ chain, receiver, template }, life, change, hasFailed),
    descriptors: () => readdirSync('/proc/self/fd').length,
    async stop() {
      await receiver.close();
      await chain.stop();
      rmSync(template, { recursive: true, force: true });
    },
  };
}

const ahead: Change = (parts) => ({
  ...parts,
  clock: { ...parts.clock, now: () => parts.clock.now() + AHEAD_MS },
});

function startLife(chain: TestChain, dataDir: string, parts: Change): Promise<DaemonInProcess> {
  return startDaemon({
    chain,
    dataDir,
    parts,
    key: BOOTSTRAP_KEY,
    config: {
      log: { level: 'silent' },
      follow: { pollMs: 20, auditIntervalMs: 200 },
      jobs: { pollMs: 50 },
      upstream: { healthIntervalMs: 500 },
      lifecycle: { drainTimeoutMs: 1_000, stopTimeoutMs: 1_000 },
      webhooks: {
        allowCidrs: ['127.0.0.0/8'],
        autoDisable: { enabled: false },
        defaultPreset: 'compat',
        retry: { compat: { steps: Array.from({ length: 30 }, () => 0.1), timeoutMs: 5_000 } },
      },
    },
  });
}

interface Shared {
  readonly chain: TestChain;
  readonly receiver: Receiver;
  readonly template: string;
}

async function runCase(
  { chain, receiver, template }: Shared,
  life: 'first' | 'later',
  change: Change,
  hasFailed: () => boolean,
): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-port-'));
  const payments = startPayments(chain, 1, 20);
  const ledger = createDeliveryLedger(chain, receiver, payments);
  const [address] = payments.addresses as [string];
  const open = () =>
    openStore({ url: 'sqlite:', poolSize: 1, busyTimeoutMs: 5_000, statementTimeoutMs: 5_000 }, dataDir);
  try {
    if (life === 'later') cpSync(template, dataDir, { recursive: true });
    const faulty = await startLife(chain, dataDir, change).catch(() => null);
    if (faulty !== null) {
      // A failure that passes is got over, one that stays may refuse every try.
      for (let tries = 0, status = 0; tries < 5 && status !== 200; tries += 1)
        status = await ledger.create(faulty.apiUrl, [address]).catch(() => 0);
      const over = async () => {
        await sleep(FAULTY_MS);
        // On a busy machine the first delivery comes later.
        for (let waited = 0; !hasFailed() && waited < MAX_FAULTY_MS; waited += FAULTY_MS) await sleep(FAULTY_MS);
      };
      await Promise.race([over(), faulty.daemon.failed]);
      await faulty.stop();
    }
    await payments.pause();
    assert.equal(integrityOf(join(dataDir, 'parhelion.db')), 'ok');
    payments.resume();
    const whole = await startLife(chain, dataDir, ahead);
    assert.equal(await ledger.create(whole.apiUrl, [address]), 200);
    await sleep(60);
    await payments.stop();
    await ledger.settle(open, 60, () => `${payments.sent.get(address)?.length} payments`);
    await whole.stop();
    const store = await open();
    await ledger.check(store);
    await store.close();
    assert.equal(integrityOf(join(dataDir, 'parhelion.db')), 'ok');
  } finally {
    await payments.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}
