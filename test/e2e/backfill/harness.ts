/** A local chain, a receiver, and daemons with a webhook on one wallet; what happens between is the tests'. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import type { Store } from '../../../src/ports/store.ts';
import { openStore } from '../../../src/store/index.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type StartDaemonOptions, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

const KEY = 'backfill-test-key';
/** Those with a part in gaps; for suites that start many daemons and commands. */
export const FEW_PLUGINS = ['access', 'webhooks'];
/** Blocks after which one is final on the test chain. */
export const FINALITY = 4;

export interface Bed {
  readonly chain: TestChain;
  readonly receiver: Receiver;
  readonly dataDir: string;
  readonly wallet: string;
  options(more?: Partial<StartDaemonOptions>): StartDaemonOptions;
  /** A look into the store beside the daemons. */
  openStore(): Promise<Store>;
  /** A daemon in this process on the bed's folder. */
  start(more?: Partial<StartDaemonOptions>): Promise<TestDaemon>;
  /** Makes the webhook on the wallet. */
  watch(daemon: TestDaemon): Promise<void>;
  /** Payments to the wallet, a block each; answers their signatures. */
  pay(count: number): Promise<string[]>;
  tip(): Promise<number>;
  /** Signatures that came to the receiver, in the order of arrival. */
  received(): string[];
  /** Waits until the receiver has got these, each once, and nothing else. */
  expectReceived(signatures: readonly string[]): Promise<void>;
}

export async function makeBed(
  t: TestContext,
  database?: (t: TestContext) => Promise<{ readonly url: string }>,
  plugins?: readonly string[],
): Promise<Bed> {
  const chain = await startChain({ finalityDepth: FINALITY });
  const receiver = await startReceiver();
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-backfill-'));
  const daemons: TestDaemon[] = [];
  t.after(async () => {
    for (const daemon of daemons) await daemon.stop().catch(() => undefined);
    await receiver.close();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  // After the hook above, which has to come first: daemons end before their database does.
  const store = (await database?.(t))?.url;
  const wallet = Keypair.generate().publicKey.toBase58();
  let paid = 0;
  const options = (more: Partial<StartDaemonOptions> = {}): StartDaemonOptions => ({
    chain: { rpcUrl: chain.rpcUrl },
    dataDir,
    key: KEY,
    ...(store === undefined ? {} : { store }),
    ...more,
    config: {
      ...(plugins === undefined ? {} : { plugins }),
      webhooks: { allowCidrs: ['127.0.0.0/8'], ratePerSecond: 0 },
      ...more.config,
    },
  });
  const received = () =>
    receiver.received.flatMap(({ body }) =>
      (JSON.parse(body.toString()) as { transaction: { signatures: string[] } }[]).map(
        ({ transaction }) => transaction.signatures[0] as string,
      ),
    );
  return {
    chain,
    receiver,
    dataDir,
    wallet,
    options,
    received,
    openStore: () =>
      openStore({ url: store ?? 'sqlite:', poolSize: 1, busyTimeoutMs: 5_000, statementTimeoutMs: 5_000 }, dataDir),
    async start(more) {
      const daemon = await startDaemon(options(more));
      daemons.push(daemon);
      return daemon;
    },
    async watch({ apiUrl }) {
      const response = await fetch(`${apiUrl}/v0/webhooks?api-key=${KEY}`, {
        method: 'POST',
        body: JSON.stringify({ webhookType: 'raw', webhookURL: `${receiver.url}/`, accountAddresses: [wallet] }),
      });
      assert.equal(response.status, 200, await response.clone().text());
    },
    async pay(count) {
      const signatures: string[] = [];
      for (let made = 0; made < count; made += 1) {
        paid += 1;
        signatures.push(await chain.fund(wallet, 1_000_000 + paid));
      }
      return signatures;
    },
    tip: () => chain.connection.getSlot('confirmed'),
    async expectReceived(signatures) {
      for (let tries = 0; tries < 1_200 && received().length < signatures.length; tries += 1) await sleep(25);
      assert.deepEqual([...received()].sort(), [...signatures].sort());
    },
  };
}

/** Waits until it holds; a failure says what was seen last. */
export async function until<T>(look: () => Promise<T>, isRight: (seen: T) => boolean, tries = 800): Promise<T> {
  let seen = await look();
  for (let left = tries; left > 0 && !isRight(seen); left -= 1) {
    await sleep(25);
    seen = await look();
  }
  assert.ok(isRight(seen), `last seen: ${JSON.stringify(seen)}`);
  return seen;
}

export interface ListedGap {
  readonly id: string;
  readonly status: string;
  readonly reason: string;
  readonly fromSlot: number;
  readonly toSlot: number;
  readonly filledTo: number | null;
  readonly trouble: string | null;
}

export async function listGaps({ apiUrl }: TestDaemon): Promise<readonly ListedGap[]> {
  const response = await fetch(`${apiUrl}/v0/webhooks/gaps?api-key=${KEY}`);
  assert.equal(response.status, 200, await response.clone().text());
  return ((await response.json()) as { data: ListedGap[] }).data;
}
