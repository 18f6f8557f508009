/**
 * A server or a load balancer may close a connection that was idle at the very moment when a request is on its way. Proxies and clients of
 * others send a read again then (nginx for each request on a connection it has kept); so do we, and never what sends something.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDaemon } from '../../helpers/daemon.ts';
import { startHttpServer } from '../../helpers/http-server.ts';
import { until } from '../../helpers/until.ts';
import { call, post } from './rpc-client.ts';

type End = (socket: Socket) => void;

const ENDS: Readonly<Record<string, End>> = {
  'is closed': (socket) => socket.destroy(),
  'is reset': (socket) => socket.resetAndDestroy(),
};

const RESULTS: Readonly<Record<string, unknown>> = { getGenesisHash: '11111111111111111111111111111112', getSlot: 7 };

/** A node that ends connections instead of answering: those that have answered before, or all. */
async function startNode(t: TestContext, end: End) {
  const answered = new WeakSet<Socket>();
  const calls: string[] = [];
  const kept = new Set<Socket>();
  const node = { calls, kept, ends: 'none' as 'none' | 'kept' | 'all', url: '', ended: 0, endsAll: false, pauseMs: 0 };
  const server = await startHttpServer(async (asked, request, response) => {
    if (asked.length === 0) return response.writeHead(404).end();
    const given = JSON.parse(asked.toString()) as { method: string; id: unknown };
    const all = [given].flat();
    // So that many calls at once need many connections.
    await sleep(node.pauseMs);
    const isCounted = all.some(({ method }) => /[XY]$|^send/.test(method));
    if (isCounted) calls.push(all.map(({ method }) => method).join());
    if (isCounted && (node.ends === 'all' || (node.ends === 'kept' && answered.has(request.socket)))) {
      node.ended += 1;
      for (const socket of node.endsAll ? kept : [request.socket]) end(socket);
      return;
    }
    answered.add(request.socket);
    kept.add(request.socket);
    request.socket.once('close', () => kept.delete(request.socket));
    const answers = all.map(({ id, method }) => ({ jsonrpc: '2.0', result: RESULTS[method] ?? method, id }));
    response.writeHead(200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify(Array.isArray(given) ? answers : answers[0]));
  });
  t.after(() => server.close());
  node.url = server.url;
  return node;
}

async function startBed(t: TestContext, end: End) {
  const node = await startNode(t, end);
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'proxy'],
      upstream: { urls: [{ url: node.url }], healthIntervalMs: 3_600_000 },
      follow: { enabled: false },
    },
  });
  t.after(() => daemon.stop());
  // The connection is kept from here on.
  await until(async () => (await post({ daemon }, call('getX'))).status === 200, 'the node answers');
  node.calls.length = 0;
  const ask = async (text: string) => {
    const { status, text: answer } = await post({ daemon }, text);
    return { status, body: JSON.parse(answer) as ReturnType<JSON['parse']> };
  };
  return { node, ask };
}

for (const [name, end] of Object.entries(ENDS)) {
  test(`a kept connection that ${name} while a read is on its way: the read is sent again and answered`, async (t) => {
    const { node, ask } = await startBed(t, end);
    node.ends = 'kept';
    // Two failures in a row would take the only upstream out of service.
    for (let turn = 0; turn < 4; turn += 1) {
      const { status, body } = await ask(call('getX'));
      assert.deepEqual([status, body.result], [200, 'getX'], `turn ${turn}`);
    }
    const { status, body } = await ask(`[${call('getX')},${call('getY')}]`);
    assert.deepEqual([status, body.map(({ result }: { result: unknown }) => result)], [200, ['getX', 'getY']]);
    assert.ok(node.ended >= 4, `${node.ended} connections ended`);
  });

  test(`a kept connection that ${name} while a transaction is on its way: it is not sent twice`, async (t) => {
    const { node, ask } = await startBed(t, end);
    node.ends = 'kept';
    const { status, body } = await ask(call('sendTransaction', ['x']));
    assert.deepEqual([status, body.error?.code], [503, -32002]);
    assert.deepEqual(node.calls, ['sendTransaction']);
  });

  test(`every kept connection ${name} at once, as after a time-out: a read is sent again and answered`, async (t) => {
    const { node, ask } = await startBed(t, end);
    node.pauseMs = 500;
    await Promise.all(Array.from({ length: 32 }, (_, number) => ask(call('getX', [number]))));
    assert.ok(node.kept.size > 16, `${node.kept.size} connections`);
    node.pauseMs = 0;
    node.ends = 'kept';
    node.endsAll = true;
    const { status, body } = await ask(call('getX'));
    assert.deepEqual([status, body.result], [200, 'getX']);
  });

  test(`every connection ${name}: a read is sent four times at most`, async (t) => {
    const { node, ask } = await startBed(t, end);
    node.ends = 'all';
    const { status, body } = await ask(call('getX'));
    assert.deepEqual([status, body.error?.code], [503, -32002]);
    assert.ok(node.calls.length <= 4, node.calls.join());
  });
}
