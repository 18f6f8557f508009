/** A replay gives what a subscription got that was there from the start: the same updates in the same order, each once. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import WebSocket from 'ws';
import { decode, encode64 } from '../../../src/lib/base58.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonProcess, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import { startFaultProxy } from '../../helpers/fault-proxy.ts';
import { freePort } from '../../helpers/free-port.ts';
import { geyserMissing, loadClient } from '../../helpers/geyser.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import { type Json, requestOf, type StreamBed, startBed, type Updates, type Yellowstone } from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const EVERYTHING = {
  transactions: { all: {} },
  transactionsStatus: { status: {} },
  blocks: { block: {} },
  blocksMeta: { meta: {} },
  slots: { slot: { interslotUpdates: true } },
};
const KEPT = { config: { ledger: { retain: { hours: 1 } } } };
/** For long runs: how often the connection of the client breaks, and how often the daemon is killed meanwhile. */
const BREAKS = Number(process.env['PARHELION_STREAM_BREAKS'] ?? 3);
const KILLS = Number(process.env['PARHELION_STREAM_KILLS'] ?? 1);
/** Of forks that are left while clients replay; with PARHELION_STREAM_FORKS=31 every one. */
const FORKS = Number(process.env['PARHELION_STREAM_FORKS'] ?? 0);
const DEPTHS = FORKS > 0 ? Array.from({ length: FORKS }, (_, at) => at + 1) : [3, 31];
const SLOTS_BEFORE_CLIENT = 8;
const LEVELS = { confirmed: 1, finalized: 2 } as const;

const slotOf = (update: Json): number =>
  Number((update.slot ?? update.transaction ?? update.transactionStatus ?? update.block ?? update.blockMeta).slot);

/** Updates of slots from one on, without the time at which they were made, as text. */
function content(updates: Updates, from: number): string[] {
  return updates.all
    .filter(({ ping, pong }) => ping === undefined && pong === undefined)
    .filter((update) => slotOf(update) >= from)
    .map(({ createdAt: _createdAt, ...update }) =>
      JSON.stringify(update, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
    );
}

/** Statuses of finality come between the content of later slots, earlier or later by what a replay was told when. */
const isFinality = (text: string): boolean => (JSON.parse(text) as Json).slot?.status === 2;

/** The daemon starts with the newest block of the chain, so there is a first one soon. */
async function firstAvailable(bed: StreamBed): Promise<number> {
  const client = await bed.connect();
  return await until(async () => {
    const { firstAvailable } = (await client.subscribeReplayInfo()) as { firstAvailable?: string };
    if (firstAvailable !== undefined) return Number(firstAvailable);
    await bed.chain.seal();
    return null;
  }, 'the first slot of the ledger');
}

/** Each final slot is told once, in order, and after its content. */
function checkFinality(texts: readonly string[]): void {
  const seen = new Set<number>();
  let last = -1;
  for (const text of texts) {
    const update = JSON.parse(text) as Json;
    if (update.blockMeta !== undefined) seen.add(slotOf(update));
    if (!isFinality(text)) continue;
    assert.ok(slotOf(update) > last, `slot ${slotOf(update)} after ${last}`);
    assert.ok(seen.has(slotOf(update)), `content of slot ${slotOf(update)} comes first`);
    last = slotOf(update);
  }
}

describe('replay', { skip }, () => {
  for (const [name, commitment] of Object.entries(LEVELS))
    test(`at ${name}, from any slot, while blocks arrive and forks are left`, async (t) => {
      const seed = Math.floor(Math.random() * 2 ** 32);
      console.log(`seed ${seed}`);
      const random = createSfc32(seed);
      const bed = await startBed(t, KEPT);
      const live = await bed.subscribe({ ...EVERYTHING, commitment });
      const economy = await createEconomy(bed.chain, seed);
      await economy.run(10);
      await bed.chain.seal(36);
      const start = (await firstAvailable(bed)) + 1;
      assert.ok(start > 0);
      const replays: { readonly from: number; readonly updates: Updates }[] = [];
      for (let round = 0; round < 4; round += 1) {
        const newest = await bed.chain.seal();
        const from = start + Math.floor(random.float() * (newest + 3 - start));
        const joined = bed.subscribe({ ...EVERYTHING, commitment, fromSlot: String(from) });
        await economy.run(2);
        // Forks only where no reader has been told of the dropped slots yet that another one was told of.
        if (name === 'finalized')
          await bed.chain.fork({ depth: 1 + (round % 3), replay: 'all', extraBlocks: 1, gap: round % 2 });
        await bed.chain.seal(3);
        replays.push({ from, updates: await joined });
      }
      await bed.chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000_000);
      const end = await bed.chain.seal(3);
      await bed.chain.seal(40);
      const has = (updates: Updates) => updates.all.some(({ slot }) => slot?.status === 2 && Number(slot.slot) >= end);
      await until(() => [live, ...replays.map(({ updates }) => updates)].every(has), 'the last slot is final for all');
      const upTo = (updates: Updates, from: number) =>
        content(updates, from).filter((text) => slotOf(JSON.parse(text)) <= end);
      for (const { from, updates } of replays) {
        const [theirs, ours] = [upTo(live, from), upTo(updates, from)];
        const isShared = (text: string) => {
          const { slot } = JSON.parse(text) as Json;
          // Statuses below the level of a reader are told when they happen; a replay has none of slots that were dropped before it began.
          return slot === undefined || (name === 'confirmed' && !isFinality(text));
        };
        assert.deepEqual(ours.filter(isShared), theirs.filter(isShared), `from ${from}`);
        assert.deepEqual(ours.filter(isFinality), theirs.filter(isFinality), `finality from ${from}`);
        checkFinality(ours);
        updates.close();
      }
      live.close();
    });

  test('at confirmed, forks are left in the middle of replays: dropped slots are dead, and the new branch follows', async (t) => {
    const bed = await startBed(t, KEPT);
    const live = await bed.subscribe({ ...EVERYTHING, commitment: 1 });
    await bed.chain.seal(34);
    const from = await firstAvailable(bed);
    const metas = (updates: Updates): [number, string][] =>
      updates.all.flatMap(({ blockMeta }) =>
        blockMeta === undefined ? [] : [[Number(blockMeta.slot), blockMeta.blockhash]],
      );
    // What stands in the end is the chain, whatever was seen between.
    const chain = (updates: Updates, end: number) => {
      const standing = new Map<number, string>();
      for (const { blockMeta, slot } of updates.all) {
        if (blockMeta !== undefined) standing.set(Number(blockMeta.slot), blockMeta.blockhash);
        if (slot?.status === 6) standing.delete(Number(slot.slot));
      }
      return [...standing].filter(([slot]) => slot > from && slot <= end).sort(([a], [b]) => a - b);
    };
    for (const depth of DEPTHS) {
      await bed.chain.seal(depth);
      const replayed = await bed.subscribe({ ...EVERYTHING, commitment: 1, fromSlot: String(from) });
      await bed.chain.fork({ depth, replay: 'all', extraBlocks: 2, gap: depth % 3 });
      const end = await bed.chain.seal(3);
      await until(
        () => [live, replayed].every((updates) => metas(updates).some(([slot]) => slot === end)),
        `both have the newest block after a fork of ${depth}`,
      );
      assert.deepEqual(chain(replayed, end), chain(live, end), `a fork of ${depth}`);
      assert.ok(chain(live, end).length > depth);
      replayed.close();
    }
    live.close();
  });

  test('parsed transactions at every depth of a fork: none is lost, and none comes twice for one slot of a branch', async (t) => {
    const chain = await startChain();
    const daemon = await startDaemon({
      chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
      config: { ...KEPT.config, plugins: ['access', 'parsed', 'proxy', 'streams'], streams: { grpc: { port: 0 } } },
    });
    t.after(async () => {
      await daemon.stop();
      await chain.stop();
    });
    const wallet = Keypair.generate().publicKey.toBase58();
    /** The transactions of the wallet, as they stand on the chain now: slot and signature. */
    const standing = async () => {
      const { result } = (await (await fetch(chain.rpcUrl, signaturesOf(wallet))).json()) as Json;
      return (result as Json[]).map(({ slot, signature }) => `${slot} ${signature}`);
    };
    const subscribe = async (fromSlot: number | null) => {
      const socket = new WebSocket(`${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`);
      t.after(() => socket.terminate());
      const got: string[] = [];
      let answer: Json = null;
      socket.on('message', (data) => {
        const message = JSON.parse(String(data)) as Json;
        if (message.id === 1) answer = message;
        const result = message.params?.result;
        if (result !== undefined) got.push(`${result.context.slot} ${result.value.transaction.signature}`);
      });
      socket.on('open', () => {
        const options = { details: 'matched', ...(fromSlot === null ? {} : { fromSlot }) };
        const params = [{ accounts: { include: [wallet] } }, options];
        socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'parsedTransactionSubscribe', params }));
      });
      await until(() => answer, 'the answer');
      assert.equal(typeof answer.result, 'number', JSON.stringify(answer));
      return { got, close: () => socket.close() };
    };
    const live = await until(async () => {
      const one = await subscribe(null);
      await chain.fund(wallet, 1_000_000);
      await chain.seal();
      if (one.got.length > 0) return one;
      one.close();
      return null;
    }, 'the first transaction');
    const first = Number(live.got[0]!.split(' ')[0]);
    const place = (pair: string) => Number(pair.split(' ')[0]);
    /** How many branches had a transaction in a slot: so often it may come. */
    const branches = new Map<string, number>();
    let before = new Set<string>();
    const note = async () => {
      const now = (await standing()).filter((pair) => place(pair) >= first);
      for (const pair of now) if (!before.has(pair)) branches.set(pair, (branches.get(pair) ?? 0) + 1);
      before = new Set(now);
      return now;
    };
    const sealed = async (count: number) => {
      for (let block = 0; block < count; block += 1) {
        await chain.fund(wallet, 1_000_000);
        await chain.seal();
      }
    };
    for (const depth of DEPTHS) {
      await sealed(depth + 1);
      await note();
      const replayed = await subscribe(first);
      const { commonAncestor } = await chain.fork({ depth, replay: 'all', extraBlocks: 2, gap: depth % 3 });
      // What is above it now is of another branch, also where it is the same transaction in the same slot.
      before = new Set([...before].filter((pair) => place(pair) <= commonAncestor));
      await sealed(3);
      const now = await note();
      for (const [name, { got }] of Object.entries({ live, replayed })) {
        await until(() => now.every((pair) => got.includes(pair)), `${name} has all after a fork of ${depth}`);
        for (const pair of new Set(got)) {
          assert.ok(branches.has(pair), `${name}: ${pair} stood on no branch`);
          const times = got.filter((each) => each === pair).length;
          assert.ok(times <= branches.get(pair)!, `${name}: ${pair} came ${times} times`);
        }
      }
      replayed.close();
    }
    live.close();
  });

  test('other filters continue a replay where it is; what is not kept is refused by its first slot', async (t) => {
    const bed = await startBed(t, KEPT);
    await bed.chain.seal(20);
    const from = await firstAvailable(bed);
    const updates = await bed.subscribe({ blocksMeta: { a: {} }, commitment: 1, fromSlot: String(from) });
    updates.write({ blocksMeta: { b: {} }, commitment: 1 });
    const end = await bed.chain.seal(2);
    await until(() => updates.all.some(({ blockMeta }) => Number(blockMeta?.slot) === end), 'the newest block');
    const slots = updates.all.flatMap(({ blockMeta }) => (blockMeta === undefined ? [] : [Number(blockMeta.slot)]));
    assert.deepEqual(
      slots,
      [...new Set(slots)].sort((a, b) => a - b),
    );
    assert.equal(slots[0], from);
    assert.equal(slots.length, end - from + 1);
    updates.close();

    const tooOld = bed.raw('Subscribe', [{ blocksMeta: { a: {} }, fromSlot: String(from - 5) }]);
    assert.deepEqual(await tooOld.status, {
      code: 11,
      details: `broadcast from ${from - 5} is not available, last available: ${from}`,
    });
  });

  test('a daemon that starts again and has not reached its upstream serves what it kept', async (t) => {
    const chain = await startChain();
    const upstream = await startFaultProxy(Number(new URL(chain.rpcUrl).port));
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-replay-'));
    const port = await freePort();
    const { default: Client } = loadClient('@triton-one/yellowstone-grpc') as Yellowstone;
    const config = { ...KEPT.config, plugins: ['access', 'streams'], streams: { grpc: { port } } };
    const start = (key?: string) =>
      startDaemon({
        chain: { rpcUrl: `http://127.0.0.1:${upstream.port}` },
        config,
        dataDir,
        ...(key === undefined ? {} : { key }),
      });
    let daemon = await start();
    t.after(async () => {
      await daemon.stop();
      await upstream.close();
      await chain.stop();
      rmSync(dataDir, { recursive: true, force: true });
    });
    const ask = async () => {
      const client = new Client(`http://127.0.0.1:${port}`, daemon.key, {}, { enabled: false });
      await client.connect();
      return Number(((await client.subscribeReplayInfo()) as { firstAvailable?: string }).firstAvailable ?? -1);
    };
    await until(async () => {
      await chain.seal();
      return (await ask()) >= 0;
    }, 'the first block is kept');
    const first = await ask();
    await daemon.stop();
    upstream.set({ down: { blackhole: true } });
    daemon = await start(daemon.key);
    assert.equal(await ask(), first);
  });

  for (const [name, read] of [
    ['LaserStream', readByLaserStream],
    ['Yellowstone', readByYellowstone],
    ['parsed', readByParsed],
  ] as const)
    test(`the ${name} client, whose connection breaks and whose daemon is killed, gets each transaction once`, (t) =>
      breakAndKill(t, read));
});

/** What a client reads of one address. */
interface Reading {
  /** Of the server for gRPC, and of the API; connections to both break. */
  readonly url: string;
  readonly apiUrl: string;
  readonly key: string;
  readonly wallet: string;
  readonly transaction: (signature: Uint8Array) => void;
  /** The client was told of something at which it can resume; before that it goes on at the newest block after a break. */
  readonly place: () => void;
}

type Read = (reading: Reading) => Promise<() => void>;

/** The client resumes at the last slot that it was told of, so it may get that slot again: its reader looks at the signatures. */
async function readByLaserStream({ url, key, wallet, transaction, place }: Reading): Promise<() => void> {
  const { subscribe } = loadClient('helius-laserstream') as Json;
  const accounts = { accountInclude: [wallet], accountExclude: [], accountRequired: [] };
  const seen = new Set<string>();
  const handle = await subscribe(
    { apiKey: key, endpoint: url, replay: true },
    { transactions: { mine: accounts }, slots: { s: { filterByCommitment: true } }, accounts: {}, commitment: 1 },
    (update: Json) => {
      if (update.slot !== undefined && update.slot !== null) place();
      const signature = update.transaction?.transaction.signature as Uint8Array | undefined;
      if (signature === undefined || seen.has(encode64(signature))) return;
      seen.add(encode64(signature));
      transaction(signature);
    },
    () => undefined,
  );
  return () => handle.cancel();
}

/** The client drops doubles itself, and holds back a slot that a break cut until its block meta comes. */
async function readByYellowstone({ url, key, wallet, transaction, place }: Reading): Promise<() => void> {
  const { default: Client } = loadClient('@triton-one/yellowstone-grpc') as Yellowstone;
  // A daemon that was killed starts within seconds; on a busy machine, within a minute.
  const backoff = { initialIntervalMs: 100, multiplier: 1.1, maxRetries: 60 };
  const client = new Client(url, key, {}, { backoff, slotRetention: 250 });
  await client.connect();
  const stream = await client.subscribe();
  stream.on('error', () => undefined);
  stream.on('data', (update: Json) => {
    if (update.blockMeta !== undefined) place();
    if (update.transaction !== undefined) transaction(update.transaction.transaction.signature);
  });
  stream.write(
    requestOf({ transactions: { mine: { accountInclude: [wallet] } }, blocksMeta: { meta: {} }, commitment: 1 }),
  );
  return () => void stream.destroy();
}

/** Reads parsed transactions over a websocket, and resumes with the slot of the last one: that slot comes again. */
async function readByParsed({ apiUrl, key, wallet, transaction, place }: Reading): Promise<() => void> {
  const seen = new Set<string>();
  let last: number | null = null;
  let isOver = false;
  let socket: WebSocket;
  const connect = (): void => {
    if (isOver) return;
    socket = new WebSocket(`${apiUrl.replace('http', 'ws')}/?api-key=${key}`);
    socket.on('error', () => undefined);
    socket.on('close', () => setTimeout(connect, 100));
    socket.on('open', () => {
      const options = { details: 'matched', ...(last === null ? {} : { fromSlot: last }) };
      const params = [{ accounts: { include: [wallet] } }, options];
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'parsedTransactionSubscribe', params }));
    });
    socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as Json;
      // Not ready yet: the client tries again.
      if (message.error !== undefined) return socket.close();
      const { result } = message.params ?? {};
      if (result === undefined) return;
      last = result.context.slot as number;
      const { signature } = result.value.transaction;
      if (seen.has(signature)) return;
      seen.add(signature);
      place();
      transaction(decode(signature)!);
    });
  };
  connect();
  return () => {
    isOver = true;
    socket.close();
  };
}

async function breakAndKill(t: TestContext, read: Read): Promise<void> {
  const chain = await startChain();
  const [port, apiPort] = [await freePort(), await freePort()];
  const plugins = ['access', 'parsed', 'proxy', 'streams'];
  const place = {
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: { ...KEPT.config, plugins, http: { port: apiPort }, streams: { grpc: { port } } },
    dataDir: mkdtempSync(join(tmpdir(), 'parhelion-replay-')),
  };
  let daemon = await startDaemonProcess(place);
  // A client resumes some slots before the last one that it has whole. The ledger begins with the daemon, and would not have them yet.
  await chain.seal(SLOTS_BEFORE_CLIENT);
  const [proxy, apiProxy] = [await startFaultProxy(port), await startFaultProxy(apiPort)];
  let close = (): void => undefined;
  t.after(async () => {
    // A client without a server tries for minutes to reach it, and keeps the process of the test. It ends with its next update.
    close();
    const readers = async () => /^parhelion_streams_readers (\d+)/m.exec(await metricsOf(daemon))?.[1];
    for (let turn = 0; turn < 500 && (await readers()) !== '0'; turn += 1) {
      await chain.seal();
      await sleep(20);
    }
    await Promise.all([proxy.close(), apiProxy.close()]);
    await daemon.stop();
    await chain.stop();
    rmSync(place.dataDir, { recursive: true, force: true });
  });
  const got: string[] = [];
  let hasPlace = false;
  const wallet = Keypair.generate().publicKey.toBase58();
  close = await read({
    url: `http://127.0.0.1:${proxy.port}`,
    apiUrl: `http://127.0.0.1:${apiProxy.port}`,
    key: daemon.key,
    wallet,
    transaction: (signature) => void got.push(encode64(signature)),
    place: () => {
      hasPlace = true;
    },
  });
  const pay = async () => {
    await chain.fund(wallet, 1_000_000);
    await chain.seal();
  };
  for (let turn = 0; got.length === 0 || !hasPlace; turn += 1) {
    assert.ok(turn < 500, 'the first transaction and its place');
    await pay();
    await sleep(100);
  }
  const turns = Math.max(BREAKS, KILLS);
  const all: string[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    // Kills are spread over the breaks.
    const isKilled = Math.floor(((turn + 1) * KILLS) / turns) > Math.floor((turn * KILLS) / turns);
    if (isKilled) {
      await daemon.kill();
      daemon = await startDaemonProcess({ ...place, key: daemon.key });
    }
    proxy.cut();
    apiProxy.cut();
    for (let payment = 0; payment < 3; payment += 1) await pay();
    // What a page of the node holds: a long run has more.
    const known = new Set(all);
    const { result } = (await (await fetch(chain.rpcUrl, signaturesOf(wallet))).json()) as Json;
    const newest = (result as Json[]).map(({ signature }) => signature as string).toReversed();
    all.push(...newest.filter((signature) => !known.has(signature)));
    // What came before the subscription is no part of it.
    const wanted = all.slice(all.indexOf(got[0]!));
    // The chain goes on: a client may need a later block before it trusts the slot that a break cut.
    for (let waited = 0; got.length < wanted.length; waited += 1) {
      assert.ok(waited < 300, `turn ${turn}: ${got.length} of ${wanted.length} transactions`);
      await chain.seal();
      await sleep(200);
    }
    assert.deepEqual(got, wanted);
  }
}

const metricsOf = async ({ adminUrl }: DaemonProcess) => await (await fetch(`${adminUrl}/metrics`)).text();

const signaturesOf = (wallet: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'getSignaturesForAddress',
    params: [wallet, { commitment: 'confirmed' }],
  }),
});
