import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { followConfig } from '../../../../test/helpers/follow-config.ts';
import { createMemoryLog } from '../../../../test/helpers/memory-log.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import { createMetricsRegistry } from '../../../runtime/metrics.ts';
import { createSystemClock } from '../../clock.ts';
import { createUpstreamPool } from './index.ts';

const GENESIS = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG';

/** A node that answers getGenesisHash at once, or when `isTold` resolves; other calls wait for the test. */
async function startNode(t: TestContext, genesisHash = GENESIS, isTold = Promise.resolve()) {
  const waiting = new Map<string, ServerResponse>();
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { method } = JSON.parse(body) as { method: string };
      if (method !== 'getGenesisHash') return void waiting.set(method, response);
      void isTold.then(() => response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: genesisHash })));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async answer(method: string, text: string) {
      while (!waiting.has(method)) await sleep(1);
      waiting.get(method)!.end(text);
    },
  };
}

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
    label: 'main',
    upstreams: [{ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }],
    core: followConfig(),
    clock: createSystemClock(),
    log: createMemoryLog(),
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
    pool.send(upstream, { tenant: OWN_WORK, body: JSON.stringify({ method }), timeoutMs: 5_000, maxBytes: 1_000 });
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

test('other upstreams replace those of a running pool: the new one tells its chain first, and what was asked is answered', async (t) => {
  let tell = () => {};
  const [first, kept, next, foreign] = [
    await startNode(t),
    await startNode(t),
    await startNode(t, GENESIS, new Promise((resolve) => (tell = resolve))),
    await startNode(t, 'of another chain'),
  ];
  let upstreams = [{ url: first.url }, { url: kept.url }];
  const pool = createUpstreamPool({
    label: 'main',
    upstreams: () => upstreams,
    core: followConfig(),
    clock: createSystemClock(),
    log: createMemoryLog(),
    metrics: createMetricsRegistry().scope('chain'),
  });
  t.after(() => pool.stop());
  pool.bind(GENESIS);
  await pool.identify();
  const labels = () => pool.candidates().map(({ label }) => label);
  const text = async (asked: ReturnType<typeof pool.send>) => {
    let all = '';
    for await (const chunk of (await asked).body) all += String(chunk);
    return all;
  };
  const send = (label: number, method: string) =>
    pool.send(known[label]!, { tenant: OWN_WORK, body: JSON.stringify({ method }), timeoutMs: 5_000, maxBytes: 1_000 });
  const known = [...pool.candidates()];
  assert.deepEqual(labels(), ['main-0', 'main-1']);
  const asked = text(send(0, 'slow'));
  await sleep(20);

  upstreams = [{ url: next.url }, { url: foreign.url }, { url: kept.url }];
  assert.deepEqual(labels(), ['main-1'], 'the others have not told their chain yet');
  await assert.rejects(send(0, 'late'), { code: 'UPSTREAM_CONNECT', retryable: true });
  tell();
  while (labels().length < 2) await sleep(1);
  assert.deepEqual(labels(), ['main-2', 'main-1'], 'in the new order; no label is used again');
  assert.equal(pool.states().find(({ label }) => label === 'main-3')?.otherChain, 'of another chain');
  await first.answer('slow', 'of the first');
  assert.equal(await asked, 'of the first');
});

test('an error is a proof of nothing from an upstream that has told its chain before, and enough from one that never could', async (t) => {
  let refuses = true;
  const server = createServer((_request, response) => {
    const answer = refuses ? { error: { code: -32005, message: 'Node is unhealthy' } } : { result: GENESIS };
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, ...answer }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pool = createUpstreamPool({
    label: 'main',
    upstreams: [{ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }],
    core: followConfig(),
    clock: createSystemClock(),
    log: createMemoryLog(),
    metrics: createMetricsRegistry().scope('chain'),
  });
  t.after(async () => {
    await pool.stop();
    server.closeAllConnections();
    server.close();
  });
  const inService = () => pool.states().map((state) => state.inService);
  pool.bind(GENESIS);
  assert.deepEqual([await pool.identify(), inService()], [true, [true]]);
  refuses = false;
  assert.deepEqual([await pool.identify(), inService()], [true, [true]]);
  refuses = true;
  assert.deepEqual([await pool.identify(), inService()], [false, [false]]);
  refuses = false;
  assert.deepEqual([await pool.identify(), inService()], [true, [true]]);
});
