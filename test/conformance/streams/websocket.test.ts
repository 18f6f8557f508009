/** Subscriptions over the websocket that are answered from the blocks the daemon follows, with the clients that people use. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js';
import WebSocket from 'ws';
import { parseExact } from '../../../src/lib/json.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon, startDaemonProcess, type TestDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { packageAbsent, packageFolder } from '../../helpers/packages.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import type { Json } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const sdkFolder = packageFolder('helius-sdk');
const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');

interface Bed {
  readonly chain: TestChain;
  readonly daemon: TestDaemon;
  readonly url: string;
}

async function startBed(
  t: TestContext,
  config: Json = {},
  start: typeof startDaemon | typeof startDaemonProcess = startDaemon,
): Promise<Bed> {
  const chain = await startChain();
  const { streams = {}, ...rest } = config;
  const daemon = await start({
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: {
      plugins: ['access', 'proxy', 'streams'],
      ledger: { retain: { hours: 1 } },
      ...rest,
      streams: { grpc: { port: await freePort() }, ...streams },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  return { chain, daemon, url: `${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}` };
}

async function until<T>(
  what: string,
  find: () => T | null | undefined | false | Promise<T | null | undefined | false>,
): Promise<T> {
  for (let turn = 0; turn < 3_000; turn += 1) {
    const found = await find();
    if (found !== null && found !== undefined && found !== false) return found;
    await sleep(20);
  }
  throw new Error(`waited in vain: ${what}`);
}

interface Client {
  readonly socket: WebSocket;
  readonly messages: Json[];
  call(method: string, params?: unknown): Promise<Json>;
  subscribe(method: string, params?: unknown): Promise<number>;
  results(id: number): Json[];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

async function connect(t: TestContext, { url }: Pick<Bed, 'url'>): Promise<Client> {
  const socket = new WebSocket(url);
  const messages: Json[] = [];
  let nextId = 1;
  socket.on('message', (data) => messages.push(parseExact(String(data))));
  socket.on('error', () => {});
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
  );
  t.after(() => socket.terminate());
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const client: Client = {
    socket,
    messages,
    closed,
    async call(method, params) {
      const id = nextId++;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) }));
      return await until(`the answer to ${method}`, () => messages.find((one) => one.id === id));
    },
    async subscribe(method, params) {
      const answer = await client.call(method, params);
      assert.equal(typeof answer.result, 'number', JSON.stringify(answer));
      return answer.result;
    },
    results: (id) => messages.filter((one) => one.params?.subscription === id).map((one) => one.params.result),
  };
  return client;
}

const keyOf = ({ slot, transactionIndex, signature }: Json) => `${slot}/${transactionIndex}/${signature}`;

/** A payment with a memo; resolves with its signature when it is in a block. */
async function pay({ chain }: Bed, to: PublicKey, lamports: number, payer: Keypair): Promise<string> {
  const transaction = new Transaction().add(
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports }),
    new TransactionInstruction({ programId: MEMO, keys: [], data: Buffer.from(`pay ${lamports}`) }),
  );
  const { blockhash } = await chain.connection.getLatestBlockhash();
  transaction.recentBlockhash = blockhash;
  transaction.sign(payer);
  return await chain.connection.sendRawTransaction(transaction.serialize());
}

async function funded({ chain }: Bed): Promise<Keypair> {
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 10_000_000_000);
  return payer;
}

async function nodeCall({ chain }: Bed, method: string, params: unknown): Promise<Json> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(chain.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return parseExact(await response.text());
}

describe('websocket', { skip }, () => {
  test('transactionSubscribe: every encoding and detail as the node shows the transaction', async (t) => {
    const bed = await startBed(t);
    const payer = await funded(bed);
    const client = await connect(t, bed);
    const to = Keypair.generate().publicKey;
    const filter = { accountInclude: [to.toBase58()] };
    const form = { commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
    const encodings = ['json', 'jsonParsed', 'base58', 'base64'] as const;
    const ids = new Map<string, number>();
    for (const encoding of encodings)
      ids.set(encoding, await client.subscribe('transactionSubscribe', [filter, { ...form, encoding }]));
    const zstd = await client.subscribe('transactionSubscribe', [filter, { ...form, encoding: 'base64+zstd' }]);
    const byDetails = new Map<string, number>();
    for (const transactionDetails of ['accounts', 'signatures', 'none'])
      byDetails.set(
        transactionDetails,
        await client.subscribe('transactionSubscribe', [filter, { ...form, transactionDetails }]),
      );
    const noRewards = await client.subscribe('transactionSubscribe', [filter, { ...form, showRewards: false }]);
    const plain = await client.subscribe('transactionSubscribe', [filter]);
    const signature = await pay(bed, to, 1_000_000, payer);
    await bed.chain.seal(36);
    await until('the final one has come too', () => client.results(plain).length === 1);
    for (const encoding of encodings) {
      const [got, ...more] = client.results(ids.get(encoding)!);
      assert.equal(more.length, 0);
      const { result } = await nodeCall(bed, 'getTransaction', [
        signature,
        { encoding, commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
      ]);
      const { slot, blockTime, transactionIndex: _, ...transaction } = result;
      assert.deepEqual(got.transaction, transaction, encoding);
      assert.deepEqual({ ...got, transaction: null }, { transaction: null, signature, slot, transactionIndex: 0 });
      assert.deepEqual(got.transaction.meta.status, { Ok: null });
      if (encoding !== 'base64') continue;
      const [fromPlain] = client.results(plain);
      assert.deepEqual(fromPlain, got);
      const [withoutRewards] = client.results(noRewards);
      const meta = { ...got.transaction.meta, rewards: null };
      assert.deepEqual(withoutRewards.transaction, { ...got.transaction, meta });
      const [packed] = client.results(zstd);
      assert.equal(packed.transaction.transaction[1], 'base64+zstd');
      const place = { signature, slot, transactionIndex: 0 };
      assert.deepEqual(client.results(byDetails.get('none')!), [place]);
      assert.deepEqual(client.results(byDetails.get('signatures')!), [
        { ...place, err: null, memo: '[11] pay 1000000', blockTime, confirmationStatus: 'confirmed' },
      ]);
      const block = await nodeCall(bed, 'getBlock', [
        slot,
        { transactionDetails: 'accounts', commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
      ]);
      assert.deepEqual(client.results(byDetails.get('accounts')!), [
        { ...place, transaction: block.result.transactions[0] },
      ]);
    }
    const answer = await client.call('transactionUnsubscribe', [ids.get('json')]);
    assert.equal(answer.result, true);
    const again = await client.call('transactionUnsubscribe', [ids.get('json')]);
    assert.deepEqual([again.error.code, again.error.message], [-32602, 'Invalid subscription id.']);
    assert.ok(
      client.messages.every((one) => (one.method === undefined) !== (one.id === undefined)),
      'a notification has no id',
    );
  });

  test('fromSlot: what was, then what comes, each once and in order, at each level, while forks are left', async (t) => {
    const bed = await startBed(t);
    const { chain } = bed;
    const economy = await createEconomy(chain, 7);
    const live = await connect(t, bed);
    const options = (level: string) => ({ commitment: level, transactionDetails: 'signatures' });
    const ids = {
      confirmed: await live.subscribe('transactionSubscribe', [{}, options('confirmed')]),
      finalized: await live.subscribe('transactionSubscribe', [{}, options('finalized')]),
    };
    // Blocks up to here may be released between the two subscriptions.
    const begun = await chain.connection.getSlot('confirmed');
    await economy.run(8);
    await chain.seal(2);
    const all = (level: keyof typeof ids) => live.results(ids[level]).filter(({ slot }: Json) => slot > begun);
    const first = (await until('the first', () => all('confirmed')[0])).slot;
    const replays: { readonly client: Client; readonly id: number; readonly level: keyof typeof ids }[] = [];
    for (const level of ['confirmed', 'finalized'] as const)
      for (const place of [0, 1]) {
        const client = await connect(t, bed);
        const [filter, form] =
          place === 0 ? [{}, { ...options(level), fromSlot: first }] : [{ fromSlot: first }, options(level)];
        replays.push({ client, level, id: await client.subscribe('transactionSubscribe', [filter, form]) });
      }
    await economy.run(3);
    await chain.fork({ depth: 3, replay: 'all', extraBlocks: 1, gap: 1 });
    await economy.run(3);
    const forked = await chain.seal(1);
    await chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000_000);
    await chain.seal(40);
    await until('all are final', () => {
      // What is the newest block with a transaction shows as they come; blocks of the branch that was left never become final.
      const newest = all('confirmed').at(-1)!.slot;
      const lasts = [...replays, { client: live, level: 'finalized', id: ids.finalized }].map(
        ({ client, id }) => client.results(id).at(-1)?.slot,
      );
      return newest > forked && lasts.every((slot) => slot === newest);
    });
    const finals = all('finalized').map(keyOf);
    assert.ok(finals.length > 10);
    assert.equal(new Set(finals).size, finals.length);
    for (const { client, id, level } of replays) {
      const got = client.results(id);
      assert.deepEqual(new Set(got.map(keyOf)).size, got.length, `none is doubled at ${level}`);
      if (level === 'finalized') assert.deepEqual(got.map(keyOf), finals);
      // Blocks of the fork that was left have been told at confirmed.
      else
        for (const key of finals)
          assert.ok(
            got.some((one: Json) => keyOf(one) === key),
            key,
          );
    }
    const tooOld = await live.call('transactionSubscribe', [{}, { ...options('confirmed'), fromSlot: 0 }]);
    assert.equal(tooOld.error.code, -32602);
    assert.match(tooOld.error.data.details, /^broadcast from 0 is not available, last available: \d+$/);
  });

  test('helius-sdk: a replay arrives although the client drops what comes with the answer; accountSubscribe with fromSlot', {
    skip: sdkFolder === null && packageAbsent('the test of helius-sdk', ['helius-sdk']),
  }, async (t) => {
    // With threads: the blocks are in another one than the websockets.
    const bed = await startBed(t, {}, startDaemonProcess);
    const payer = await funded(bed);
    const to = Keypair.generate().publicKey;
    const client = await connect(t, bed);
    const watched = await client.subscribe('transactionSubscribe', [
      { accountInclude: [to.toBase58()] },
      { commitment: 'confirmed', transactionDetails: 'signatures' },
    ]);
    const signature = await pay(bed, to, 2_000_000, payer);
    await bed.chain.seal(1);
    const [first] = await until('the payment', () => client.results(watched).length > 0 && client.results(watched));
    const path = `${sdkFolder}/dist/esm/websockets/enhancedWs.js`;
    (globalThis as Json).WebSocket ??= WebSocket;
    const { makeEnhancedWsClient } = (await import(path)) as Json;
    const sdk = makeEnhancedWsClient(bed.url);
    t.after(() => sdk.close());
    const subscription = await sdk.transactionSubscribe(
      { accountInclude: [to.toBase58()] },
      { commitment: 'confirmed', transactionDetails: 'full', maxSupportedTransactionVersion: 0, fromSlot: first.slot },
    );
    const notifications = subscription[Symbol.asyncIterator]();
    assert.equal((await notifications.next()).value.signature, signature);
    const second = await pay(bed, to, 3_000_000, payer);
    await bed.chain.seal(1);
    assert.equal((await notifications.next()).value.signature, second);
    assert.equal(await subscription.unsubscribe(), true);

    const account = await sdk.accountSubscribe(to.toBase58(), {
      commitment: 'confirmed',
      encoding: 'base64',
      fromSlot: first.slot,
    });
    const changes = account[Symbol.asyncIterator]();
    const lamports = async (expected: number) => {
      for (;;) {
        const { value } = await changes.next();
        assert.ok(value.context.slot >= value.position.slot && value.position.slot >= first.slot);
        assert.deepEqual(value.value.data, ['', 'base64']);
        if (value.value.lamports === expected) return value.position;
      }
    };
    const before = await lamports(5_000_000);
    await pay(bed, to, 1_000_000, payer);
    await bed.chain.seal(1);
    const after = await lamports(6_000_000);
    assert.ok(after.slot > before.slot);
    sdk.close();
  });

  test('blockSubscribe, and without a websocket of the upstream logsSubscribe and slotSubscribe, as the node has them', async (t) => {
    const bed = await startBed(t, { proxy: { websocket: { subscribeTimeoutMs: 300 } } });
    // The same chain behind an address without a websocket.
    const lonely = await startDaemon({
      chain: { rpcUrl: bed.chain.rpcUrl, wsUrl: 'ws://127.0.0.1:9' },
      config: {
        plugins: ['access', 'proxy', 'streams'],
        ledger: { retain: { hours: 1 } },
        proxy: { websocket: { subscribeTimeoutMs: 300 } },
        streams: { grpc: { port: await freePort() } },
      },
    });
    t.after(() => lonely.stop());
    const alone = await connect(t, { url: `${lonely.apiUrl.replace('http', 'ws')}/?api-key=${lonely.key}` });
    const node = await connect(t, { url: bed.chain.wsUrl });
    const payer = await funded(bed);
    const to = Keypair.generate().publicKey;
    const asked: [string, unknown[]][] = [
      ['slotSubscribe', []],
      ['logsSubscribe', ['all', { commitment: 'confirmed' }]],
      ['logsSubscribe', [{ mentions: [to.toBase58()] }, { commitment: 'finalized' }]],
    ];
    const pairs: [number, number][] = [];
    for (const [method, params] of asked)
      pairs.push([await node.subscribe(method, params), await alone.subscribe(method, params)]);
    const form = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 };
    const mentions = { mentionsAccountOrProgram: to.toBase58() };
    const blocks: [number, Json, string | null][] = [];
    for (const encoding of ['base64', 'jsonParsed'])
      for (const transactionDetails of ['full', 'accounts', 'signatures', 'none']) {
        const given = { ...form, encoding, transactionDetails, showRewards: true };
        blocks.push([await alone.subscribe('blockSubscribe', ['all', given]), given, null]);
      }
    const mentioned = await alone.subscribe('blockSubscribe', [mentions, { ...form, showRewards: false }]);
    const signature = await pay(bed, to, 1_000_000, payer);
    const end = await bed.chain.seal(40);
    const logsId = pairs[2]!;
    await until('the final logs', () => alone.results(logsId[1]).length === 1 && node.results(logsId[0]).length === 1);
    await until('the newest blocks', () => alone.results(pairs[0]![1]).at(-1)?.slot >= end - 2);
    const slot = alone.results(logsId[1])[0].context.slot;
    for (const [at, [direct, followed]] of pairs.entries()) {
      const from = (one: Json) => one.context?.slot ?? one.slot;
      const theirs = node.results(direct).filter((one) => from(one) >= slot);
      const ours = alone.results(followed).filter((one) => from(one) >= slot);
      if (at > 0) assert.deepEqual(ours, theirs, asked[at]![0]);
      // A node tells of a slot when it begins, the daemon when its block is confirmed: the newest is missing, and the root is further.
      else {
        const begun = ours.filter((one) => one.slot >= theirs[0].slot);
        assert.ok(begun.length > 20);
        assert.deepEqual(
          begun.map(({ root: _, ...one }) => one),
          theirs.slice(0, begun.length).map(({ root: _, ...one }) => one),
        );
      }
    }
    for (const [id, { commitment: _, ...given }] of blocks) {
      const got = alone.results(id).find((one) => one.context.slot === slot);
      const block = await nodeCall(bed, 'getBlock', [slot, { ...given, rewards: true, commitment: 'confirmed' }]);
      assert.deepEqual(
        got,
        { context: { slot }, value: { slot, err: null, block: block.result } },
        JSON.stringify(given),
      );
    }
    const [only, ...more] = alone.results(mentioned);
    assert.deepEqual([more.length, only.context.slot, only.value.block.rewards], [0, slot, undefined]);
    assert.equal(only.value.block.transactions.length, 1);
    const bad: [string, unknown[], string][] = [
      ['blockSubscribe', ['all', { commitment: 'processed' }], 'Method does not support commitment below `confirmed`'],
      ['logsSubscribe', [{ mentions: [to.toBase58(), to.toBase58()] }], 'Invalid Request: Only 1 address supported'],
    ];
    for (const [method, params, message] of bad) {
      const { error } = await alone.call(method, params);
      assert.deepEqual([error.code, error.message], [-32602, message]);
    }
    // web3.js, at a daemon that has its blocks only.
    const connection = new Connection(lonely.apiUrl, {
      commitment: 'confirmed',
      wsEndpoint: `${lonely.apiUrl.replace('http', 'ws')}/?api-key=${lonely.key}`,
    });
    const heard: string[] = [];
    const listener = connection.onLogs(to, ({ signature: one }) => void heard.push(one), 'confirmed');
    await until('web3.js is subscribed', async () => {
      await bed.chain.seal(1);
      await pay(bed, to, 500_000 + heard.length, payer);
      return heard.length > 0;
    });
    await connection.removeOnLogsListener(listener);
    (connection as Json)._rpcWebSocket.close();
    assert.ok(!heard.includes(signature));
  });

  test('filters choose as over gRPC; wrong ones are refused with a reason, and the socket lives on', async (t) => {
    const bed = await startBed(t, { streams: { websocket: { maxAddresses: 3 } } });
    const payer = await funded(bed);
    const client = await connect(t, bed);
    const [a, b] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const signatures = { commitment: 'processed', transactionDetails: 'signatures' };
    const subscribe = (filter: Json) => client.subscribe('transactionSubscribe', [filter, signatures]);
    const [ka, kb, kp] = [a, b, payer.publicKey].map((key) => key.toBase58());
    const ids = {
      a: await subscribe({ accountInclude: [ka] }),
      aOrB: await subscribe({ accountInclude: [ka, kb] }),
      required: await subscribe({ accountRequired: [kb, kp] }),
      excluded: await subscribe({ accountInclude: [kp], accountExclude: [ka], vote: false, failed: false }),
      failed: await subscribe({ accountInclude: [kp], failed: true, signature: null, tokenAccounts: 'none' }),
    };
    const toA = await pay(bed, a, 1_000_000, payer);
    const toB = await pay(bed, b, 2_000_000, payer);
    await bed.chain.seal(2);
    await until('both', () => client.results(ids.aOrB).length === 2);
    const got = Object.fromEntries(
      Object.entries(ids).map(([name, id]) => [
        name,
        client
          .results(id)
          .map(({ signature }) => signature)
          // Without the one that paid the payer.
          .filter((one) => one === toA || one === toB),
      ]),
    );
    assert.deepEqual(got, { a: [toA], aOrB: [toA, toB], required: [toB], excluded: [toB], failed: [] });
    const form = { maxSupportedTransactionVersion: 0 };
    const refused: [unknown[], RegExp][] = [
      [[{ accountInclude: ['x'] }, form], /^accountInclude\[0\] is not an address$/],
      [[{ accountInclude: ['1'.repeat(33)] }, form], /is not 32 bytes in base58$/],
      [[{ accountInclude: 'x' }, form], /^accountInclude must be a list of addresses$/],
      [[{ accountRequired: [ka, ka, ka, ka] }, form], /^Max amount of Pubkeys reached, only 3 allowed$/],
      [[{ signature: 'abc' }, form], /signature/],
      [[{ vote: 1 }, form], /^vote must be true or false$/],
      [[{ tokenAccounts: 'some' }, form], /^tokenAccounts must be one of none, all, balanceChanged$/],
      [[{}, {}], /^maxSupportedTransactionVersion is required for transactionDetails full$/],
      [[{}, { transactionDetails: 'accounts' }], /is required for transactionDetails accounts$/],
      [[{}, { ...form, encoding: 'hex' }], /^encoding must be one of json, jsonParsed, base58, base64, base64\+zstd$/],
      [[{}, { ...form, commitment: 'max' }], /^commitment must be one of/],
      [[{}, { ...form, fromSlot: -1 }], /^fromSlot must be a slot$/],
      [[7, form], /^params\[0\] must be an object/],
      [[{}, form, 1], /at most two parameters/],
    ];
    for (const [params, reason] of refused) {
      const { error } = await client.call('transactionSubscribe', params);
      assert.equal(error?.code, -32602, JSON.stringify(params));
      assert.match(error.data.details, reason);
    }
    assert.equal((await client.call('getHealth')).result, 'ok');
  });

  test('50,000 addresses in each of three lists fit into one message; bytes are charged as laserstreamWebsocket; a revoked key ends it', async (t) => {
    const bed = await startBed(t, { access: { keyCacheMs: 0 } });
    const payer = await funded(bed);
    const client = await connect(t, bed);
    const to = Keypair.generate().publicKey;
    const list = Array.from({ length: 49_999 }, () =>
      new PublicKey(Buffer.from(crypto.getRandomValues(new Uint8Array(32)))).toBase58(),
    );
    const id = await client.subscribe('transactionSubscribe', [
      { accountInclude: [...list, to.toBase58()], accountExclude: list, accountRequired: [to.toBase58()] },
      { commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
    ]);
    const raw: number[] = [];
    client.socket.on('message', (data: Buffer) => raw.push(data.length));
    await pay(bed, to, 1_000_000, payer);
    await bed.chain.seal(1);
    await until('the payment', () => client.results(id).length === 1);
    const usage = async () => {
      const response = await fetch(`${bed.daemon.apiUrl}/v0/admin/projects/${bed.daemon.projectId}/usage`, {
        headers: { 'X-Api-Key': bed.daemon.key },
      });
      return response.status === 200 ? ((await response.json()) as Json) : null;
    };
    const bytes = raw.reduce((sum, one) => sum + one, 0);
    const record = await until('the usage', usage);
    assert.equal(record.dataTransfer.laserstreamWebsocket, bytes);
    const { out } = await runCommand([
      'keys',
      'list',
      '--project',
      bed.daemon.projectId,
      '--json',
      '--config',
      bed.daemon.configFile,
    ]);
    const [key] = JSON.parse(out) as Json;
    const { code, err } = await runCommand(['keys', 'revoke', '--id', key.id, '--config', bed.daemon.configFile]);
    assert.equal(code, 0, err);
    assert.equal((await client.closed).code, 1008);
  });
});
