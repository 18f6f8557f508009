import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, PublicKey, SystemProgram } from '@solana/web3.js';
import { loadClientPackage } from '../../../src/adapters/chain/geyser/block-stream.ts';
import { rpcFormOf, type StreamBlock } from '../../../src/adapters/chain/geyser/rpc-form.ts';

import { decodeBlock, decodeBlockText } from '../../../src/solana/decode/decode-block.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { cliArguments, startDaemonProcess } from '../../helpers/daemon.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import {
  blockUpdate,
  type Geyser,
  GRPC_INTERNAL,
  GRPC_OUT_OF_RANGE,
  geyserMissing,
  SLOT_DEAD,
  type Subscription,
  startGeyser,
} from '../../helpers/geyser.ts';
import { normalForm } from '../../helpers/normal-form.ts';
import { GEYSER_DIR } from '../../helpers/packages.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { sendVersion1 } from '../../helpers/version-1.ts';
import { blockText, type World, type WorldBlock } from '../../simulation/follower/world.ts';
import { type BedOptions, createBed, grow, type Running, settles, until } from './harness.ts';

const skip = geyserMissing() ?? false;

const updateOf = (block: WorldBlock) => blockUpdate(block.slot, JSON.parse(blockText(block)));
const pushAll = (subscription: Subscription | undefined, blocks: readonly WorldBlock[]) => {
  for (const block of blocks) subscription?.push(updateOf(block));
};

async function streamBed(t: TestContext, options: BedOptions = {}) {
  const geyser = await startGeyser();
  t.after(() => geyser.stop());
  const bed = await createBed(t, { ...options, streamUrl: geyser.url });
  return { ...bed, geyser };
}

const metric = async (running: Running, name: string) =>
  Number(new RegExp(`^parhelion_follow_${name} (\\S+)$`, 'm').exec(await running.metrics())?.[1]);
const leads = async (running: Running) => (await metric(running, 'stream_leading')) === 1;
const opened = async (geyser: Geyser) => {
  await until(() => geyser.open().length > 0);
  return geyser.open().at(-1)!;
};

/** Lets the world grow and pushes each block, until the stream leads. */
async function takeOver(world: World, geyser: Geyser, running: Running): Promise<Subscription> {
  let subscription = await opened(geyser);
  let hasLed = false;
  await until(async () => {
    subscription = geyser.open().at(-1) ?? subscription;
    world.grow(0, 2);
    pushAll(subscription, world.chain.slice(-1));
    await sleep(5);
    hasLed = await leads(running);
    return hasLed;
  }, 300);
  // Not asked again: a busy machine's pause is a silence of the stream to a clock that runs ahead of real time.
  assert.equal(hasLed, true);
  return subscription;
}

describe('the stream of blocks', { skip }, () => {
  test('it takes over: blocks are released from it, and polling only looks at the tip', async (t) => {
    const { world, geyser, nodes, store, follow } = await streamBed(t);
    grow(world, 5);
    const running = await follow();
    await settles({ world, store });
    const subscription = await takeOver(world, geyser, running);
    assert.equal(subscription.token, 'token-of-the-stream');
    assert.ok(subscription.fromSlot === null || subscription.fromSlot >= world.chain[0]!.slot);
    const asked = () =>
      nodes[0]!.server.calls.filter(
        ({ method, params }) =>
          method === 'getBlocks' ||
          (method === 'getBlock' &&
            (params as [number, { transactionDetails: string }])[1].transactionDetails === 'full'),
      ).length;
    await settles({ world, store });
    // Calls that were on their way when the stream took over.
    await sleep(50);
    world.grow(0, 1);
    pushAll(subscription, world.chain.slice(-1));
    await settles({ world, store });
    let rounds = 0;
    let streamed = 0;
    // A pause of a busy machine is a silence of the stream to this clock: then polling releases a block.
    for (; streamed < 30 && rounds < 60; rounds += 1) {
      const before = asked();
      world.grow(rounds % 4 === 0 ? 3 : 0, rounds % 3);
      pushAll(subscription, world.chain.slice(-1));
      await settles({ world, store });
      if (asked() === before) streamed += 1;
    }
    assert.equal(streamed, 30, `${streamed} of ${rounds} blocks came from the stream alone`);
    await until(() => leads(running), 300);
    assert.equal(await leads(running), true);
  });

  test('a wrong parent: polling takes over, and the stream again later', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    grow(world, 3);
    const running = await follow();
    const subscription = await takeOver(world, geyser, running);
    world.fork(3);
    grow(world, 6);
    pushAll(subscription, world.chain.slice(-2));
    await settles({ world, store });
    // One block was left out: the next one does not continue the cursor.
    grow(world, 2);
    pushAll(subscription, world.chain.slice(-1));
    await settles({ world, store });
    await takeOver(world, geyser, running);
    await settles({ world, store });
  });

  test('silence without an end: polling takes over, and a new subscription is made', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    grow(world, 3);
    const running = await follow();
    const subscription = await takeOver(world, geyser, running);
    grow(world, 5);
    await settles({ world, store });
    assert.equal(await leads(running), false);
    await until(() => geyser.subscriptions.length > 1 && !subscription.isOpen());
    assert.equal(subscription.isOpen(), false);
    await takeOver(world, geyser, running);
  });

  test('a stream that is behind the tip: polling takes over', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    grow(world, 3);
    const running = await follow();
    const subscription = await takeOver(world, geyser, running);
    const late = world.chain.length;
    grow(world, 40);
    // It goes on, far too slowly to be silent or to be in time.
    const timer = setInterval(() => pushAll(subscription, world.chain.slice(late, late + 1)), 20);
    t.after(() => clearInterval(timer));
    await settles({ world, store });
    assert.equal(await leads(running), false);
  });

  test('a replay that gives nothing and goes on at the head', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    grow(world, 3);
    const running = await follow();
    await settles({ world, store });
    const first = await opened(geyser);
    first.end(GRPC_INTERNAL, 'restart');
    grow(world, 30);
    const second = await opened(geyser);
    pushAll(second, world.chain.slice(-1));
    await settles({ world, store });
    await takeOver(world, geyser, running);
  });

  test('OUT_OF_RANGE: the next subscription asks for no replay, and polling fills what is between', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    geyser.onSubscribe((subscription) => {
      if (subscription.fromSlot !== null)
        subscription.end(GRPC_OUT_OF_RANGE, 'broadcast from 100 is not available, last available: 130');
    });
    grow(world, 10);
    const running = await follow();
    await settles({ world, store });
    await until(() => geyser.subscriptions.some(({ fromSlot }) => fromSlot === null));
    await takeOver(world, geyser, running);
    assert.match(await running.metrics(), /stream_ends_total\{reason="out-of-range"\}|stream_leading 1/);
  });

  test('an endless loop of Internal errors: polling goes on, and the tries become rarer', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    geyser.onSubscribe((subscription) => subscription.end(GRPC_INTERNAL, 'internal error'));
    const running = await follow();
    for (let round = 0; round < 10; round += 1) {
      grow(world, 3);
      await settles({ world, store });
      await sleep(20);
    }
    await until(async () => /stream_ends_total\{reason="internal"\} [3-9]/.test(await running.metrics()));
    assert.match(await running.metrics(), /stream_ends_total\{reason="internal"\} \d/);
    assert.ok(geyser.subscriptions.length < 100);
    geyser.onSubscribe(() => {});
    await takeOver(world, geyser, running);
  });

  test('repeated, late and dead blocks, and a block that is not whole', async (t) => {
    const { world, geyser, store, follow } = await streamBed(t);
    grow(world, 10);
    const running = await follow();
    const subscription = await takeOver(world, geyser, running);
    pushAll(subscription, world.chain.slice(-5));
    pushAll(subscription, world.chain.slice(-5).reverse());
    const tip = world.chain.at(-1)!;
    // A block that will be declared dead, and its child, neither of which can be released: both hang above a hole.
    const dead = { ...tip, slot: tip.slot + 5, parentSlot: tip.slot + 3, blockhash: tip.forgedHash };
    const child = { ...dead, slot: dead.slot + 1, parentSlot: dead.slot, previousBlockhash: dead.blockhash };
    pushAll(subscription, [dead, child]);
    subscription.push({ slot: { slot: String(dead.slot), status: SLOT_DEAD } });
    world.grow(6, 3);
    const update = updateOf(world.chain.at(-1)!) as { block: { executedTransactionCount: string } };
    subscription.push({ block: { ...update.block, executedTransactionCount: '9' } });
    await settles({ world, store });
    assert.equal(running.follower.status().stalled, null);
    assert.equal((await metric(running, 'forks_total')) >= 0, true);
  });

  test('pings are answered', async (t) => {
    const { geyser, follow } = await streamBed(t);
    await follow();
    const subscription = await opened(geyser);
    subscription.push({ ping: {} });
    await until(() => subscription.later.length > 0);
    assert.deepEqual((subscription.later[0] as { ping?: { id: number } }).ping, { id: 1 });
  });

  for (const seed of [1, 2, 3]) {
    test(`cuts, holes, repeats and forks at random (seed ${seed})`, { timeout: 60_000 }, async (t) => {
      const { world, geyser, store, follow } = await streamBed(t, { finalityDepth: 32 });
      const draw = createSfc32(seed);
      grow(world, 3);
      const running = await follow();
      for (let round = 0; round < 120; round += 1) {
        if (draw.float() < 0.08) world.fork(1 + draw.below(6));
        world.grow(draw.float() < 0.15 ? draw.below(8) : 0, draw.below(4));
        const [subscription] = geyser.open();
        const newest = world.chain.slice(-1 - draw.below(3));
        if (draw.float() < 0.85) pushAll(subscription, draw.float() < 0.2 ? newest.toReversed() : newest);
        if (draw.float() < 0.04) subscription?.end(draw.float() < 0.5 ? GRPC_INTERNAL : undefined);
        await sleep(draw.below(8));
      }
      // Beyond every branch that may have been seen: a tip that went back may as well be that of a node that is late.
      grow(world, world.highestSlot - world.slot + 4);
      await settles({ world, store });
      assert.equal(running.follower.status().stalled, null);
      assert.deepEqual(running.fatals, []);
    });
  }
});

describe('a block of the stream', { skip }, () => {
  const fixture = 'chain/blocks/mainnet-254170887-even.json';
  test('becomes the same block as the answer of getBlock', { skip: skipWithoutFixtures }, async () => {
    const { decodeError } = await loadClientPackage(GEYSER_DIR);
    // biome-ignore lint/suspicious/noExplicitAny: recorded.
    const recorded = readJsonFixture<any>(fixture);
    const result = recorded.result ?? recorded;
    const slot = result.parentSlot + 1;
    const { block } = blockUpdate(slot, result) as { block: StreamBlock };
    const form = rpcFormOf(block, decodeError);
    assert.notEqual(form, null);
    const [ours, theirs] = [decodeBlockText(slot, form!), decodeBlock(slot, result)];
    const { transactions: a, keys: _a, answer: _ours, ...header } = ours;
    const { transactions: b, keys: _b, answer: _theirs, ...expected } = theirs;
    assert.deepEqual(header, expected);
    assert.equal(a.length, 301);
    for (const [index, transaction] of a.entries()) {
      const { meta, ...rest } = normalForm(transaction, ours);
      const { meta: told, ...wanted } = normalForm(b[index]!, theirs);
      assert.deepEqual(rest, wanted);
      assert.deepEqual(meta, told);
    }
  });
});

test('without the package: an error that names it, exit 78', async () => {
  const empty = mkdtempSync(join(tmpdir(), 'parhelion-no-package-'));
  await assert.rejects(loadClientPackage(empty), (error: Error & { code?: string; exitCode?: number }) => {
    assert.equal(error.code, 'STREAM_PACKAGE_MISSING');
    assert.equal(error.exitCode, 78);
    assert.match(error.message, /@triton-one\/yellowstone-grpc/);
    return true;
  });
  await rm(empty, { recursive: true });
});

test('a daemon whose configuration wants the stream ends with exit 78 where the package is absent', async (t) => {
  const upstream = await startUpstream();
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-no-package-'));
  t.after(async () => {
    await upstream.stop();
    await rm(folder, { recursive: true });
  });
  const file = join(folder, 'parhelion.yaml');
  const config = {
    dataDir: folder,
    http: { port: 0 },
    admin: { port: 0 },
    log: { format: 'json' },
    upstream: { urls: [upstream.url] },
    follow: { stream: { plugin: 'yellowstone', url: 'http://127.0.0.1:9', token: 'hush-token' } },
  };
  writeFileSync(file, JSON.stringify(config));
  const env = { ...process.env, NODE_ENV: 'test', PARHELION_BOOTSTRAP_KEY: 'stream-test' };
  const child = spawn(process.execPath, [...cliArguments, 'serve', '--config', file], { cwd: folder, env });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(String(chunk)));
  const [code] = await once(child, 'exit');
  assert.equal(code, 78, output.join(''));
  assert.match(output.join(''), /STREAM_PACKAGE_MISSING|package @triton-one\/yellowstone-grpc cannot be used/);
  assert.doesNotMatch(output.join(''), /hush-token/);
});

describe('a daemon with the stream', { skip: geyserMissing() ?? (await chainMissing()) ?? false }, () => {
  test('delivers what the stream pushed, as the node shows it', { timeout: 90_000 }, async (t) => {
    const [chain, geyser, receiver] = await Promise.all([startChain(), startGeyser(), startReceiver()]);
    const daemon = await startDaemonProcess({
      chain,
      folder: GEYSER_DIR,
      config: {
        follow: { stream: { plugin: 'yellowstone', url: geyser.url } },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      },
    });
    t.after(async () => {
      await daemon.stop();
      await Promise.all([chain.stop(), geyser.stop(), receiver.close()]);
    });
    const address = '11111111111111111111111111111112';
    const hook = { webhookURL: receiver.url, webhookType: 'raw', accountAddresses: [address] };
    await apiOf(daemon.apiUrl, daemon.key)('POST', '/v0/webhooks', hook);
    const readBlock = async (slot: number) => {
      const params = [slot, { encoding: 'base64', maxSupportedTransactionVersion: 1, commitment: 'confirmed' }];
      const response = await fetch(chain.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params }),
      });
      return ((await response.json()) as { result: object }).result;
    };
    const payer = Keypair.generate();
    await chain.fund(payer.publicKey.toBase58(), 1_000_000_000);
    const transfer = (lamports: number) =>
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: new PublicKey(address), lamports });
    const pay = async (lamports: number, version: 'legacy' | 1 = 'legacy') => {
      const signature =
        version === 1
          ? await sendVersion1(chain.connection, payer, [transfer(lamports)])
          : await chain.fund(address, lamports);
      const slot = await chain.connection.getSlot('confirmed');
      geyser
        .open()
        .at(-1)
        ?.push(blockUpdate(slot, await readBlock(slot)));
      return signature;
    };
    const isLeading = async () =>
      /^parhelion_follow_stream_leading(\{[^}]*\})? 1$/m.test(await (await fetch(`${daemon.adminUrl}/metrics`)).text());
    const sent: string[] = [];
    await until(async () => {
      sent.push(await pay(1_000_000 + sent.length));
      await sleep(50);
      return await isLeading();
    }, 200);
    assert.equal(await isLeading(), true);
    // From now on the node gives no block: only the stream can.
    chain.faults.set([{ action: 'wrongSkip', match: { method: 'getBlock', client: 'parhelion' } }]);
    for (let more = 0; more < 5; more += 1) sent.push(await pay(2_000_000 + more, more % 2 === 0 ? 1 : 'legacy'));
    chain.faults.clear();
    const elements = () =>
      receiver.received.map(
        ({ body }) =>
          (
            JSON.parse(String(body)) as [{ version: unknown; transaction: { signatures: [string]; message: object } }]
          )[0],
      );
    const arrived = () => elements().map(({ transaction }) => transaction.signatures[0]);
    await until(() => arrived().length >= sent.length);
    assert.deepEqual(arrived().toSorted(), sent.toSorted());
    const configs = elements().flatMap(({ version, transaction }) =>
      version === 1 ? [(transaction.message as { transactionConfig?: object }).transactionConfig] : [],
    );
    const config = {
      computeUnitLimit: 200_000,
      heapSize: null,
      loadedAccountsDataSizeLimit: 2 ** 20,
      priorityFee: 777,
    };
    assert.deepEqual(configs, [config, config, config]);
  });
});
