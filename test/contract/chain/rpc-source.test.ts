import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { AskOptions } from '../../../src/ports/chain.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { type Behaviour, startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const SLOT = 100;
const good: Behaviour = { result: JSON.stringify(blockOf([entryOf({ message: sampleMessage() })], SLOT)) };
const error = (code: number): Behaviour => ({
  chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":"refused"},"id":1}`],
});
const ask: AskOptions = { commitment: 'confirmed', signal: new AbortController().signal };

async function sourceOver(t: TestContext, count: number) {
  const upstreams: TestUpstream[] = [];
  for (let made = 0; made < count; made += 1) upstreams.push(await startUpstream());
  const clock = createSystemClock();
  const random = createSystemRandom();
  const log = createMemoryLog();
  const core = followConfig({ requestTimeoutMs: 2_000 });
  const metrics = createMetricsRegistry().scope('chain');
  const urls = upstreams.map(({ url }) => ({ url: `${url}/?api-key=topsecret` }));
  const pool = createUpstreamPool({ label: 'main', upstreams: urls, core, clock, log, metrics });
  t.after(async () => {
    await pool.stop();
    for (const upstream of upstreams) await upstream.stop();
  });
  return { source: createRpcChainSource({ chain: 'main', pool, core, clock, random, log }), pool, upstreams, log };
}

for (const [code, kind] of [
  [-32007, 'skipped'],
  [-32009, 'skipped'],
  [-32004, 'not-yet'],
  [-32014, 'not-yet'],
  [-32016, 'not-yet'],
  [-32001, 'pruned'],
  [-32011, 'pruned'],
] as const) {
  test(`the error ${code} of the only upstream is the answer "${kind}"`, async (t) => {
    const { source, upstreams } = await sourceOver(t, 1);
    upstreams[0]!.on('getBlock', error(code));
    assert.deepEqual(await source.block(SLOT, ask), { kind, upstream: 'main-0' });
  });
}

test('a null result means not yet, never skipped', async (t) => {
  const { source, upstreams } = await sourceOver(t, 1);
  upstreams[0]!.on('getBlock', { result: 'null' });
  assert.equal((await source.block(SLOT, ask)).kind, 'not-yet');
});

const faults: readonly (readonly [string, Behaviour])[] = [
  ['status 429', { status: 429, headers: { 'retry-after': '1' }, chunks: ['slow down'] }],
  ['status 500', { status: 500, chunks: ['<html>broken</html>'] }],
  ['status 403', { status: 403, chunks: ['{"error":"no"}'] }],
  ['a page of HTML', { chunks: ['<html>hello</html>'] }],
  ['half an answer', { fault: 'cut', body: '{"jsonrpc":"2.0","result":{"blockh' }],
  ['a reset', { fault: 'reset' }],
  ['an object without result and error', { chunks: ['{"jsonrpc":"2.0","id":1}'] }],
  ['an ailing node (-32005)', error(-32005)],
  ['an unreachable archive (-32019)', error(-32019)],
  ['a pruned ledger (-32001)', error(-32001)],
  ['a node that is behind (-32004)', error(-32004)],
  ['an unknown error', error(-39999)],
  ['a block that is its own parent', { result: JSON.stringify({ ...blockOf([], SLOT), parentSlot: SLOT }) }],
  ['a block without a blockhash', { result: JSON.stringify({ ...blockOf([], SLOT), blockhash: undefined }) }],
  ['a block without transactions', { result: JSON.stringify({ ...blockOf([], SLOT), transactions: undefined }) }],
];
for (const [name, behaviour] of faults) {
  test(`${name}: the other upstream answers`, async (t) => {
    const { source, upstreams, log } = await sourceOver(t, 2);
    upstreams[0]!.on('getBlock', behaviour);
    upstreams[1]!.on('getBlock', good);
    const answer = await source.block(SLOT, ask);
    assert.equal(answer.upstream, 'main-1');
    assert.equal(answer.kind === 'block' && answer.block.transactions.length, 1);
    assert.doesNotMatch(JSON.stringify(log.lines), /topsecret/);
  });
}

test('an upstream whose block contradicts itself is left alone', async (t) => {
  const { source, upstreams, pool } = await sourceOver(t, 2);
  upstreams[0]!.on('getBlock', { result: JSON.stringify({ ...blockOf([], SLOT), parentSlot: SLOT }) });
  upstreams[1]!.on('getBlock', good);
  await source.block(SLOT, ask);
  assert.equal(pool.states()[0]!.healthy, false);
  assert.equal(pool.candidates()[0]!.label, 'main-1');
});

test('an unsupported transaction version is asked for one version higher', async (t) => {
  const { source, upstreams } = await sourceOver(t, 1);
  upstreams[0]!.on('getBlock', ({ params }) => {
    const { maxSupportedTransactionVersion } = (params as [number, { maxSupportedTransactionVersion: number }])[1];
    return maxSupportedTransactionVersion < 3 ? error(-32015) : good;
  });
  assert.equal((await source.block(SLOT, ask)).kind, 'block');
  // A block without transactions that cannot be read is not asked for as JSON.
  const encodings = upstreams[0]!.callsOf('getBlock').map(({ params }) => (params as [number, object])[1]);
  assert.deepEqual(
    encodings.map((options) => Object.entries(options).filter(([name]) => /encoding|max/.test(name))),
    ['base64', 'base64', 'base64'].map((encoding, at) => [
      ['encoding', encoding],
      ['maxSupportedTransactionVersion', at + 1],
    ]),
  );
});

test('a transaction whose bytes are malformed: the other upstream is asked, in the same form', async (t) => {
  const { source, upstreams } = await sourceOver(t, 2);
  const cutOff = { transaction: [Buffer.alloc(20, 1).toString('base64'), 'base64'], meta: {} };
  upstreams[0]!.on('getBlock', { result: JSON.stringify(blockOf([cutOff], SLOT)) });
  upstreams[1]!.on('getBlock', good);
  assert.equal((await source.block(SLOT, ask)).upstream, 'main-1');
  assert.deepEqual(
    upstreams.map((upstream) => upstream.callsOf('getBlock').length),
    [1, 1],
  );
});

test('upstreams to avoid are not asked', async (t) => {
  const { source, upstreams } = await sourceOver(t, 2);
  for (const upstream of upstreams) upstream.on('getBlock', good);
  assert.equal((await source.block(SLOT, { ...ask, avoid: ['main-0'] })).upstream, 'main-1');
  assert.equal(upstreams[0]!.callsOf('getBlock').length, 0);
});

test('without an upstream that answers the call fails with a code, and without the address', async (t) => {
  const { source, upstreams } = await sourceOver(t, 2);
  for (const upstream of upstreams) await upstream.down();
  // The clock's own timers let a process end; with all servers down nothing else would keep this one.
  const alive = setInterval(() => {}, 1_000);
  t.after(() => clearInterval(alive));
  await assert.rejects(source.block(SLOT, ask), (thrown: Error) => {
    assert.equal(codeOf(thrown), 'CHAIN_UNREACHABLE');
    assert.doesNotMatch(thrown.message + thrown.stack, /topsecret|127\.0\.0\.1/);
    return true;
  });
});
