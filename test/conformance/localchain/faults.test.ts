import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';
import { WebSocket } from 'ws';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import type { FaultRule } from '../../helpers/chain-fault-rules.ts';

const confirmed = { commitment: 'confirmed' };

suite('fault rules', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  const address = 'GgapobpEiifXQjgWSoMzcJFq5mGy5Qnkuurc5hYLeeTt';
  before(async () => {
    chain = await startChain();
    await chain.fund(address, 1_000_000_000);
    await chain.fund(address, 1_000_000_000);
    await chain.seal(5);
  });
  afterEach(() => chain.faults.clear());
  after(() => chain.stop());

  const item = (method: string, params: unknown[] = [], id = 1) => ({ jsonrpc: '2.0', id, method, params });
  const post = (body: unknown, signal?: AbortSignal) =>
    fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'probe/1' },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  async function call(method: string, ...params: unknown[]): Promise<{ result?: never; error?: { code: number } }> {
    return (await (await post(item(method, params))).json()) as never;
  }
  const withRule = (rule: FaultRule) => chain.faults.set([rule]);

  test('a fork that the node notices late: the old branch is shown so many times per method', async () => {
    const own = await startChain({ seed: 'late' });
    try {
      await own.seal(6);
      const read = async (method: string, ...params: unknown[]) => {
        const response = await fetch(own.rpcUrl, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(item(method, params)),
        });
        return (await response.json()) as { result: { blockhash: string } & readonly number[] };
      };
      const tip = Number((await read('getSlot', confirmed)).result);
      const before = (await read('getBlock', tip, confirmed)).result.blockhash;
      const { dropped, added } = await own.fork({ depth: 3, replay: 'none', gap: 1, servesOld: 2 });
      const hashes: string[] = [];
      for (let round = 0; round < 4; round += 1)
        hashes.push((await read('getBlock', tip, confirmed)).result.blockhash === before ? 'old' : 'new');
      assert.deepEqual(hashes, ['old', 'old', 'new', 'new']);
      const slots: number[] = [];
      for (let round = 0; round < 3; round += 1) slots.push(Number((await read('getSlot', confirmed)).result));
      const newest = added.at(-1)!.slot;
      assert.deepEqual(slots, [tip, tip, newest]);
      const first = dropped[0]!.slot;
      assert.ok((await read('getBlocks', first, tip, confirmed)).result.includes(first));
      await read('getBlocks', first, tip, confirmed);
      assert.equal((await read('getBlocks', first, tip, confirmed)).result.includes(first), false);
    } finally {
      await own.stop();
    }
  });

  test('after, times, match and the log', async () => {
    withRule({ id: 'third', match: { method: 'getSlot' }, after: 2, times: 1, action: 'rpcError', code: -32005 });
    const codes: unknown[] = [];
    for (let round = 0; round < 4; round += 1) codes.push((await call('getSlot')).error?.code);
    assert.deepEqual(codes, [undefined, undefined, -32005, undefined]);
    assert.deepEqual(
      chain.faults.log().map(({ rule, action, method }) => [rule, action, method]),
      [['third', 'rpcError', 'getSlot']],
    );
    withRule({ match: { method: 'getSlot', client: 'other' }, action: 'rpcError', code: -1 });
    assert.equal((await call('getSlot')).error, undefined);
    withRule({ match: { slots: [1002, 1003] }, action: 'wrongSkip' });
    const seen: unknown[] = [];
    for (const slot of [1001, 1002, 1003, 1004]) seen.push((await call('getBlock', slot, confirmed)).error?.code);
    assert.deepEqual(seen, [undefined, -32007, -32007, undefined]);
  });

  test('chance is drawn from the seed', async () => {
    const draw = async (seed: number) => {
      chain.faults.set({ seed, rules: [{ rate: 0.5, action: 'rpcError', code: -1 }] });
      const codes: unknown[] = [];
      for (let round = 0; round < 20; round += 1) codes.push((await call('getSlot')).error?.code ?? 0);
      return codes.join();
    };
    const first = await draw(3);
    assert.equal(await draw(3), first);
    assert.notEqual(await draw(4), first);
  });

  test('changed answers', async () => {
    const real = (await call('getBlock', 1002, confirmed)).result as unknown as Record<string, unknown>;
    const under = async (rule: FaultRule, method = 'getBlock', ...params: unknown[]) => {
      withRule(rule);
      return (await call(method, ...(method === 'getBlock' ? [1002, confirmed] : params))).result as never;
    };
    assert.equal(await under({ action: 'nullBlock' }), null);
    assert.equal((await under({ action: 'wrongParent' }))['parentSlot'], (real['parentSlot'] as number) - 1);
    assert.notEqual((await under({ action: 'wrongHash' }))['previousBlockhash'], real['previousBlockhash']);
    assert.deepEqual((await under({ action: 'dropTx' }))['transactions'], []);
    assert.equal((await under({ action: 'nullBlockTime' }))['blockTime'], null);
    assert.equal((await under({ action: 'nullMeta' }))['transactions'][0]['meta'], null);
    const slots = await under({ action: 'hideSlots', hidden: [1001] }, 'getBlocks', 1000, 1003, confirmed);
    assert.deepEqual(slots, [1000, 1002, 1003]);
    assert.equal(await under({ action: 'tipBack', by: 3 }, 'getSlot', confirmed), 1004);
    assert.equal(await under({ action: 'lag', slots: 3 }, 'getSlot', confirmed), 1004);
    const balance = await under({ action: 'lag', slots: 6 }, 'getBalance', address, confirmed);
    assert.equal(balance['value'], 1_000_000_000);
    const history = await under({ action: 'missingSignature' }, 'getSignaturesForAddress', address, confirmed);
    assert.equal((history as unknown[]).length, 1);
    assert.equal(await under({ action: 'pruned', first: 1003 }, 'getFirstAvailableBlock'), 1003);
    withRule({ action: 'pruned', first: 1003 });
    assert.equal((await call('getBlock', 1002, confirmed)).error?.code, -32001);
    chain.faults.clear();
    assert.deepEqual((await call('getBlock', 1002, confirmed)).result, real);
  });

  test('broken HTTP', async () => {
    const under = (rule: FaultRule) => {
      withRule(rule);
      return post(item('getHealth'));
    };
    const limited = await under({ action: 'status', status: 429, retryAfter: 7, body: 'html' });
    assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '7']);
    assert.match(await limited.text(), /<html>/);
    await assert.rejects(async () => (await under({ action: 'truncate', bytes: 10 })).text());
    await assert.rejects(async () => (await under({ action: 'truncate', bytes: 10, mode: 'chunked' })).text());
    const clean = await under({ action: 'truncate', bytes: 10, mode: 'clean' });
    assert.equal((await clean.text()).length, 10);
    for (const form of ['text', 'trailing'] as const) {
      const garbage = await under({ action: 'garbage', form });
      await assert.rejects(garbage.json(), SyntaxError);
    }
    assert.equal((await under({ action: 'garbage', form: 'contentType' })).headers.get('content-type'), 'text/html');
    assert.equal((await (await under({ action: 'oversize', bytes: 100_000 })).text()).length, 100_000);
    await assert.rejects(under({ action: 'reset' }));
    await assert.rejects(async () => (await under({ action: 'reset', during: true })).text());
    const late = await under({ action: 'latency', ms: 1, jitterMs: 1, afterHeaders: true });
    assert.equal(((await late.json()) as { result: string }).result, 'ok');
    withRule({ action: 'hang' });
    const gaveUp = new AbortController();
    const hung = post(item('getHealth'), gaveUp.signal);
    while (chain.faults.log().at(-1)?.action !== 'hang') await new Promise((resolve) => setImmediate(resolve));
    chain.faults.clear();
    assert.equal((await call('getHealth')).result, 'ok');
    gaveUp.abort();
    await assert.rejects(hung, { name: 'AbortError' });
  });

  test('batches: order, doubles, refusal, one item alone', async () => {
    const batch = [item('getSlot', [], 1), item('getHealth', [], 2)];
    const ids = async () => ((await (await post(batch)).json()) as { id: number }[]).map(({ id }) => id);
    withRule({ action: 'outOfOrder' });
    assert.deepEqual(await ids(), [2, 1]);
    withRule({ action: 'duplicate' });
    assert.deepEqual(await ids(), [1, 1, 2, 2]);
    withRule({ match: { item: 1 }, action: 'rpcError', code: -5 });
    const answers = (await (await post(batch)).json()) as { error?: { code: number } }[];
    assert.deepEqual(
      answers.map(({ error }) => error?.code),
      [undefined, -5],
    );
    withRule({ action: 'noBatch' });
    assert.deepEqual(await (await post(batch)).json(), {
      error: { code: -32600, message: 'Only method calls are supported' },
      id: null,
    });
    assert.equal((await call('getHealth')).result, 'ok');
  });

  test('parallel calls finish in reverse', async () => {
    withRule({ match: { method: 'getBlockTime' }, action: 'outOfOrder', window: 3 });
    const finished: number[] = [];
    const started: Promise<void>[] = [];
    for (const slot of [1001, 1002, 1003]) {
      started.push(call('getBlockTime', slot).then(() => void finished.push(slot)));
    }
    await Promise.all(started);
    const arrived = chain.faults.log().slice(-3);
    assert.deepEqual(finished, arrived.map(({ slot }) => slot).toReversed());
  });

  test('a fork in the middle of a call; control calls are never touched', async () => {
    const tip = (await call('getSlot', confirmed)).result as unknown as number;
    withRule({ action: 'rollback', fork: { depth: 2, replay: 'all' }, times: 1 });
    const info = (await call('local_info')).result as unknown as { slot: number; engine: string };
    assert.deepEqual([info.slot, info.engine], [tip, 'litesvm 1.5.0']);
    assert.ok(((await call('getSlot', confirmed)).result as unknown as number) > tip);
    withRule({ action: 'status', status: 500 });
    assert.equal((await call('local_clearFaults')).result, true);
    assert.equal((await call('getHealth')).result, 'ok');
    assert.equal((await call('local_faults', { rules: [{}] })).error?.code, -32602);
  });

  test('notifications: silence, doubles, turned round, ended', async () => {
    const socket = new WebSocket(chain.wsUrl);
    const heard: number[] = [];
    let wake = (): void => undefined;
    let answered = (): void => undefined;
    const subscribed = new Promise<void>((resolve) => {
      answered = resolve;
    });
    socket.on('message', (data) => {
      const { params } = JSON.parse(String(data)) as { params?: { result: { slot: number } } };
      if (params === undefined) answered();
      else heard.push(params.result.slot);
      wake();
    });
    await new Promise((resolve) => socket.once('open', resolve));
    socket.send(JSON.stringify(item('slotSubscribe')));
    await subscribed;
    const hear = async (count: number) => {
      while (heard.length < count)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      return heard.splice(0);
    };
    const next = async () => {
      await chain.seal();
      return (await call('getSlot', { commitment: 'processed' })).result as unknown as number;
    };
    const match = { subscription: 'slot' };
    withRule({ match, action: 'duplicate' });
    const doubled = await next();
    assert.deepEqual(await hear(2), [doubled, doubled]);
    withRule({ match, action: 'outOfOrder', window: 2 });
    const [one, two] = [await next(), await next()];
    assert.deepEqual(await hear(2), [two, one]);
    withRule({ match, action: 'wsSilent', times: 2 });
    await chain.seal(2);
    const loud = await next();
    assert.deepEqual(await hear(1), [loud]);
    withRule({ action: 'wsNoPong' });
    let pongs = 0;
    socket.on('pong', () => {
      pongs += 1;
    });
    socket.ping();
    const after = await next();
    assert.deepEqual([await hear(1), pongs], [[after], 0]);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    withRule({ match, action: 'wsDrop', code: 1011 });
    await chain.seal();
    assert.equal(await closed, 1011);
  });
});
