import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LocalChainOptions } from '../../packages/local-chain/index.ts';
import type { Store } from '../../src/ports/store.ts';
import { openStore } from '../../src/store/index.ts';
import { type BuiltDaemon, type BuiltDaemonOptions, startBuiltDaemon } from './built-daemon.ts';
import { startChain, type TestChain } from './chain.ts';
import { createDeliveryLedger, type DeliveryLedger } from './delivery-ledger.ts';
import { type Payments, startPayments } from './payments.ts';
import { type Receiver, startReceiver } from './receiver.ts';

type Start = Omit<BuiltDaemonOptions, 'configFile' | 'dataDir'>;

/** A busy local chain, a receiver of webhooks, and built daemons that may end in any way between them. */
export interface WorkBed {
  readonly chain: TestChain;
  readonly receiver: Receiver;
  readonly payments: Payments;
  readonly ledger: DeliveryLedger;
  readonly dataDir: string;
  readonly configFile: string;
  start(options?: Start): BuiltDaemon;
  /** A second look into the store, beside the daemon or without it. */
  openStore(): Promise<Store>;
  /** Kills what still runs and removes everything. */
  stop(): Promise<void>;
}

export interface WorkBedOptions {
  /** Default: SQLite in the data folder. */
  readonly store?: string;
  /** Where the daemon reaches the store, when that is not where the test does. */
  readonly daemonStore?: string;
  readonly dataDir?: string;
  readonly wallets?: number;
  readonly payEveryMs?: number;
  /** How long the receiver takes to answer: long enough that kills hit deliveries under way. */
  readonly receiverMs?: number;
  /** Light assets of the local chain; default: no Light programs. */
  readonly lightAssets?: LocalChainOptions['lightAssets'];
  /** Sections of the configuration beside those of the bed. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export async function startWorkBed(options: WorkBedOptions = {}): Promise<WorkBed> {
  const { wallets = 3, payEveryMs = 100, receiverMs = 60, store = 'sqlite:', lightAssets = false } = options;
  const chain = await startChain({ slotMs: 200, time: { kind: 'wall' }, lightAssets });
  const receiver = await startReceiver();
  receiver.setFallback({ kind: 'answer', status: 200, delayMs: receiverMs });
  const payments = startPayments(chain, wallets, payEveryMs);
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'parhelion-work-'));
  const configFile = join(mkdtempSync(join(tmpdir(), 'parhelion-config-')), 'parhelion.yaml');
  const config = {
    dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    upstream: { urls: [{ url: chain.rpcUrl, websocketUrl: chain.wsUrl }] },
    // One indexer needs no long lease, and one that was killed is replaced soon.
    follow: { pollMs: 100, leaseMs: 300 },
    log: { level: 'info', format: 'json' },
    lifecycle: { drainTimeoutMs: 5_000 },
    store: { url: options.daemonStore ?? store },
    webhooks: {
      allowCidrs: ['127.0.0.0/8'],
      ratePerSecond: 0,
      autoDisable: { enabled: false },
      // Without the long pause after a time-out: a busy machine makes one now and then.
      defaultPreset: 'compat',
      retry: { compat: { steps: Array.from({ length: 40 }, () => 1), timeoutMs: 4_000 } },
      // The lease of a delivery that a killed process held counts until it runs out.
      concurrency: { perWebhook: 64 },
    },
    ...options.config,
  };
  writeFileSync(configFile, JSON.stringify(config));
  const daemons: BuiltDaemon[] = [];
  return {
    chain,
    receiver,
    payments,
    dataDir,
    configFile,
    ledger: createDeliveryLedger(chain, receiver, payments),
    start(start = {}) {
      const daemon = startBuiltDaemon({ configFile, dataDir, ...start });
      daemons.push(daemon);
      return daemon;
    },
    openStore: () => openStore({ url: store, poolSize: 2, busyTimeoutMs: 5_000, statementTimeoutMs: 30_000 }, dataDir),
    async stop() {
      await payments.stop();
      for (const daemon of daemons) await daemon.kill('SIGKILL');
      await receiver.close();
      await chain.stop();
      rmSync(join(configFile, '..'), { recursive: true, force: true });
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
