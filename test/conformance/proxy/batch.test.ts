/** The calls of a batch that an upstream has to answer go there as a batch: one bank answers them, in order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type ProxyBed, post, startBed } from './rpc-client.ts';

interface Item {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
}

const item = (id: unknown, method: string, params: unknown = []) => ({ jsonrpc: '2.0', id, method, params });

async function batch(bed: Pick<ProxyBed, 'daemon'>, calls: readonly unknown[]): Promise<Item[]> {
  const { status, text } = await post(bed, JSON.stringify(calls));
  assert.equal(status, 200, text);
  return JSON.parse(text) as Item[];
}

test('a thousand calls are a few requests to the upstream, and every call gets its own answer', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getBalance', ({ params }) => ({ result: JSON.stringify((params as [string])[0]) }));
  const calls = Array.from({ length: 1_000 }, (_, at) =>
    item(at % 2 === 0 ? at : `"${at}`, 'getBalance', [`key ${at}`]),
  );
  const answers = await batch(bed, calls);
  assert.deepEqual(
    answers.map(({ id, result }) => [id, result]),
    calls.map(({ id, params }) => [id, (params as [string])[0]]),
  );
  assert.equal(bed.first.callsOf('getBalance').length, 1_000);
  assert.ok(bed.first.batches.length <= 3, String(bed.first.batches));
});

test('slots do not go back within a batch, whatever stands between them', async (t) => {
  const bed = await startBed(t);
  let slot = 0;
  bed.first.on('getSlot', () => {
    slot += 1;
    return { result: String(slot) };
  });
  bed.first.on('getBlock', { result: '{"blockhash":"x"}' });
  bed.first.on('sendTransaction', { result: '"signature"' });
  const calls = Array.from({ length: 40 }, (_, at) =>
    at % 7 === 3
      ? item(at, 'getBlock', [at, { commitment: 'confirmed' }])
      : at % 11 === 5
        ? item(at, 'sendTransaction', ['wire'])
        : item(at, 'getSlot'),
  );
  const answers = await batch(bed, calls);
  const slots = answers.flatMap(({ result }) => (typeof result === 'number' ? [result] : []));
  assert.deepEqual(
    slots,
    slots.toSorted((one, other) => one - other),
  );
  assert.deepEqual(
    answers.map(({ id }) => id),
    calls.map(({ id }) => id),
  );
  // What sends something, and whole blocks, are requests of their own.
  assert.equal(
    bed.first.batches.reduce((sum, count) => sum + count, 0),
    slots.length,
  );
});

test('equal ids, notifications and calls that are wrong do not disturb the others', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getBalance', ({ params }) => ({ result: JSON.stringify((params as [number])[0]) }));
  const answers = await batch(bed, [
    item(1, 'getBalance', [1]),
    item(1, 'getBalance', [2]),
    { jsonrpc: '2.0', method: 'getBalance', params: [3] },
    { jsonrpc: '1.0', id: 4, method: 'getBalance' },
    item('1', 'getBalance', [5]),
    item(null, 'getBalance', [6]),
  ]);
  assert.deepEqual(
    answers.map(({ id, result, error }) => [id, result ?? error?.code]),
    [
      [1, 1],
      [1, 2],
      [4, -32600],
      ['1', 5],
      [null, 6],
    ],
  );
});

for (const [name, refusal] of [
  [
    'an error object',
    { chunks: ['{"jsonrpc":"2.0","error":{"code":-32600,"message":"batches are not supported"},"id":null}'] },
  ],
  ['HTTP 400', { status: 400, chunks: ['no'] }],
  ['HTTP 413', { status: 413, chunks: ['too large'] }],
] as const)
  test(`an upstream that refuses batches with ${name} gets single calls, and no second batch`, async (t) => {
    const bed = await startBed(t);
    bed.first.refuseBatches(refusal);
    bed.first.on('getBalance', ({ params }) => ({ result: JSON.stringify((params as [number])[0]) }));
    const calls = Array.from({ length: 30 }, (_, at) => item(at, 'getBalance', [at]));
    for (let round = 0; round < 2; round += 1)
      assert.deepEqual(
        (await batch(bed, calls)).map(({ result }) => result),
        calls.map(({ id }) => id),
      );
    assert.deepEqual(bed.first.batches, [30]);
    assert.equal(bed.first.callsOf('getBalance').length, 60);
  });

test('a batch that the first upstream cannot answer goes to the next one as a batch', async (t) => {
  for (const behaviour of [
    { status: 429, chunks: ['slow down'] },
    { status: 503, chunks: ['<html>'] },
    { fault: 'reset' },
  ] as const) {
    const bed = await startBed(t, { upstreams: 2 });
    bed.first.refuseBatches(behaviour);
    bed.second.on('getBalance', ({ params }) => ({ result: JSON.stringify((params as [number])[0]) }));
    const calls = Array.from({ length: 30 }, (_, at) => item(at, 'getBalance', [at]));
    assert.deepEqual(
      (await batch(bed, calls)).map(({ result }) => result),
      calls.map(({ id }) => id),
      JSON.stringify(behaviour),
    );
    assert.deepEqual(bed.second.batches, [30], JSON.stringify(behaviour));
  }
});

test('answers that are missing, doubled or of no call are asked for elsewhere; one that refuses moves alone', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  bed.first.on('getBalance', ({ id, params }) => {
    const own = JSON.stringify({ jsonrpc: '2.0', result: 'first', id });
    const [key] = params as [string];
    if (key === 'missing') return { chunks: ['{"jsonrpc":"2.0","result":1,"id":"other"}'] };
    if (key === 'doubled') return { chunks: [`${own},${own}`] };
    if (key === 'limited')
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', error: { code: -32429, message: 'rate limited' }, id })] };
    if (key === 'refused')
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', error: { code: -32602, message: 'wrong' }, id })] };
    return { result: '"first"' };
  });
  bed.second.on('getBalance', { result: '"second"' });
  const keys = ['a', 'missing', 'doubled', 'limited', 'refused', 'b'];
  const answers = await batch(
    bed,
    keys.map((key) => item(key, 'getBalance', [key])),
  );
  assert.deepEqual(
    answers.map(({ id, result, error }) => [id, result ?? error?.code]),
    [
      ['a', 'first'],
      ['missing', 'second'],
      ['doubled', 'second'],
      ['limited', 'second'],
      ['refused', -32602],
      ['b', 'first'],
    ],
  );
});

test('a call that can be answered from the cache is not sent, and one batch waits for no other', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getBalance', async ({ params }) => {
    if ((params as [string])[0] === 'slow') await new Promise((resolve) => setTimeout(resolve, 300));
    return { result: '1' };
  });
  let isSlowDone = false;
  const slow = batch(bed, [item(1, 'getBalance', ['slow']), item(2, 'getBalance', ['slow'])]).then((answers) => {
    isSlowDone = true;
    return answers;
  });
  await batch(bed, [item(1, 'getBalance', ['fast']), item(2, 'getBalance', ['fast'])]);
  assert.equal(isSlowDone, false);
  assert.equal((await slow).length, 2);
});

const missing = await chainMissing();

test('on a chain that goes on, all calls of a batch see one state', { skip: missing ?? false }, async (t) => {
  const chain = await startChain({ slotMs: 20, time: { kind: 'wall' } });
  const daemon = await startDaemon({ chain });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  const methods = ['getSlot', 'getBlockHeight', 'getEpochInfo', 'getLatestBlockhash', 'getSlot'];
  for (let round = 0; round < 5; round += 1) {
    const calls = Array.from({ length: 200 }, (_, at) =>
      item(at, methods[at % methods.length]!, [{ commitment: 'processed' }]),
    );
    const answers = await batch({ daemon }, calls);
    const slots = answers.flatMap(({ result }) => {
      const { absoluteSlot, context } = (result ?? {}) as { absoluteSlot?: number; context?: { slot: number } };
      const slot = typeof result === 'number' ? null : (absoluteSlot ?? context?.slot ?? null);
      return slot === null ? [] : [slot];
    });
    const plain = answers.filter((_, at) => methods[at % methods.length] === 'getSlot').map(({ result }) => result);
    assert.deepEqual(new Set([...slots, ...plain]).size, 1, JSON.stringify([...new Set([...slots, ...plain])]));
  }
});
