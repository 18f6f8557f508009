/**
 * A daemon whose only upstream is gone: it refuses connections, or takes them and never answers. All that was released before is answered at
 * every commitment as a node with these blocks answers, however long the silence lasts and after a restart; readiness gives the reason.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { NATIVE_SOL_MINT } from '../../../src/solana/programs.ts';
import { BOOTSTRAP_KEY, type BuiltDaemon, startBuiltDaemon } from '../../helpers/built-daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { createSteppedClock, type SteppedClock } from '../../helpers/stepped-clock.ts';
import { until } from '../../helpers/until.ts';
import { type WalletClient, walletClient } from '../../helpers/wallet-client.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';

const SEED = 71;
const HOUR_MS = 3_600_000;
const COMMITMENTS = ['confirmed', 'finalized'] as const;
const NOT_AVAILABLE = -32002;
const plugins = ['access', 'proxy', 'token-metadata', 'wallet', 'history'];
const follow = { pollMs: 50, auditIntervalMs: 100 };

type Call = readonly [method: string, params: readonly unknown[]];
interface Reply {
  readonly result?: unknown;
  readonly error?: { readonly code: number };
}
interface Readiness {
  readonly ready: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
  readonly chain: readonly { readonly cursorSlot: number | null; readonly finalizedSlot: number | null }[];
}

async function post(url: string, [method, params]: Call): Promise<Reply> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  return (await (await fetch(url, { method: 'POST', headers, body })).json()) as Reply;
}

/** A built daemon that is asked over HTTP, behind a proxy that can break off. */
interface Bed {
  readonly chain: TestChain;
  readonly proxy: FaultProxy;
  readonly clock: SteppedClock;
  /** A daemon of the same chain whose upstream stays. */
  readonly control: DaemonInProcess;
  output(): string;
  start(): Promise<void>;
  stop(): Promise<void>;
  ask(call: Call): Promise<Reply>;
  readiness(): Promise<Readiness>;
  wallets(): WalletClient;
}

async function startBed(t: TestContext): Promise<Bed> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-gone-'));
  const chain = await startChain();
  const proxy = await startFaultProxy(Number(new URL(chain.rpcUrl).port));
  const configFile = join(dataDir, 'config.yaml');
  const clock = createSteppedClock(join(dataDir, 'clock'));
  const upstream = { urls: [{ url: `http://127.0.0.1:${proxy.port}` }] };
  const quiet = { http: { port: 0 }, admin: { port: 0 }, log: { level: 'warn', format: 'json' } };
  const ledger = { retain: { hours: 24 } };
  writeFileSync(configFile, JSON.stringify({ dataDir, ...quiet, follow, ledger, plugins, upstream }));
  let daemon: BuiltDaemon | null = null;
  let at = { api: '', admin: '' };
  const control = await startDaemon({ chain, config: { plugins, follow } });
  t.after(async () => {
    await daemon?.kill('SIGKILL');
    await control.stop();
    await proxy.close();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    chain,
    proxy,
    clock,
    control,
    output: () => daemon!.output(),
    async start() {
      daemon = startBuiltDaemon({ configFile, dataDir, env: clock.env });
      at = await daemon.ready();
    },
    stop: () => daemon!.kill('SIGTERM'),
    ask: (call) => post(`${at.api}/?api-key=${BOOTSTRAP_KEY}`, call),
    readiness: async () => (await (await fetch(`${at.admin}/readyz`)).json()) as Readiness,
    wallets: () => walletClient({ apiUrl: at.api, key: BOOTSTRAP_KEY }),
  };
}

/** Without the slot at which a node answers. */
const shownIn = ({ result }: Reply): unknown =>
  result !== null && typeof result === 'object' && 'value' in result ? result.value : result;

/** Calls about blocks and single transactions of the whole chain, and the newest pages of lists. */
async function standardCalls({ chain }: Bed, wallets: readonly string[], tip: number): Promise<readonly Call[]> {
  const slots = (await post(chain.rpcUrl, ['getBlocks', [0, tip, { commitment: 'confirmed' }]])).result as number[];
  const [first, last] = [slots[0]!, slots.at(-1)!];
  const newest = await post(chain.rpcUrl, ['getSignaturesForAddress', [wallets[0], { commitment: 'confirmed' }]]);
  const rows = newest.result as readonly { readonly signature: string }[];
  const shown = { maxSupportedTransactionVersion: 1 };
  const ofCommitment = COMMITMENTS.flatMap((commitment): Call[] => [
    ...wallets.flatMap((address): Call[] => [
      ['getSignaturesForAddress', [address, { commitment }]],
      ['getSignaturesForAddress', [address, { commitment, limit: 3 }]],
    ]),
    ['getBlocks', [first, { commitment }]],
    ['getBlocks', [slots[5], last, { commitment }]],
    ['getBlocksWithLimit', [first, 1_000, { commitment }]],
    ['getBlock', [first, { commitment, ...shown }]],
    ['getSlot', [{ commitment }]],
    ['getBlockHeight', [{ commitment }]],
  ]);
  return [
    ...ofCommitment,
    ['getSlot', []],
    ['getBlock', [slots.at(-2), { commitment: 'confirmed', ...shown }]],
    ['getBlock', [last, { commitment: 'confirmed', ...shown }]],
    ['getBlockTime', [last]],
    ...[rows[0]!, rows[1]!, rows.at(-1)!].flatMap(({ signature }): Call[] => [
      ['getTransaction', [signature, { commitment: 'confirmed', ...shown }]],
      ['getSignatureStatuses', [[signature]]],
      ['getSignatureStatuses', [[signature], { searchTransactionHistory: true }]],
    ]),
  ];
}

const historyCalls = (address: string): readonly Call[] => [
  ...COMMITMENTS.flatMap((commitment) =>
    ['desc', 'asc'].map((sortOrder): Call => ['getTransactionsForAddress', [address, { commitment, sortOrder }]]),
  ),
  ['getTransactionsForAddress', [address, { limit: 7, filters: { tokenAccounts: 'balanceChanged' } }]],
  ['getTransfersByAddress', [address, { commitment: 'confirmed', mint: NATIVE_SOL_MINT }]],
];

/** The answer, once the index of the address covers it. */
async function indexed(ask: (call: Call) => Promise<Reply>, call: Call): Promise<unknown> {
  let reply = await ask(call);
  const isAnswered = async () => {
    if (reply.error?.code === NOT_AVAILABLE) reply = await ask(call);
    return reply.error?.code !== NOT_AVAILABLE;
  };
  await until(isAnswered, 'an index').catch(() => undefined);
  assert.equal(reply.error, undefined, `${JSON.stringify(call)}: ${JSON.stringify(reply.error)}`);
  return reply.result;
}

suite('without the only upstream', { skip: (await chainMissing()) ?? false }, () => {
  for (const how of ['refuses', 'hangs'] as const)
    test(`what was released is answered while it ${how}, an hour later, and after a restart`, async (t) => {
      const bed = await startBed(t);
      const { chain, proxy, clock, control } = bed;
      await bed.start();
      // It follows from the first block on.
      const firstSlot = await chain.connection.getSlot();
      await until(async () => (await bed.readiness()).chain[0]?.cursorSlot === firstSlot);
      // Wallets without tokens.
      const plain = Array.from({ length: 3 }, () => Keypair.generate().publicKey.toBase58());
      const pay = async () => {
        for (const [at, address] of plain.entries()) await chain.fund(address, 1_000_000 * (at + 1));
      };
      const economy = await createEconomy(chain, SEED);
      await pay();
      await economy.run(20);
      await chain.fork({ depth: 3, replay: 'all' });
      await economy.run(10);
      await pay();
      await economy.run(10);
      const ofNode = (call: Call) => post(chain.rpcUrl, call);
      const tip = (await ofNode(['getSlot', [{ commitment: 'confirmed' }]])).result as number;
      const finalSlot = (await ofNode(['getSlot', []])).result as number;
      await until(async () => {
        const [state] = (await bed.readiness()).chain;
        return state?.cursorSlot === tip && state.finalizedSlot === finalSlot;
      });
      const ofControl = (call: Call) => post(`${control.apiUrl}/?api-key=${control.key}`, call);
      const [asked, ...others] = economy.wallets as [string, string, string, string];
      // One address is followed before; nobody has asked for the others.
      await indexed(bed.ask, ['getTransactionsForAddress', [asked]]);
      const calls = await standardCalls(bed, economy.wallets, tip);

      if (how === 'refuses') await proxy.close();
      else proxy.set({ up: { blackhole: true }, down: { blackhole: true } });
      const check = async (addresses: readonly string[]) => {
        await until(async () => {
          const { ready, checks } = await bed.readiness();
          const { ok, detail } = checks.find(({ name }) => name === 'chain main')!;
          return !ready && !ok && detail.includes('no upstream answers');
        });
        const equal = async (call: Call) => {
          const reply = await bed.ask(call);
          const facts = `${JSON.stringify(call)}: ${JSON.stringify(reply.error)}`;
          assert.deepEqual(shownIn(reply), shownIn(await ofNode(call)), facts);
        };
        await Promise.all(calls.map(equal));
        const unborn = await bed.ask(['getBlock', [tip, { maxSupportedTransactionVersion: 1 }]]);
        assert.equal(unborn.error?.code, NOT_AVAILABLE, 'it is not final yet');
        const histories = addresses.map(async (address) => {
          for (const call of historyCalls(address))
            assert.deepEqual(await indexed(bed.ask, call), await indexed(ofControl, call), JSON.stringify(call));
          for (const path of [`${address}/history`, `${address}/transfers`]) {
            const { status, body } = await bed.wallets().ask(path);
            if (status === 200) assert.deepEqual(body, await walletClient(control).get(path), path);
            // How amounts of a token are shown stands in its mint, which only a node has.
            else assert.match(JSON.stringify(body), /how amounts of a token are shown/);
            assert.ok(status === 200 || !plain.includes(address), path);
          }
        });
        await Promise.all(histories);
      };
      await check([asked, others[0]!, plain[0]!]);
      clock.set(HOUR_MS);
      await until(() => bed.output().includes(clock.said(HOUR_MS)));
      await check([asked, others[1]!, plain[1]!]);
      await bed.stop();
      await bed.start();
      await check([asked, others[2]!, plain[2]!]);
    });
});
