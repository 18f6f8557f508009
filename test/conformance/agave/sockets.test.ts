/** Notifications of a real node, asked for through the daemon and of the node itself. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import WebSocket from 'ws';
import { agaveMissing } from '../../helpers/agave.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type AgaveBed, eventually, hangUp, startBed } from './bed.ts';
import { round } from './rounds.ts';

const ROUNDS = Number(process.env['PARHELION_AGAVE_ROUNDS'] ?? 4);
const SEED = Number(process.env['PARHELION_SEED'] ?? 20_261_123);
const PAYMENTS = 4;

test('subscriptions', { skip: agaveMissing() ?? false }, async (t) => {
  let nodeSide: FaultProxy | null = null;
  const bed = await startBed(t, {
    slotMs: 200,
    upstream: async ({ rpcUrl, rpcPort }) => {
      nodeSide = await startFaultProxy(rpcPort + 1, SEED);
      return { rpcUrl, wsUrl: `ws://127.0.0.1:${nodeSide.port}` };
    },
  });
  const clientSide = await startFaultProxy(Number(new URL(bed.daemon.apiUrl).port), SEED);
  t.after(async () => {
    await clientSide.close();
    await nodeSide?.close();
  });

  await t.test('of each kind and commitment the daemon passes on what the node notifies', () => sameNotifications(bed));

  await t.test('a node has one id for what means the same, and so has the daemon', () => sameIds(bed));

  await t.test('from the blocks alone the daemon tells what the node notifies', () => fromBlocks(bed, t));

  await t.test(`${ROUNDS} rounds with sockets that break`, { timeout: 3_600_000 }, async (tt) => {
    const url = new URL(bed.socketUrl);
    url.port = String(clientSide.port);
    const connection = new Connection(bed.url, { commitment: 'confirmed', wsEndpoint: url.href });
    const parts = { node: bed.node, clientSide, nodeSide: nodeSide!, socketUrl: url.href, connection };
    const counts: string[] = [];
    const random = createSfc32(SEED);
    try {
      for (let number = 0; number < ROUNDS; number += 1) {
        const { notices, sockets, repeats } = await round({ ...parts, random }, number);
        counts.push(`${notices}/${sockets}${repeats === 0 ? '' : ` (the node repeats ${repeats})`}`);
      }
    } finally {
      hangUp(connection);
      tt.diagnostic(`notices/sockets of each round: ${counts.join(' ')}; seed ${SEED}`);
    }
  });
});

interface Listener {
  readonly results: Map<number, { readonly text: string; readonly slot: number }[]>;
  readonly ids: readonly number[];
  close(): void;
}

/** Subscribes to all of it on one socket; resolves when each has its id. */
async function listen(url: string, asked: readonly (readonly [string, readonly unknown[]])[]): Promise<Listener> {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const results: Listener['results'] = new Map(asked.map((_, index) => [index, []]));
  const ids: number[] = [];
  const early: string[] = [];
  const take = (text: string) => {
    const { params } = JSON.parse(text) as { params: { subscription: number; result: unknown } };
    const index = ids.indexOf(params.subscription);
    if (index < 0) return void early.push(text);
    const result = params.result as { slot?: number; context?: { slot: number } } | number;
    const slot = typeof result === 'number' ? result : (result.context?.slot ?? result.slot ?? 0);
    // The bytes of the result, whatever the id of the subscription is.
    results.get(index)?.push({ text: /"result":(.*),"subscription":\d+\}\}$/.exec(text)?.[1] ?? text, slot });
  };
  socket.on('message', (data) => {
    const text = String(data);
    const { id, result, error } = JSON.parse(text) as { id?: number; result?: number; error?: unknown };
    if (id === undefined) return take(text);
    assert.equal(error, undefined, JSON.stringify(asked[id]));
    ids[id] = result as number;
    for (const one of early.splice(0)) take(one);
  });
  for (const [id, [method, params]] of asked.entries())
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  await eventually(() => (ids.filter((id) => id !== undefined).length === asked.length ? null : 'no ids'));
  return { results, ids, close: () => socket.terminate() };
}

interface Notice {
  readonly value: { readonly signature: string };
}

/** Through a daemon whose upstream has no websocket that answers. */
async function fromBlocks({ node }: AgaveBed, t: Pick<TestContext, 'after'>): Promise<void> {
  const daemon = await startDaemon({
    chain: { rpcUrl: node.rpcUrl, wsUrl: 'ws://127.0.0.1:9' },
    config: {
      plugins: ['access', 'proxy', 'streams'],
      ledger: { retain: { hours: 1 } },
      proxy: { websocket: { subscribeTimeoutMs: 500 } },
      streams: { grpc: { port: 0 } },
    },
  });
  t.after(() => daemon.stop());
  const to = Keypair.generate().publicKey;
  const [address, version] = [String(to), { maxSupportedTransactionVersion: 0 }];
  const asked: [string, unknown[]][] = [];
  for (const commitment of ['confirmed', 'finalized']) {
    asked.push(['logsSubscribe', [{ mentions: [address] }, { commitment }]]);
    asked.push(['logsSubscribe', ['all', { commitment }]]);
    const mentions = { mentionsAccountOrProgram: address };
    for (const encoding of ['base64', 'json', 'jsonParsed', 'base58'])
      asked.push(['blockSubscribe', [mentions, { commitment, encoding, ...version }]]);
    for (const transactionDetails of ['accounts', 'signatures', 'none'])
      asked.push(['blockSubscribe', [mentions, { commitment, transactionDetails, ...version, showRewards: false }]]);
  }
  const url = `${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`;
  const both = await Promise.all([listen(node.wsUrl, asked), listen(url, asked)]);
  for (let at = 0; at < PAYMENTS; at += 1) {
    const transfer = SystemProgram.transfer({
      fromPubkey: node.payer.publicKey,
      toPubkey: to,
      lamports: 3_000_000 + at,
    });
    const { blockhash } = await node.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: node.payer.publicKey, recentBlockhash: blockhash });
    transaction.add(transfer).sign(node.payer);
    await node.connection.sendRawTransaction(transaction.serialize());
    await sleep(500);
  }
  const parsed = ({ results }: Listener, index: number) =>
    (results.get(index) ?? []).map(({ text }) => {
      const one = JSON.parse(text) as { readonly params?: { readonly result: Notice } } & Notice;
      return one.params?.result ?? one;
    });
  const finalLogs = asked.findLastIndex(([method, [filter]]) => method === 'logsSubscribe' && filter !== 'all');
  await eventually(() =>
    both.every((one) => parsed(one, finalLogs).length >= PAYMENTS) ? null : 'the payments are not final for both',
  );
  await sleep(1_000);
  for (const [index, call] of asked.entries()) {
    const isAll = call[1][0] === 'all';
    const paid = new Set(parsed(both[0]!, finalLogs).map(({ value }) => value.signature));
    const [direct, through] = both.map((one) =>
      parsed(one, index).filter(({ value }) => !isAll || paid.has(value.signature)),
    );
    assert.deepEqual(through, direct, JSON.stringify(call));
    assert.ok(direct!.length > 0, JSON.stringify(call));
  }
  for (const one of both) one.close();
}

async function sameNotifications(bed: AgaveBed): Promise<void> {
  const { node } = bed;
  const to = Keypair.generate().publicKey;
  const [address, program] = [String(to), String(SystemProgram.programId)];
  const asked: [string, unknown[]][] = [
    ['slotSubscribe', []],
    ['rootSubscribe', []],
  ];
  for (const commitment of ['processed', 'confirmed', 'finalized']) {
    asked.push(['accountSubscribe', [address, { commitment, encoding: 'base64' }]]);
    asked.push(['accountSubscribe', [address, { commitment, encoding: 'jsonParsed' }]]);
    asked.push(['logsSubscribe', [{ mentions: [address] }, { commitment }]]);
    asked.push(['logsSubscribe', ['all', { commitment }]]);
    asked.push(['programSubscribe', [program, { commitment, encoding: 'base64', filters: [{ dataSize: 0 }] }]]);
  }
  const both = await Promise.all([listen(node.wsUrl, asked), listen(bed.socketUrl, asked)]);
  const pay = async (lamports: number) => {
    const transfer = SystemProgram.transfer({ fromPubkey: node.payer.publicKey, toPubkey: to, lamports });
    const { blockhash } = await node.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: node.payer.publicKey, recentBlockhash: blockhash });
    transaction.add(transfer).sign(node.payer);
    return node.connection.sendRawTransaction(transaction.serialize());
  };
  // The node tells of a slot when it begins, so the newest that getSlot knows may be older than the notice before.
  const heard = both.map((one) => one.results.get(0) ?? []);
  await eventually(() => (heard.every((slots) => slots.length > 0) ? null : 'no slot yet'));
  const first = Math.max(
    await node.call<number>('getSlot', [{ commitment: 'processed' }]),
    ...heard.map(([earliest]) => earliest?.slot ?? 0),
  );
  for (let at = 0; at < PAYMENTS; at += 1) {
    await pay(2_000_000 + at);
    await sleep(300);
  }
  const lastOf = ({ results }: Listener, index: number) => results.get(index) ?? [];
  const total = String(PAYMENTS * 2_000_000 + (PAYMENTS * (PAYMENTS - 1)) / 2);
  const finalAccount = asked.findIndex(
    ([method, [, options]]) =>
      method === 'accountSubscribe' && (options as { commitment: string }).commitment === 'finalized',
  );
  await eventually(() =>
    both.every((one) => lastOf(one, finalAccount).some(({ text }) => text.includes(`"lamports":${total}`)))
      ? null
      : 'the last payment is not final for both',
  );
  // What both have heard of for certain: neither the first notices nor those that are on their way.
  const until = Math.min(...both.map((one) => lastOf(one, finalAccount).at(-1)?.slot ?? 0));
  await sleep(500);
  for (const [index, call] of asked.entries()) {
    const [direct, through] = both.map((one) =>
      lastOf(one, index)
        .filter(({ slot }) => slot > first && slot <= until)
        .map(({ text }) => text),
    );
    assert.deepEqual(through, direct, JSON.stringify(call));
    assert.ok((direct as string[]).length > 0, JSON.stringify(call));
  }
  for (const one of both) one.close();
}

async function sameIds(bed: AgaveBed): Promise<void> {
  const asked: [string, unknown[]][] = [
    ['slotSubscribe', []],
    ['slotSubscribe', []],
    ['logsSubscribe', ['all']],
    ['logsSubscribe', ['all', { commitment: 'finalized' }]],
  ];
  const [direct, through] = await Promise.all([listen(bed.node.wsUrl, asked), listen(bed.socketUrl, asked)]);
  assert.equal(direct.ids[0], direct.ids[1]);
  assert.equal(through.ids[0], through.ids[1]);
  assert.equal(direct.ids[2], direct.ids[3]);
  // In other words it is another one for a client of the daemon, and is notified as well as the first.
  await bed.node.fund([Keypair.generate().publicKey], 1_000_000);
  await eventually(() => {
    const texts = [2, 3].map((index) => through.results.get(index)?.length ?? 0);
    const heard = through.ids[2] === through.ids[3] ? (texts[0] as number) > 0 : texts.every((count) => count > 0);
    return heard ? null : `notices of the two: ${texts}`;
  });
  direct.close();
  through.close();
}
