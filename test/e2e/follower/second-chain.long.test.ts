import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from './harness.ts';

const address = Keypair.generate().publicKey.toBase58();
const key = 'second-chain-test';
const PATHS = ['/main', '/devnet'] as const;
type Path = (typeof PATHS)[number];

interface Ready {
  readonly ready: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
  readonly chain: readonly { readonly chain: string; readonly cursorSlot: number; readonly genesisHash: string }[];
}
type Delivered = [{ transaction: { signatures: [string] } }];

describe('a second chain beside the main one, in one daemon process', { skip: (await chainMissing()) ?? false }, () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-second-chain-'));
  let main: TestChain;
  let devnet: TestChain;
  let receiver: Receiver;
  let daemon: DaemonProcess;
  /** Signatures that have to arrive. */
  const expected: Record<Path, string[]> = { '/main': [], '/devnet': [] };

  const start = async () => {
    const devnetUrls = [{ url: devnet.rpcUrl, websocketUrl: devnet.wsUrl }];
    daemon = await startDaemonProcess({
      chain: main,
      dataDir,
      key,
      config: {
        upstream: { devnet: { urls: devnetUrls }, healthIntervalMs: 200, coolDownMs: 300 },
        follow: { stalledAfterSeconds: 1 },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      },
    });
  };
  const watch = async (webhookType: string, path: Path) => {
    const hook = { webhookURL: receiver.url + path, webhookType, accountAddresses: [address] };
    const { status, body } = await apiOf(daemon.apiUrl, key)('POST', '/v0/webhooks', hook);
    assert.equal(status, 200, JSON.stringify(body));
  };
  const pay = async (chain: TestChain, path: Path, lamports: number) =>
    void expected[path].push(await chain.fund(address, lamports));
  /** Once each: what was on its way when the daemon was killed comes again, with the same id. */
  const arrived = (path: Path) =>
    [...new Map(receiver.received.map((request) => [request.headers['webhook-id'], request])).values()]
      .filter(({ url }) => url === path)
      .map(({ body }) => (JSON.parse(String(body)) as Delivered)[0].transaction.signatures[0]);
  const settles = async (paths: readonly Path[] = PATHS) => {
    await until(() => paths.every((path) => arrived(path).length >= expected[path].length));
    for (const path of paths) assert.deepEqual(arrived(path).toSorted(), expected[path].toSorted(), path);
  };
  const readiness = async () => {
    const response = await fetch(`${daemon.adminUrl}/readyz`);
    return { status: response.status, ...((await response.json()) as Ready) };
  };
  const checkOf = (ready: Ready, chain: string) => ready.checks.find(({ name }) => name === `chain ${chain}`)!;

  before(async () => {
    main = await startChain({ seed: 'main' });
    devnet = await startChain({ seed: 'second', firstSlot: 1_500 });
    receiver = await startReceiver();
    await start();
    await watch('raw', '/main');
    await watch('rawDevnet', '/devnet');
  });
  after(async () => {
    await daemon?.stop();
    await receiver?.close();
    await main?.stop();
    await devnet?.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  test('each chain fires its own webhooks only, and each delivery names its network', async () => {
    await pay(main, '/main', 1_000_000);
    await settles();
    await pay(devnet, '/devnet', 2_000_000);
    await settles();
    const networks = receiver.received.map(({ url, headers }) => [url, headers['x-parhelion-network']]);
    assert.deepEqual(networks, [
      ['/main', 'mainnet'],
      ['/devnet', 'devnet'],
    ]);
  });

  test('cursor, identity and metrics are kept for each chain', async () => {
    await until(async () => (await readiness()).chain.every(({ cursorSlot }) => cursorSlot !== null));
    const { chain } = await readiness();
    assert.deepEqual(
      chain.map((one) => [one.chain, one.genesisHash]),
      [
        ['main', main.genesisHash],
        ['devnet', devnet.genesisHash],
      ],
    );
    assert.ok(chain[0]!.cursorSlot < 1_500 && chain[1]!.cursorSlot >= 1_500);
    const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    // Read a moment later, on chains that go on.
    for (const [area, { cursorSlot }] of [
      ['follow', chain[0]!],
      ['follow_devnet', chain[1]!],
    ] as const) {
      const slot = new RegExp(`^parhelion_${area}_cursor_slot(?:\\{[^}]*\\})? (\\d+)$`, 'm').exec(metrics)?.[1];
      assert.ok(Number(slot) >= cursorSlot && Number(slot) < cursorSlot + 1_000, `${area}: ${slot}, ${cursorSlot}`);
    }
  });

  test('the same signature on both chains is two deliveries', async () => {
    const signature = await main.fund(Keypair.generate().publicKey.toBase58(), 3_000_000);
    const params = [signature, { encoding: 'base64', commitment: 'confirmed' }];
    const response = await fetch(main.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getTransaction', params }),
    });
    const { result } = (await response.json()) as { result: { transaction: [string, string]; meta: object } };
    // The record says that the watched address owns a token of it, so that both chains match the very same transaction.
    const owned = {
      accountIndex: 0,
      mint: address,
      owner: address,
      programId: address,
      uiTokenAmount: { amount: '1', decimals: 0, uiAmount: 1, uiAmountString: '1' },
    };
    const recorded = { transaction: result.transaction, meta: { ...result.meta, postTokenBalances: [owned] } };
    await devnet.appendRecorded(recorded);
    expected['/devnet'].push(signature);
    await settles();
    await main.fork({ depth: 1, replay: 'none', extraBlocks: 1 });
    await main.appendRecorded(recorded);
    expected['/main'].push(signature);
    await settles();
  });

  test('a fork of one chain leaves the other alone', async () => {
    const before = await main.connection.getSlot();
    const mainCursor = async () => (await readiness()).chain[0]!.cursorSlot;
    await until(async () => (await mainCursor()) === before);
    await pay(devnet, '/devnet', 4_000_000);
    await settles();
    await devnet.fork({ depth: 1, replay: 'all', extraBlocks: 2 });
    await pay(devnet, '/devnet', 5_000_000);
    await settles();
    assert.equal(await mainCursor(), before);
  });

  test('the second chain is down: it says so, the main one goes on and the daemon stays ready', async () => {
    devnet.faults.set([{ action: 'status', status: 503, body: 'html' }]);
    await until(async () => !checkOf(await readiness(), 'devnet').ok);
    const down = await readiness();
    assert.deepEqual([down.status, down.ready, checkOf(down, 'main').ok], [200, true, true]);
    assert.match(checkOf(down, 'devnet').detail, /no upstream answers/);
    await pay(main, '/main', 7_000_000);
    await settles(['/main']);
    devnet.faults.clear();
    await pay(devnet, '/devnet', 6_000_000);
    await settles();
    await until(async () => checkOf(await readiness(), 'devnet').ok);
    assert.equal(checkOf(await readiness(), 'devnet').ok, true);
  });

  test('the main chain is down: not ready, and the second one goes on', async () => {
    main.faults.set([{ action: 'status', status: 503, body: 'html' }]);
    await until(async () => !checkOf(await readiness(), 'main').ok);
    const down = await readiness();
    assert.deepEqual([down.status, down.ready, checkOf(down, 'devnet').ok], [503, false, true]);
    await pay(devnet, '/devnet', 8_000_000);
    await settles(['/devnet']);
    main.faults.clear();
    await pay(main, '/main', 9_000_000);
    await settles();
    await until(async () => (await readiness()).ready);
    assert.equal((await readiness()).ready, true);
  });

  for (const way of ['stop', 'kill'] as const) {
    test(`after a ${way} both chains go on where they stood`, async () => {
      await daemon[way]();
      for (let count = 0; count < 3; count += 1) {
        await pay(main, '/main', 10_000_000 + count);
        await pay(devnet, '/devnet', 20_000_000 + count);
      }
      await start();
      await settles();
      await pay(main, '/main', 30_000_000);
      await pay(devnet, '/devnet', 40_000_000);
      await settles();
    });
  }
});
