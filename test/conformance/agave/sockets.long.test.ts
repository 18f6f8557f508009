/** Notifications of a real node, asked for through the daemon and of the node itself. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import WebSocket from 'ws';
import { agaveMissing } from '../../helpers/agave.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type AgaveBed, connectTo, eventually, hangUp, startBed } from './harness.ts';
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
    const connection = connectTo(bed.url, url.href);
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
  readonly context: { readonly slot: number };
  readonly value: { readonly signature: string; readonly slot: number };
}
interface Details {
  readonly commitment: string;
  readonly encoding?: string;
  readonly transactionDetails?: string;
  readonly showRewards?: boolean;
}

/**
 * Through a daemon whose upstream has no websocket that answers. Logs are compared with the node's notifications. This node has no
 * `blockSubscribe` (its switch for it ends it at the start), so blocks are compared with its `getBlock`.
 */
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
  const logs: [string, unknown[]][] = [];
  const blocks: Details[] = [];
  for (const commitment of ['confirmed', 'finalized']) {
    logs.push(['logsSubscribe', [{ mentions: [address] }, { commitment }]]);
    logs.push(['logsSubscribe', ['all', { commitment }]]);
    for (const encoding of ['base64', 'json', 'jsonParsed', 'base58']) blocks.push({ commitment, encoding });
    for (const transactionDetails of ['accounts', 'signatures', 'none'])
      blocks.push({ commitment, transactionDetails, showRewards: false });
  }
  const mentions = { mentionsAccountOrProgram: address };
  const asked = [...logs, ...blocks.map((one) => ['blockSubscribe', [mentions, { ...one, ...version }]] as const)];
  const url = `${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`;
  const [direct, through] = await Promise.all([listen(node.wsUrl, logs), listen(url, asked)]);
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
  const heard = ({ results }: Listener, index: number) =>
    (results.get(index) ?? []).map(({ text }) => {
      const one = JSON.parse(text) as { readonly params?: { readonly result: Notice } } & Notice;
      return one.params?.result ?? one;
    });
  const finalLogs = logs.findLastIndex(([, [filter]]) => filter !== 'all');
  await eventually(() =>
    [direct, through].every((one) => heard(one, finalLogs).length >= PAYMENTS) &&
    heard(through, asked.length - 1).length > 0
      ? null
      : 'the payments are not final for both',
  );
  await sleep(1_000);
  const listed = await node.connection.getSignaturesForAddress(to);
  const slotOf = new Map(listed.map(({ signature, slot }) => [signature, slot]));
  for (const [index, call] of logs.entries()) {
    const [expected, told] = [direct, through].map((one) =>
      heard(one, index).filter(({ value }) => slotOf.has(value.signature)),
    ) as [Notice[], Notice[]];
    // The node repeats some, under the slot of another block.
    const first = new Map(expected.map((one) => [one.value.signature, one.value]));
    assert.deepEqual(new Map(told.map((one) => [one.value.signature, one.value])), first, JSON.stringify(call));
    assert.deepEqual(
      told.map(({ context }) => context.slot),
      told.map(({ value }) => slotOf.get(value.signature)),
      JSON.stringify(call),
    );
    assert.equal(told.length, PAYMENTS, JSON.stringify(call));
  }
  const paid = new Set(slotOf.keys());
  const paidSlots = [...new Set(slotOf.values())].toSorted((one, other) => one - other);
  for (const [at, details] of blocks.entries()) {
    const told = heard(through, logs.length + at);
    assert.deepEqual(
      told.map(({ value }) => value.slot),
      paidSlots,
      JSON.stringify(details),
    );
    for (const { value } of told)
      assert.deepEqual(
        value,
        await blockOfNode(node, value.slot, { ...details, ...version }, paid),
        JSON.stringify(details),
      );
  }
  for (const one of [direct, through]) one.close();
}

/** What `blockSubscribe` gives of a block: `getBlock` with the transactions of these signatures only. */
async function blockOfNode({ rpcUrl }: AgaveBed['node'], slot: number, details: Details, wanted: ReadonlySet<string>) {
  const { showRewards: rewards = true, ...same } = details;
  const params = [slot, { ...same, rewards }];
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params });
  const response = await fetch(rpcUrl, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  const { result } = (await response.json()) as {
    result: { signatures?: string[]; transactions?: { transaction: unknown }[] };
  };
  const block = { ...result };
  if (block.signatures !== undefined) block.signatures = block.signatures.filter((one) => wanted.has(one));
  if (block.transactions !== undefined)
    block.transactions = block.transactions.filter(({ transaction }) => {
      if (!Array.isArray(transaction)) return wanted.has((transaction as { signatures: string[] }).signatures[0]!);
      const [text, encoding] = transaction as [string, string];
      const bytes = encoding === 'base58' ? bs58.decode(text) : Buffer.from(text, 'base64');
      return wanted.has(bs58.encode(bytes.subarray(1, 65)));
    });
  return { slot, err: null, block };
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
  // A payment lands in the slot that has begun or a later one, and each in a slot of its own: a busy node may take
  // longer for one slot than all the payments take to send.
  for (let at = 0; at < PAYMENTS; at += 1) {
    const begun = Math.max(first, ...heard.map((slots) => slots.at(-1)?.slot ?? 0));
    await eventually(() =>
      heard.every((slots) => (slots.at(-1)?.slot ?? 0) > begun) ? null : `nothing after ${begun}`,
    );
    await pay(2_000_000 + at);
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
  // Up to the last payment that is final: what is newer may be on its way to one of the two.
  const until = Math.min(...both.map((one) => lastOf(one, finalAccount).at(-1)?.slot ?? 0));
  const upToThere = (one: Listener, index: number) =>
    lastOf(one, index)
      .filter(({ slot }) => slot > first && slot <= until)
      .map(({ text }) => text);
  for (const [index, call] of asked.entries()) {
    // Subscriptions are told in no order among each other, so one of this call may still be on its way as well.
    await eventually(() => {
      const [direct, through] = both.map((one) => upToThere(one, index).length) as [number, number];
      return direct > 0 && through >= direct ? null : `${direct} notices and ${through}: ${JSON.stringify(call)}`;
    });
    await sleep(100);
    const [direct, through] = both.map((one) => upToThere(one, index));
    assert.deepEqual(through, direct, JSON.stringify(call));
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
  assert.equal(through.ids[2], through.ids[3]);
  direct.close();
  through.close();
}
