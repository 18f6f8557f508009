import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createChainReader } from '../../../src/adapters/chain/rpc/reader.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { REPLY_FAULTS } from '../../helpers/reply-faults.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

async function readerOver(t: TestContext, count: number) {
  const upstreams: TestUpstream[] = [];
  for (let made = 0; made < count; made += 1) upstreams.push(await startUpstream());
  const clock = createSystemClock();
  const parts = { core: followConfig({ requestTimeoutMs: 2_000 }), clock, log: createMemoryLog() };
  const metrics = createMetricsRegistry().scope('chain');
  const pool = createUpstreamPool({
    label: 'main',
    upstreams: upstreams.map(({ url }) => ({ url })),
    ...parts,
    metrics,
  });
  t.after(async () => {
    await pool.stop();
    for (const upstream of upstreams) await upstream.stop();
  });
  const reader = createChainReader({
    chain: 'main',
    kind: 'rpc',
    pool,
    clock,
    random: createSystemRandom(),
    timeoutMs: 2_000,
    maxBytes: 1_000_000,
    follower: { status: () => ({}), onReleased: () => () => undefined },
  });
  return { reader, upstreams };
}

test('a result as text is what the node sent, numbers of any size and blanks too', async (t) => {
  const { reader, upstreams } = await readerOver(t, 1);
  const result = '{ "lamports" : 18446744073709551615, "text":"ä\\u00e4\\"}" , "list":[1e400] }';
  upstreams[0]!.on('getTransaction', { result });
  assert.equal(await reader.callText('getTransaction', ['x'], { tenant: OWN_WORK }), result);
  assert.deepEqual(upstreams[0]!.callsOf('getTransaction')[0]?.params, ['x']);
});

test('null is believed when no upstream has more', async (t) => {
  const { reader, upstreams } = await readerOver(t, 2);
  for (const upstream of upstreams) upstream.on('getTransaction', { result: 'null' });
  assert.equal(await reader.callText('getTransaction', ['x'], { tenant: OWN_WORK }), 'null');
  for (const upstream of upstreams) assert.ok(upstream.callsOf('getTransaction').length > 0);
  upstreams[1]!.on('getTransaction', { result: '{"slot":7}' });
  assert.equal(await reader.callText('getTransaction', ['x'], { tenant: OWN_WORK }), '{"slot":7}');
});

test('errors of nodes and answers that are none', async (t) => {
  const { reader, upstreams } = await readerOver(t, 1);
  const answer = (text: string) => upstreams[0]!.on('getTransaction', { chunks: [text] });
  const code = async () => await reader.callText('getTransaction', ['x'], { tenant: OWN_WORK }).then(String, codeOf);
  answer('{"jsonrpc":"2.0","error":{"code":-32015,"message":"version"},"id":1}');
  assert.equal(await code(), 'CHAIN_RPC_ERROR');
  answer('<html>');
  assert.equal(await code(), 'CHAIN_UNREACHABLE');
});

test('what is not the whole answer to the call is asked of the next upstream', async (t) => {
  const odd = {
    'with a member twice': '{"jsonrpc":"2.0","result":{"slot":1},"result":{"slot":2},"id":1}',
    'with a code that is text':
      '{"jsonrpc":"2.0","error":{"code":"-32429","message":"rate limited"},"result":null,"id":1}',
    'with an error without a code': '{"jsonrpc":"2.0","error":{"message":"overloaded"},"result":null,"id":1}',
    'with an error that is text, beside null': '{"jsonrpc":"2.0","error":"overloaded","result":null,"id":1}',
  };
  const whole = Buffer.from('{"jsonrpc":"2.0","result":{"slot":1},"id":1}');
  const bodies = Object.entries(REPLY_FAULTS).map(([name, fault]) => [name, fault(whole).toString()]);
  for (const [name, body] of [...bodies, ...Object.entries(odd)] as [string, string][]) {
    // Parsed, the last of two members counts, as it does for JSON.parse.
    for (const way of name === 'with a member twice' ? (['callText'] as const) : (['call', 'callText'] as const)) {
      const { reader, upstreams } = await readerOver(t, 2);
      upstreams[0]!.on('getTransaction', { chunks: body === '' ? [] : [body] });
      upstreams[1]!.on('getTransaction', { result: '{"slot":7}' });
      const found = await reader[way]('getTransaction', ['x'], { tenant: OWN_WORK });
      assert.deepEqual(way === 'call' ? found : JSON.parse(String(found)), { slot: 7 }, `${name}: ${way}`);
      assert.equal(upstreams[0]!.callsOf('getTransaction').length, 1, name);
    }
  }
});
