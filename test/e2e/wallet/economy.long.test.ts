/** Every answer about a wallet is what the runtime says, whichever way the daemon came to know it. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon, startDaemonProcess, type TestDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import {
  type BalanceAtBody,
  type HistoryItem,
  type Page,
  type TransferItem,
  type WalletClient,
  walletClient,
} from '../../helpers/wallet-client.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';

const SOL = 'So11111111111111111111111111111111111111111';
const SEED = Number(process.env['TEST_SEED'] ?? 20_261_121);

const rawOf = (amount: number, decimals: number): bigint => BigInt(Math.round(amount * 10 ** decimals));

/** Waits until the blocks up to the newest are known. */
async function settled(client: WalletClient, economy: Economy): Promise<void> {
  const slot = Math.max(...economy.truth.keys());
  for (const startedMs = performance.now(); performance.now() - startedMs < 60_000; ) {
    const found = await Promise.all(
      economy.wallets.map((wallet) => client.get<BalanceAtBody>(`${wallet}/balance-at?mint=${SOL}&slot=${slot}`)),
    );
    const right = economy.wallets.every(
      (wallet, at) => found[at]?.balanceRaw === String(economy.truth.get(slot)?.get(wallet)?.get('SOL') ?? 0n),
    );
    if (right) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail('the newest balances did not arrive');
}

async function checkBalances(client: WalletClient, economy: Economy, most: number, seed: number): Promise<void> {
  const random = createSfc32(seed);
  const slots = [...economy.truth.keys()];
  for (let turn = 0; turn < most; turn += 1) {
    const slot = slots[random.below(slots.length)] as number;
    const wallet = economy.wallets[random.below(economy.wallets.length)] as string;
    const asked = [{ mint: SOL, name: 'SOL' }, ...economy.mints.map(({ mint }) => ({ mint, name: mint }))];
    const { mint, name } = asked[random.below(asked.length)] as { mint: string; name: string };
    const { balanceRaw } = await client.get<BalanceAtBody>(`${wallet}/balance-at?mint=${mint}&slot=${slot}`);
    const expected = economy.truth.get(slot)?.get(wallet)?.get(name) ?? 0n;
    assert.equal(balanceRaw, String(expected), `${wallet} ${name} at ${slot} (seed ${SEED})`);
  }
}

async function checkHistory(client: WalletClient, economy: Economy, wallet: string): Promise<void> {
  const newest = economy.truth.get(Math.max(...economy.truth.keys()))?.get(wallet) ?? new Map<string, bigint>();
  const whole = await client.all<HistoryItem>(`${wallet}/history?tokenAccounts=all`, 'before', [100]);
  const paged = await client.all<HistoryItem>(`${wallet}/history?tokenAccounts=all`, 'before', [1, 7, 3]);
  assert.deepEqual(paged, whole);
  assert.equal(new Set(whole.map(({ signature }) => signature)).size, whole.length);
  assert.deepEqual(
    whole.map(({ slot }) => slot),
    whole.map(({ slot }) => slot).toSorted((a, b) => b - a),
  );
  const oldest = whole.at(-1) as HistoryItem;
  const upwards: HistoryItem[] = [];
  for (let after: string | null = oldest.signature; after !== null; ) {
    const page: Page<HistoryItem> = await client.get(`${wallet}/history?tokenAccounts=all&limit=9&after=${after}`);
    upwards.push(...page.data);
    after = page.pagination.nextCursor;
  }
  assert.deepEqual(upwards, whole.slice(0, -1).toReversed());
  const changed = await client.all<HistoryItem>(`${wallet}/history`, 'before', [50]);
  const sums = new Map<string, bigint>();
  for (const { balanceChanges } of changed)
    for (const { mint, amount, decimals } of balanceChanges)
      sums.set(mint, (sums.get(mint) ?? 0n) + rawOf(amount, decimals));
  const withoutZeros = [...sums].filter(([, raw]) => raw !== 0n).toSorted();
  assert.deepEqual(withoutZeros, [...newest].toSorted(), `deltas of ${wallet} (seed ${SEED})`);
}

async function checkTransfers(client: WalletClient, economy: Economy, wallet: string): Promise<void> {
  const newest = economy.truth.get(Math.max(...economy.truth.keys()))?.get(wallet);
  const whole = await client.all<TransferItem>(`${wallet}/transfers`, 'cursor', [100]);
  for (const limits of [[1], [2, 5, 3]])
    assert.deepEqual(await client.all<TransferItem>(`${wallet}/transfers`, 'cursor', limits), whole);
  // Accounts of the first mint change hands, and wrapped SOL comes and goes without a transfer: the other two must add up.
  for (const { mint } of economy.mints.slice(1, 3)) {
    const sum = whole
      .filter((row) => row.mint === mint)
      .reduce((total, row) => total + BigInt(row.amountRaw) * (row.direction === 'in' ? 1n : -1n), 0n);
    assert.equal(sum, newest?.get(mint) ?? 0n, `transfers of ${mint} for ${wallet} (seed ${SEED})`);
  }
}

async function checkAll(daemon: TestDaemon, economy: Economy, seed: number): Promise<void> {
  const client = walletClient(daemon);
  await settled(client, economy);
  await checkBalances(client, economy, 120, seed);
  for (const wallet of economy.wallets) {
    await checkHistory(client, economy, wallet);
    await checkTransfers(client, economy, wallet);
  }
}

interface Scenario {
  /** PostgreSQL instead of SQLite. */
  readonly postgres?: boolean;
  /** Every wallet of every block is indexed. */
  readonly full?: boolean;
  /** A daemon in a separate process, which is killed while blocks arrive. */
  readonly kills?: boolean;
}

async function bed(t: TestContext, { postgres = false, full = false, kills = false }: Scenario, seed: number) {
  const chain = await startChain({ finalityDepth: 6 });
  const economy = await createEconomy(chain, seed);
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-economy-'));
  let stopLast = async (): Promise<unknown> => undefined;
  t.after(async () => {
    await stopLast();
    await chain.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  // Its database goes away after the daemon, in the order in which they were announced.
  const store = postgres ? (await postgresDatabase(t)).url : undefined;
  const options = {
    chain,
    dataDir,
    key: 'economy-key',
    ...(store === undefined ? {} : { store }),
    // Two wallets are followed from the start, the others are met on the way.
    config: { plugins: ['access', 'token-metadata', 'wallet'], wallet: { full, follow: economy.wallets.slice(0, 2) } },
  };
  const start = (): Promise<TestDaemon> => (kills ? startDaemonProcess(options) : startDaemon(options));
  let daemon = await start();
  stopLast = () => daemon.stop();
  return {
    chain,
    economy,
    daemon: () => daemon,
    stop: () => daemon.stop(),
    async kill() {
      await daemon.kill();
      daemon = await start();
    },
    async start() {
      daemon = await start();
    },
  };
}

async function restartAndFork(t: TestContext, scenario: Scenario, seed: number): Promise<void> {
  const { chain, economy, daemon, start, stop } = await bed(t, scenario, seed);
  await economy.run(20);
  await walletClient(daemon()).get(`${economy.wallets[2]}/history`);
  await economy.run(20);
  await checkAll(daemon(), economy, seed + 1);

  await stop();
  await economy.run(5);
  await start();
  await economy.run(10);
  await checkAll(daemon(), economy, seed + 2);

  const { commonAncestor } = await chain.fork({ depth: 3, replay: 'reverse', extraBlocks: 1 });
  for (const slot of economy.truth.keys()) if (slot > commonAncestor) economy.truth.delete(slot);
  await economy.note();
  await economy.run(3);
  await checkAll(daemon(), economy, seed + 3);
}

const missing = await chainMissing();
const skip = missing ?? false;

test('balances, history and transfers are those of the runtime, also after a restart and a fork', { skip }, (t) =>
  restartAndFork(t, {}, SEED),
);

test('the same on PostgreSQL', { skip }, (t) => restartAndFork(t, { postgres: true }, SEED + 100));

test('the same where every wallet of every block is indexed', { skip }, (t) =>
  restartAndFork(t, { full: true }, SEED + 200),
);

test('the same when the daemon is killed again and again while blocks arrive and wallets are indexed', {
  skip,
}, async (t) => {
  const { economy, daemon, kill } = await bed(t, { kills: true }, SEED + 300);
  const random = createSfc32(SEED + 300);
  await economy.run(5);
  for (const wallet of [...economy.wallets.slice(2), economy.wallets[0]]) {
    const running = economy.run(10);
    // The job of a new wallet has started, is about to start, or has finished.
    const asked = walletClient(daemon())
      .ask(`${wallet}/history`)
      .catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, random.below(150)));
    await kill();
    await Promise.all([running, asked]);
  }
  await checkAll(daemon(), economy, SEED + 301);
});
