/** Which requests are compared: shares by method and product, alone and in batches, and nothing that sends or belongs to a key. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDaemon } from '../../helpers/daemon.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const CALLS = 400;
const SHARE = 0.25;
/** More than five standard deviations of so many draws. */
const MAX_OFF = 45;

test('shares are those of the method, of the product, or of all', async (t) => {
  const upstream = await startUpstream();
  upstream.on('*', { result: '5' });
  const reference = await startReceiver();
  reference.setFallback(answer(200, {}, '{"jsonrpc":"2.0","id":1,"result":5}'));
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'proxy', 'shadow'],
      follow: { enabled: false },
      shadow: {
        share: SHARE,
        shares: { archival: 0, getBlockTime: 1, getHealth: 0 },
        maxWaiting: 10_000,
        reference: { url: reference.url, apiKey: 'key-of-the-reference' },
      },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await reference.close();
    await upstream.stop();
  });
  const post = async (body: unknown) => {
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200);
    await response.text();
  };
  const call = (id: number, method: string) => ({ jsonrpc: '2.0', id, method, params: [id] });
  const methods = ['getBlockTime', 'getBlocks', 'getHealth', 'getBalance', 'sendTransaction', 'requestAirdrop'];
  for (let at = 0; at < CALLS; at += 8) {
    const calls = Array.from({ length: 8 }, (_, index) => at + index + 1);
    for (const method of methods)
      if (at % 16 === 0) await Promise.all(calls.map((id) => post(call(id, method))));
      else await post(calls.map((id) => call(id, method)));
  }
  await until(async () => {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    return /^parhelion_shadow_held_bytes 0$/m.test(text);
  }, 'nothing waits');
  const asked = (method: string) =>
    reference.received.filter(({ body }) => body.toString().includes(`"method":"${method}"`)).length;
  assert.equal(asked('getBlockTime'), CALLS, 'the method counts more than its product');
  assert.equal(asked('getBlocks'), 0, 'the product');
  assert.equal(asked('getHealth'), 0, 'the method');
  assert.ok(Math.abs(asked('getBalance') - SHARE * CALLS) <= MAX_OFF, `${asked('getBalance')} of ${CALLS}`);
  for (const method of ['sendTransaction', 'requestAirdrop'])
    assert.equal(asked(method), 0, `${method} changes something`);
});
