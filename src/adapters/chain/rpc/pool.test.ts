import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { followConfig } from '../../../../test/helpers/follow-config.ts';
import { createMemoryLog } from '../../../../test/helpers/memory-log.ts';
import { createMetricsRegistry } from '../../../runtime/metrics.ts';
import { createSystemClock } from '../../clock.ts';
import { createUpstreamPool } from './index.ts';

const GENESIS = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG';

/** A pool with one upstream whose answers the test writes by hand; it tells its chain only when `tellChain` resolves. */
async function handWritten(t: TestContext) {
  const waiting = new Map<string, ServerResponse>();
  let tellChain = Promise.resolve();
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { method } = JSON.parse(body) as { method: string };
      if (method !== 'getGenesisHash') return void waiting.set(method, response);
      void tellChain.then(() => response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: GENESIS })));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pool = createUpstreamPool({
    ...{ label: 'main', upstreams: [{ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }] },
    ...{ core: followConfig(), clock: createSystemClock(), log: createMemoryLog() },
    metrics: createMetricsRegistry().scope('chain'),
  });
  t.after(async () => {
    await pool.stop();
    server.closeAllConnections();
    server.close();
  });
  pool.bind(GENESIS);
  await pool.identify();
  const [upstream] = pool.candidates();
  assert.ok(upstream);
  const send = (method: string) =>
    pool.send(upstream, { body: JSON.stringify({ method }), timeoutMs: 5_000, maxBytes: 1_000 });
  const arrived = async (method: string) => {
    while (!waiting.has(method)) await sleep(1);
    return waiting.get(method)!;
  };
  return { pool, send, arrived, chainIsTold: (when: Promise<void>) => (tellChain = when) };
}

test('an answer that breaks off while the chain of its upstream is checked ends in an error of the call, and its place is free', async (t) => {
  const { pool, send, arrived, chainIsTold } = await handWritten(t);
  let tell = () => {};
  chainIsTold(new Promise((resolve) => (tell = resolve)));
  const broken = assert.rejects(send('first'), { code: 'UPSTREAM_FAILED' });
  const second = send('second');
  const response = await arrived('second');
  // A connection that breaks: the upstream has to say which chain it serves.
  (await arrived('first')).destroy();
  await sleep(20);
  response.writeHead(200, { 'content-length': '100' });
  response.write('half');
  await sleep(20);
  response.destroy();
  await sleep(20);
  tell();
  await broken;
  const { body } = await second;
  await assert.rejects(
    async () => {
      for await (const _chunk of body);
    },
    { code: 'UPSTREAM_FAILED' },
  );
  assert.equal(pool.states()[0]?.inFlight, 0);
});
