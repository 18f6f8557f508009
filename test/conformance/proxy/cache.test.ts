import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { call, type ProxyBed, post, startBed, until } from './rpc-client.ts';

const MAINNET = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';
const BLOCK = '{ "blockHeight":18446744073709551615, "s":"\\u00e9", "transactions":[] }';

/** Nothing is cached before the chain is known. */
async function untilChainKnown(bed: ProxyBed): Promise<void> {
  await until('the genesis hash is known', async () => {
    await post(bed, call('getGenesisHash'));
    return (await post(bed, call('getGenesisHash'))).headers.get('x-cache') === 'HIT';
  });
}

test('an answer that cannot change is requested once; each caller gets its own id', async (t) => {
  const bed = await startBed(t);
  await untilChainKnown(bed);
  bed.first.on('getBlock', ({ id }) => ({
    chunks: [`{"jsonrpc":"2.0","result":${BLOCK},"id":${JSON.stringify(id)}}`],
  }));
  const first = await post(bed, call('getBlock', [5, { encoding: 'json' }]));
  assert.equal(first.headers.get('x-cache'), null);
  const again = await post(
    bed,
    '{"params":[ 5,{"commitment":"finalized", "encoding":"json"}],"id":"\\u0061","method":"getBlock","jsonrpc":"2.0"}',
  );
  assert.equal(again.headers.get('x-cache'), 'HIT');
  assert.equal(again.text, `{"jsonrpc":"2.0","result":${BLOCK},"id":"\\u0061"}`);
  const big = await post(
    bed,
    '{"jsonrpc":"2.0","id":18446744073709551615,"method":"getBlock","params":[5,{"encoding":"json"}]}',
  );
  assert.equal(big.text, `{"jsonrpc":"2.0","result":${BLOCK},"id":18446744073709551615}`);
  assert.equal(bed.first.callsOf('getBlock').length, 1);
  const batch = await post(bed, `[${call('getBlock', [5, { encoding: 'json' }])}]`);
  assert.equal(batch.text, `[{"jsonrpc":"2.0","result":${BLOCK},"id":1}]`);
  assert.equal(bed.first.callsOf('getBlock').length, 1);
});

test('ranks of validators are requested once per epoch and identity, and the certificate of Alpenglow once', async (t) => {
  const bed = await startBed(t);
  await untilChainKnown(bed);
  bed.first.on('getEpochSchedule', {
    result:
      '{"slotsPerEpoch":100,"leaderScheduleSlotOffset":100,"warmup":false,"firstNormalEpoch":0,"firstNormalSlot":0}',
  });
  const map = (epoch: number) =>
    `{"context":{"slot":950},"value":{"epoch":${epoch},"totalStake":18446744073709551615}}`;
  bed.first.on('getRankMap', (request) => {
    const [slot] = request.params as [number];
    return { result: slot < 500 ? '{"context":{"slot":950},"value":null}' : map(Math.floor(slot / 100)) };
  });
  const ask = async (params: unknown[]) => {
    const { headers, text } = await post(bed, call('getRankMap', params));
    return [headers.get('x-cache'), text];
  };
  const answer = (result: string) => `{"jsonrpc":"2.0","result":${result},"id":1}`;
  await until('the schedule is known', async () => (await ask([900])) && (await ask([900]))[0] === 'HIT');
  assert.deepEqual(await ask([999]), ['HIT', answer(map(9))]);
  assert.deepEqual(await ask([800]), [null, answer(map(8))]);
  assert.deepEqual(await ask([899, null]), ['HIT', answer(map(8))]);
  assert.deepEqual(await ask([899, { identity: 'x' }]), [null, answer(map(8))]);
  // An epoch that a node does not hold may come back with another node; a slot that has to be included is the node's business.
  const missing = answer('{"context":{"slot":950},"value":null}');
  assert.deepEqual(
    [await ask([100]), await ask([100])],
    [
      [null, missing],
      [null, missing],
    ],
  );
  assert.deepEqual(await ask([800, { minContextSlot: 5 }]), [null, answer(map(8))]);

  const certificate = () => post(bed, call('getAgGenesisCert'));
  bed.first.on('getAgGenesisCert', { result: 'null' });
  for (let i = 0; i < 2; i += 1) assert.equal((await certificate()).headers.get('x-cache'), null);
  bed.first.on('getAgGenesisCert', { result: '{"block":{"slot":7}}' });
  await certificate();
  const cached = await certificate();
  assert.deepEqual([cached.headers.get('x-cache'), cached.text], ['HIT', answer('{"block":{"slot":7}}')]);
});

test('answers that may change are requested each time', async (t) => {
  const bed = await startBed(t);
  await untilChainKnown(bed);
  for (const [method, params, result] of [
    ['getBlock', [5], 'null'],
    ['getTransaction', ['sig'], 'null'],
    ['getBlock', [6, { commitment: 'confirmed' }], BLOCK],
    ['getAccountInfo', ['x', { commitment: 'finalized' }], '{}'],
    ['getBlocks', [1, 2], '[1,2]'],
  ] as const) {
    bed.first.on(method, { result });
    const before = bed.first.callsOf(method).length;
    for (let i = 0; i < 2; i++) assert.equal((await post(bed, call(method, params))).headers.get('x-cache'), null);
    assert.equal(bed.first.callsOf(method).length - before, 2, method);
  }
  bed.first.on('getBlock', { chunks: ['{"jsonrpc":"2.0","error":{"code":-32007,"message":"skipped"},"id":1}'] });
  for (let i = 0; i < 2; i++) await post(bed, call('getBlock', [9]));
  assert.equal(bed.first.calls.filter(({ body }) => body === call('getBlock', [9])).length, 2);
});

test('an error answer of the first upstream is not cached, the result of the next one is', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  await untilChainKnown(bed);
  bed.first.on('getBlock', { chunks: [`{"jsonrpc":"2.0","result":{"half":`] });
  bed.second.on('getBlock', { result: BLOCK });
  for (let i = 0; i < 2; i++) {
    assert.equal((await post(bed, call('getBlock', [7]))).text, `{"jsonrpc":"2.0","result":${BLOCK},"id":1}`);
  }
  assert.deepEqual([bed.first.callsOf('getBlock').length, bed.second.callsOf('getBlock').length], [1, 1]);
});

test('concurrent callers of the same call share one upstream call', async (t) => {
  const bed = await startBed(t);
  await untilChainKnown(bed);
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  bed.first.on('getTransaction', async () => {
    await gate;
    return { result: '{"slot":1}' };
  });
  const leaving = new AbortController();
  const left = post(bed, call('getTransaction', ['s']), { signal: leaving.signal });
  await until('the call arrives', () => bed.first.callsOf('getTransaction').length === 1);
  const ids = ['1', '"two"', '3e2', 'null'];
  const pending = ids.map((id) => post(bed, `{"jsonrpc":"2.0","id":${id},"method":"getTransaction","params":["s"]}`));
  await new Promise((resolve) => setTimeout(resolve, 50));
  // The first caller disconnects; the others still get their answer.
  leaving.abort();
  await assert.rejects(left);
  release();
  const texts = (await Promise.all(pending)).map(({ text }) => text);
  assert.deepEqual(
    texts,
    ids.map((id) => `{"jsonrpc":"2.0","result":{"slot":1},"id":${id}}`),
  );
  assert.equal(bed.first.callsOf('getTransaction').length, 1);
});

test('an answer too large for the cache is streamed to everyone', async (t) => {
  const bed = await startBed(t, { config: { proxy: { cache: { maxEntryBytes: 100_000 } } } });
  await untilChainKnown(bed);
  const answer = `{"jsonrpc":"2.0","result":"${'x'.repeat(300_000)}","id":1}`;
  bed.first.on('getBlock', { chunks: [answer] });
  const made = await Promise.all([1, 2, 3].map(() => post(bed, call('getBlock', [5]))));
  for (const { text } of made) assert.equal(text, answer);
  assert.equal((await post(bed, call('getBlock', [5]))).headers.get('x-cache'), null);
});

test('nothing is cached while the chain is unknown', async (t) => {
  const bed = await startBed(t, {
    config: { proxy: { cache: { disk: 'any' } } },
    prepare: (upstream) => upstream.on('getGenesisHash', { status: 500, chunks: ['x'] }),
  });
  bed.first.on('getBlock', { result: BLOCK });
  for (let i = 0; i < 3; i++) assert.equal((await post(bed, call('getBlock', [5]))).headers.get('x-cache'), null);
  assert.equal(bed.first.callsOf('getBlock').length, 3);
});

test('the cache can be switched off', async (t) => {
  const bed = await startBed(t, { config: { proxy: { cache: { enabled: false } } } });
  bed.first.on('getBlock', { result: BLOCK });
  for (let i = 0; i < 3; i++) await post(bed, call('getBlock', [5]));
  assert.equal(bed.first.callsOf('getBlock').length, 3);
});

test('on a public cluster answers survive a restart', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'parhelion-proxy-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  const options = { dataDir, key: 'the-key', genesisHash: MAINNET };
  await t.test('first run', async (t) => {
    const bed = await startBed(t, options);
    await untilChainKnown(bed);
    bed.first.on('getBlock', { result: BLOCK });
    await post(bed, call('getBlock', [5]));
  });
  await t.test('second run', async (t) => {
    const bed = await startBed(t, options);
    await untilChainKnown(bed);
    const { text, headers } = await post(bed, call('getBlock', [5]));
    assert.equal(headers.get('x-cache'), 'HIT');
    assert.equal(text, `{"jsonrpc":"2.0","result":${BLOCK},"id":1}`);
    assert.equal(bed.first.callsOf('getBlock').length, 0);
  });
});
