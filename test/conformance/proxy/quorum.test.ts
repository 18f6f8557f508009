import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call, post, startBed } from './rpc-client.ts';

const quorum = (agree: number, more: object = {}) => ({
  upstream: { quorum: { agree, methods: ['getTransaction', 'getBalance'], waitMs: 300 }, ...more },
});

test('an answer of a chosen method counts when enough upstreams give it, and who gives another one is left out', async (t) => {
  const bed = await startBed(t, { upstreams: 3, merge: quorum(2) });
  const [first, second, third] = bed.upstreams;
  first!.on('getTransaction', { result: '{"slot":7,"meta":{"fee":1}}' });
  second!.on('getTransaction', { result: '{"meta":{"fee":5000},"slot":7}' });
  third!.on('getTransaction', { result: '{"slot":7,"meta":{"fee":5000}}' });
  const { status, text } = await post(bed, call('getTransaction', ['x']));
  assert.equal(status, 200);
  assert.deepEqual(JSON.parse(text).result, { slot: 7, meta: { fee: 5000 } });
  const again = await post(bed, call('getTransaction', ['y']));
  assert.deepEqual(JSON.parse(again.text).result, { slot: 7, meta: { fee: 5000 } });
  assert.equal(first!.callsOf('getTransaction').length, 1, 'the liar is not asked again');
  const metrics = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  assert.match(metrics, /^parhelion_upstream_contradictions_total\{[^}]*upstream="main-0"[^}]*\} 1$/m);
  assert.match(metrics, /^parhelion_upstream_quorum_total\{[^}]*outcome="agreed"[^}]*\} 2$/m);
});

test('answers of different slots agree by their value, and nobody is named for an older one', async (t) => {
  const bed = await startBed(t, { upstreams: 3, merge: quorum(2) });
  const balance = (slot: number, value: number) => ({ result: `{"context":{"slot":${slot}},"value":${value}}` });
  const [first, second, third] = bed.upstreams;
  first!.on('getBalance', balance(6, 1));
  second!.on('getBalance', balance(8, 2));
  third!.on('getBalance', balance(7, 2));
  for (let count = 0; count < 2; count += 1)
    assert.equal(JSON.parse((await post(bed, call('getBalance', ['x']))).text).result.value, 2);
  assert.equal(first!.callsOf('getBalance').length, 2);
});

test('a tie is an error that says so, in a batch too; other methods are answered by one', async (t) => {
  const bed = await startBed(t, { upstreams: 2, merge: quorum(2) });
  bed.first.on('getTransaction', { result: '{"slot":7}' });
  bed.second.on('getTransaction', { result: '{"slot":8}' });
  for (const one of bed.upstreams) one.on('getSlot', { result: '9' });
  const { status, text } = await post(bed, call('getTransaction', ['x']));
  assert.equal(status, 503);
  assert.match(text, /upstreams disagree, 2 of 2 must agree; main-\d: answer [0-9a-f]{32}; main-\d: answer /);
  const batch = JSON.parse((await post(bed, `[${call('getTransaction', ['x'])},${call('getSlot')}]`)).text) as {
    readonly error?: { readonly data?: unknown; readonly message: string };
    readonly result?: number;
  }[];
  assert.match(JSON.stringify(batch[0]), /upstreams disagree/);
  assert.equal(batch[1]!.result, 9);
});

test('a slow read is also sent to a second upstream, at most by the share; what sends is not', async (t) => {
  const hedge = { upstream: { hedgeAfterMs: 20, hedgeShare: 0.1 } };
  const bed = await startBed(t, { upstreams: 2, merge: hedge });
  bed.first.on('getBalance', { fault: 'hang' });
  bed.second.on('getBalance', { result: '1' });
  // Ten extra calls at once are the bound.
  for (let count = 0; count < 10; count += 1)
    assert.equal(JSON.parse((await post(bed, call('getBalance', [String(count)]))).text).result, 1);
  const slow = bed.first.callsOf('getBalance');
  const used = bed.second.callsOf('getBalance').length;
  assert.ok(slow.length >= 1 && slow.every((seen) => seen.aborted()), 'the slower call is aborted');
  assert.ok(used <= 10);
  bed.first.on('sendTransaction', async () => {
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { result: '"sent"' };
  });
  bed.second.on('sendTransaction', async () => {
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { result: '"sent"' };
  });
  await post(bed, call('sendTransaction', ['x']));
  assert.equal(bed.upstreams.flatMap((one) => one.callsOf('sendTransaction')).length, 1);
});

test('extra calls for slow reads are at most the share of all reads, after the first ten', async (t) => {
  const share = 0.2;
  const bed = await startBed(t, { upstreams: 2, merge: { upstream: { hedgeAfterMs: 5, hedgeShare: share } } });
  const slow = async () => {
    await new Promise((resolve) => setTimeout(resolve, 40));
    return { result: '1' };
  };
  for (const one of bed.upstreams) one.on('getBalance', slow);
  const reads = 200;
  for (let count = 0; count < reads; count += 20)
    await Promise.all(Array.from({ length: 20 }, (_, at) => post(bed, call('getBalance', [String(count + at)]))));
  const extra = bed.upstreams.flatMap((one) => one.callsOf('getBalance')).length - reads;
  assert.ok(extra >= 10, `${extra} extra calls: the share is used`);
  assert.ok(extra <= 10 + share * reads, `${extra} extra calls`);
  const metrics = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  const counted = Number(/^parhelion_proxy_hedged_calls_total(?:\{[^}]*\})? (\d+)$/m.exec(metrics)?.[1]);
  assert.equal(counted, extra);
});
