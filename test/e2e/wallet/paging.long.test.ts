/** Pages are stable while blocks arrive, and a dropped wallet is complete when it is requested again. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { type HistoryItem, type Page, type TransferItem, walletClient } from '../../helpers/wallet-client.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';

const SEED = Number(process.env['TEST_SEED'] ?? 20_261_123);
const DAY_MS = 86_400_000;
const skip = (await chainMissing()) ?? false;

async function bed(t: TestContext, seed: number) {
  const chain = await startChain({ finalityDepth: 6 });
  const economy = await createEconomy(chain, seed);
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-paging-'));
  let shiftMs = 0;
  const start = (): Promise<DaemonInProcess> =>
    startDaemon({
      chain,
      dataDir,
      key: 'paging-key',
      config: { plugins: ['access', 'token-metadata', 'wallet'] },
      parts: (parts) => ({ ...parts, clock: { ...parts.clock, now: () => parts.clock.now() + shiftMs } }),
    });
  let daemon = await start();
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  return {
    chain,
    economy,
    client: () => walletClient(daemon),
    /** What operators see of a wallet. */
    async shown(address: string) {
      const response = await fetch(`${daemon.adminUrl}/v0/admin/wallets`);
      const { wallets } = (await response.json()) as {
        wallets: { address: string; followed: boolean; state: string; toSlot: number; transactions: number }[];
      };
      return wallets.find((wallet) => wallet.address === address);
    },
    async restartLater(laterMs: number) {
      await daemon.stop();
      shiftMs += laterMs;
      daemon = await start();
    },
  };
}

test('pages that are read while blocks arrive are those of the first one', { skip }, async (t) => {
  const { economy, client } = await bed(t, SEED);
  await economy.run(25);
  for (const wallet of economy.wallets) {
    let isReading = true;
    const keepRunning = async () => {
      while (isReading) await economy.run(1);
    };
    const running = keepRunning();
    /** Page by page with limits in turn. */
    const read = async <T>(path: string, name: string): Promise<T[]> => {
      const items: T[] = [];
      for (let cursor: string | null = '', turn = 1; cursor !== null; turn += 1) {
        const more: string = cursor === '' ? '' : `&${name}=${cursor}`;
        const page: Page<T> = await client().get(`${wallet}/${path}?limit=${1 + (turn % 3)}${more}`);
        items.push(...page.data);
        cursor = page.pagination.nextCursor;
      }
      return items;
    };
    const [history, transfers] = await Promise.all([
      read<HistoryItem>('history', 'before'),
      read<TransferItem>('transfers', 'cursor'),
    ]).finally(() => {
      isReading = false;
    });
    await running;
    const later = await client().all<HistoryItem>(`${wallet}/history`, 'before', [100]);
    const laterTransfers = await client().all<TransferItem>(`${wallet}/transfers`, 'cursor', [100]);
    assert.ok(history.length > 0 && later.length > history.length, 'blocks came while pages were read');
    assert.deepEqual(history, later.slice(later.length - history.length), `${wallet} (seed ${SEED})`);
    assert.deepEqual(
      transfers,
      laterTransfers.slice(laterTransfers.length - transfers.length),
      `${wallet} (seed ${SEED})`,
    );
  }
});

test('a wallet without requests is dropped, and is complete when it is requested again', { skip }, async (t) => {
  const { chain, economy, client, shown, restartLater } = await bed(t, SEED + 1);
  const [idle = '', asked = ''] = economy.wallets;
  await economy.run(20);
  for (const wallet of [idle, asked]) await client().get(`${wallet}/history`);
  await chain.seal(12);
  type Shown = NonNullable<Awaited<ReturnType<typeof shown>>>;
  const until = async (address: string, test: (wallet: Shown) => boolean) => {
    for (const startedMs = performance.now(); ; ) {
      const wallet = await shown(address);
      if (wallet !== undefined && test(wallet)) return;
      assert.ok(performance.now() - startedMs < 60_000, JSON.stringify(wallet));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  // Without another request.
  await until(idle, ({ followed, state }) => followed && state === 'complete, current');
  await restartLater(20 * DAY_MS);
  await client().get(`${asked}/history`);
  await economy.run(10);
  await restartLater(20 * DAY_MS);
  await until(idle, ({ followed }) => !followed);
  assert.equal((await shown(asked))?.followed, true);
  // These are not recorded for the wallet.
  await economy.run(10);
  const whole = await client().all<HistoryItem>(`${idle}/history?tokenAccounts=all`, 'before', [7]);
  await until(idle, ({ followed }) => followed);
  await economy.run(5);
  await chain.seal(12);
  const then = await client().all<HistoryItem>(`${idle}/history?tokenAccounts=all`, 'before', [100]);
  // What came with blocks counts as indexed.
  await until(idle, ({ toSlot }) => toSlot >= then[0]!.slot);
  await until(idle, ({ transactions }) => transactions >= then.length);
  assert.deepEqual(then.slice(then.length - whole.length), whole);
  const sum = then
    .flatMap(({ balanceChanges }) => balanceChanges)
    .filter(({ mint }) => mint === 'SOL')
    .reduce((total, { amount }) => total + BigInt(Math.round(amount * 1e9)), 0n);
  const slot = await economy.note();
  assert.equal(sum, economy.truth.get(slot)?.get(idle)?.get('SOL') ?? 0n, `seed ${SEED}`);
});
