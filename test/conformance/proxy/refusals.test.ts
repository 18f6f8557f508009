/** A refusal that is about the node moves the call to the next upstream; one that is about the call never does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forwardedMethods } from '../../../plugins/proxy/methods.ts';
import { byCase } from '../../helpers/run-part.ts';
import type { Behaviour } from '../../helpers/upstream.ts';
import { OF_THE_NODE } from './refusal-rows.ts';
import { call, post, startBed, until } from './rpc-client.ts';
import { connect } from './socket-client.ts';

const error = (code: number, message: string): Behaviour => ({
  chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":${JSON.stringify(message)}},"id":1}`],
});

const OF_THE_CALL: readonly (readonly [code: number, message: string])[] = [
  [-32700, 'Parse error'],
  [-32600, 'Invalid request'],
  [-32602, 'Invalid params: invalid length'],
  [-32002, 'Transaction simulation failed: Blockhash not found'],
  [-32003, 'Transaction signature verification failure'],
  [-32006, 'Transaction precompile verification failure'],
  [-32009, 'Slot 7 was skipped, or missing in long-term storage'],
  [-32013, 'Transaction signature length mismatch'],
  [-32015, 'Transaction version (0) is not supported by the requesting client'],
  [-32017, 'Epoch rewards period still active at slot 7'],
  [-32018, 'Rewards cannot be found because slot 7 is not the epoch boundary'],
];

/** Without what the daemon itself asks of an upstream that was unhealthy, and what it answers by another method. */
const OWN = new Set(['getGenesisHash', 'getTokenAccountsByMint']);
const METHODS = forwardedMethods().flatMap(({ name, isSubscription }) =>
  isSubscription === true || OWN.has(name) ? [] : [name],
);
const isSend = (method: string): boolean => /^send|^requestAirdrop$/.test(method);

byCase(METHODS, (methods) =>
  test('every method, every refusal', async (t) => {
    const bed = await startBed(t, {
      upstreams: 2,
      config: { proxy: { stickyMs: 0, cache: { enabled: false } } },
      coolDownMs: 1,
    });
    for (const upstream of bed.upstreams) upstream.on('getFirst', { result: `"${upstream.url}"` });
    /** The first upstream does not cool down any more. */
    const isFirst = async () => (await post(bed, call('getFirst'))).text.includes(bed.first.url);
    const asked = (method: string) => bed.second.callsOf(method).length;
    for (const method of methods) {
      bed.second.on(method, { result: '"second"' });
      if (isSend(method)) await until('the first upstream is the first choice', isFirst);
      // Those that make it cool down come last.
      for (const [code, message, beforeSending] of [...OF_THE_NODE].reverse()) {
        bed.first.on(method, error(code, message));
        const moves = !isSend(method) || beforeSending;
        const { status, text } = await post(bed, call(method, [7]));
        assert.equal(status, 200, text);
        const said = JSON.parse(text) as { result?: unknown; error?: { code: number } };
        assert.deepEqual(
          [said.result, said.error?.code],
          moves ? ['second', undefined] : [undefined, code],
          `${method} ${message}`,
        );
      }
      for (const [code, message] of OF_THE_CALL) {
        bed.first.on(method, error(code, message));
        bed.second.on(method, error(code, message));
        const before = asked(method) + bed.first.callsOf(method).length;
        const { text } = await post(bed, call(method, [7]));
        assert.equal((JSON.parse(text) as { error: { code: number } }).error.code, code, `${method} ${message}`);
        assert.equal(asked(method) + bed.first.callsOf(method).length - before, 1, `${method} ${message}`);
      }
    }
  }),
);

const SUBSCRIPTIONS = forwardedMethods().flatMap(({ name, isSubscription }) =>
  isSubscription === true && name.endsWith('Subscribe') ? [name] : [],
);

byCase(SUBSCRIPTIONS, (methods) =>
  test('every subscription, every refusal', async (t) => {
    const bed = await startBed(t, { upstreams: 2, config: { proxy: { stickyMs: 0 } }, coolDownMs: 1 });
    const client = await connect(t, bed);
    const refuse = (code: number, message: string) => () => ({ error: JSON.stringify({ code, message }) });
    let count = 0;
    const ask = async (method: string) => {
      count += 1;
      // Equal subscriptions are one.
      const text = await client.call(method, [`${count}`]);
      return JSON.parse(text) as { readonly result?: number; readonly error?: { readonly code: number } };
    };
    for (const method of methods) {
      bed.second.onSubscribe(() => 'accept');
      for (const [code, message] of OF_THE_NODE) {
        bed.first.onSubscribe(refuse(code, message));
        const { result, error } = await ask(method);
        assert.deepEqual([typeof result, error], ['number', undefined], `${method} ${message}`);
      }
      for (const [code, message] of OF_THE_CALL) {
        bed.first.onSubscribe(refuse(code, message));
        bed.second.onSubscribe(refuse(1, 'was asked too'));
        assert.equal((await ask(method)).error?.code, code, `${method} ${message}`);
      }
      // The most useful one, whichever upstream says it.
      const [lacking, behind] = [refuse(-32601, 'Method not found'), refuse(-32005, 'Node is behind by 9 slots')];
      bed.first.onSubscribe(lacking);
      bed.second.onSubscribe(behind);
      const before = (await ask(method)).error?.code;
      bed.first.onSubscribe(behind);
      bed.second.onSubscribe(lacking);
      assert.deepEqual([before, (await ask(method)).error?.code], [-32005, -32005], method);
    }
  }),
);

test('a limited upstream cools down, and a refused call passes any number of upstreams', async (t) => {
  const bed = await startBed(t, { upstreams: 3 });
  const [first, second, third] = bed.upstreams;
  first!.on('getX', {
    headers: { 'retry-after': '600' },
    chunks: ['{"jsonrpc":"2.0","error":{"code":-32429,"message":"rate limited"},"id":1}'],
  });
  second!.on('getX', error(-32005, 'Node is behind by 9 slots'));
  third!.on('getX', { result: '"third"' });
  for (let round = 0; round < 3; round += 1)
    assert.equal((JSON.parse((await post(bed, call('getX'))).text) as { result: string }).result, 'third');
  assert.equal(first!.callsOf('getX').length, 1);
});

test('when all refuse, the caller gets the most useful refusal', async (t) => {
  const bed = await startBed(t, { upstreams: 2, config: { proxy: { stickyMs: 0 } } });
  for (const [one, other] of [
    [-32010, -32601],
    [-32429, -32601],
    [-32005, -32601],
    [-39999, -32429],
    [-32602, -32429],
  ] as const) {
    for (const [a, b] of [
      [one, other],
      [other, one],
    ] as const) {
      bed.first.on('getX', error(a, 'x'));
      bed.second.on('getX', error(b, 'x'));
      const { status, text } = await post(bed, call('getX'));
      assert.deepEqual(
        [status, (JSON.parse(text) as { error: { code: number } }).error.code],
        [200, one],
        `${a}, ${b}`,
      );
    }
  }
});

test('the only upstream is asked again at once after each refusal', async (t) => {
  const bed = await startBed(t);
  for (const [code, message] of OF_THE_NODE) {
    bed.first.on('getX', error(code, message));
    assert.equal((JSON.parse((await post(bed, call('getX'))).text) as { error: { code: number } }).error.code, code);
    bed.first.on('getX', { result: '7' });
    const { status, text } = await post(bed, call('getX'));
    assert.deepEqual([status, text], [200, '{"jsonrpc":"2.0","result":7,"id":1}'], message);
  }
});

test('a refusal of up to 1 MiB moves a call as a small one does, and a larger one reaches the caller whole', async (t) => {
  const bed = await startBed(t, { upstreams: 2, config: { proxy: { stickyMs: 0 } } });
  const envelopes: readonly ((error: string) => string)[] = [
    (error) => `{"jsonrpc":"2.0","id":1,"error":${error}}`,
    (error) => `{"error":${error},"jsonrpc":"2.0","id":1}`,
    (error) => `{"jsonrpc":"2.0","result":null,"error":${error},"id":1}`,
  ];
  bed.second.on('getX', { result: '"second"' });
  for (const size of [1_000, 65_000, 66_000, 131_072, 400_000, 1_040_000, 1_100_000, 3_000_000])
    for (const envelope of envelopes) {
      const data = `{"logs":["${'x'.repeat(size)}"]}`;
      const body = envelope(`{"code":-32010,"message":"excluded from account secondary indexes","data":${data}}`);
      // In pieces of an odd size, the last one at the end of the body.
      const chunks = body.match(/.{1,50021}/gs)!;
      bed.first.on('getX', { chunks });
      const asked = bed.second.callsOf('getX').length;
      const { status, text } = await post(bed, call('getX'));
      const moves = body.length <= 1_048_576;
      assert.deepEqual(
        [status, moves ? (JSON.parse(text) as { result: string }).result : text === body],
        [200, moves ? 'second' : true],
        `${body.length} bytes`,
      );
      assert.equal(bed.second.callsOf('getX').length - asked, moves ? 1 : 0, `${body.length} bytes`);
    }
});

test('after an unknown refusal exactly one other upstream is asked, and after one that is about the node the next ones', async (t) => {
  const bed = await startBed(t, { upstreams: 3, config: { proxy: { stickyMs: 0 } }, coolDownMs: 1 });
  const codes = [-39_999, -32_000, -32_020, 1, -32_603] as const;
  for (const [at, code] of codes.entries()) {
    const method = `getX${at}`;
    for (const upstream of bed.upstreams) upstream.on(method, error(code, 'it does not exist'));
    const { text } = await post(bed, call(method));
    assert.equal((JSON.parse(text) as { error: { code: number } }).error.code, code);
    assert.deepEqual(
      bed.upstreams.map((upstream) => upstream.callsOf(method).length),
      [1, 1, 0],
      `${code}`,
    );
    // Two that say nothing about the call do not take the place of the one other.
    const other = `getY${at}`;
    const [first, second, third] = bed.upstreams;
    first!.on(other, error(-32_010, 'x'));
    second!.on(other, error(code, 'it does not exist'));
    third!.on(other, { result: '"third"' });
    const moved = await post(bed, call(other));
    assert.equal((JSON.parse(moved.text) as { result: string }).result, 'third', `${code}`);
  }
});
