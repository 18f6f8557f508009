import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createSlotHints } from '../../../src/adapters/chain/rpc/slot-hints.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import { readLedger } from '../../helpers/ledger-processor.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { createFastClock } from './fast-clock.ts';
import { createBed, grow, settles, until } from './harness.ts';

const NOTICE = '{"parent":99,"root":60,"slot":100}';
/** So long that only a notice can end the wait within a test. */
const FOREVER_MS = 1_000_000_000;

function hintsOver(t: TestContext, urls: readonly string[]) {
  const clock = createFastClock(50);
  const log = createMemoryLog();
  const metrics = createMetricsRegistry().scope('upstream');
  const upstreams = urls.map((url) => ({ url }));
  const pool = createUpstreamPool({ label: 'main', upstreams, core: followConfig(), clock, log, metrics });
  const hints = createSlotHints({ pool, clock, log });
  const alive = setInterval(() => {}, 1_000);
  t.after(async () => {
    clearInterval(alive);
    await hints.stop();
    await pool.stop();
  });
  let woken = 0;
  hints.onHint(() => {
    woken += 1;
  });
  hints.start();
  return { woken: () => woken };
}

async function upstreamOf(t: TestContext): Promise<TestUpstream> {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  return upstream;
}

const subscribed = async (upstream: TestUpstream, count = 1) => {
  await until(() => upstream.subscriptions.length >= count);
  const found = upstream.subscriptions[count - 1];
  assert.ok(found, `subscription ${count} never came`);
  return found;
};

test('a slot notice ends the wait of the follower; without one it would wait on', async (t) => {
  const bed = await createBed(t, { follow: { pollMs: FOREVER_MS, auditIntervalMs: FOREVER_MS } });
  grow(bed.world, 3);
  await bed.follow();
  await settles(bed);
  const { server } = bed.nodes[0]!;
  await subscribed(server);
  for (let round = 0; round < 5; round += 1) {
    bed.world.grow(round, 1);
    assert.notEqual((await readLedger(bed.store)).lastSlot, bed.world.slot);
    // In the quick time of this test a silent socket is soon replaced: whichever is there is told.
    const timer = setInterval(() => {
      for (const subscription of server.held('slotSubscribe')) server.notify(subscription, NOTICE);
    }, 20);
    await settles(bed).finally(() => clearInterval(timer));
  }
});

test('without any websocket the follower follows by polling', async (t) => {
  const bed = await createBed(t);
  bed.nodes[0]!.server.onSubscribe(() => ({ error: '{"code":-32601,"message":"Method not found"}' }));
  await bed.follow();
  grow(bed.world, 6);
  await settles(bed);
});

test('a socket that falls silent without closing is replaced', async (t) => {
  const upstream = await upstreamOf(t);
  const { woken } = hintsOver(t, [upstream.url]);
  const first = await subscribed(upstream);
  upstream.notify(first, NOTICE);
  await until(() => woken() === 1);
  assert.equal(woken(), 1);
  const second = await subscribed(upstream, 2);
  await until(() => first.ended);
  assert.equal(first.ended, true);
  upstream.notify(second, NOTICE);
  await until(() => woken() === 2);
  assert.equal(woken(), 2);
});

test('a socket that is cut is replaced', async (t) => {
  const upstream = await upstreamOf(t);
  const { woken } = hintsOver(t, [upstream.url]);
  await subscribed(upstream);
  upstream.dropSockets();
  upstream.notify(await subscribed(upstream, 2), NOTICE);
  await until(() => woken() === 1);
  assert.equal(woken(), 1);
});

test('a node that is too busy for a subscription: the next one is asked', async (t) => {
  const [busy, other] = [await upstreamOf(t), await upstreamOf(t)];
  let refused = 0;
  busy.onSubscribe(() => {
    refused += 1;
    return { error: '{"code":-32006,"message":"too many subscriptions"}' };
  });
  const { woken } = hintsOver(t, [busy.url, other.url]);
  other.notify(await subscribed(other), NOTICE);
  await until(() => woken() > 0);
  assert.equal(woken(), 1);
  assert.equal(refused, 1);
  assert.equal(busy.openSockets, 0);
});

test('a subscription that the node drops later, saying so or not: another one is made', async (t) => {
  const upstream = await upstreamOf(t);
  const { woken } = hintsOver(t, [upstream.url]);
  const first = await subscribed(upstream);
  upstream.notify(first, NOTICE);
  first.socket.send('{"jsonrpc":"2.0","error":{"code":-32003,"message":"subscription dropped"}}');
  upstream.notify(await subscribed(upstream, 2), NOTICE);
  await until(() => woken() === 2);
  assert.equal(woken(), 2);
});

/** Two listeners on neighbouring ports: HTTP on the first, websockets on the second, as a validator has them. */
async function validatorLike(t: TestContext) {
  for (;;) {
    const http = createServer((_request, response) => response.writeHead(404).end());
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const { port } = http.address() as AddressInfo;
    const second = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      second.once('error', () => resolve(false));
      second.listen(port + 1, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) {
      http.close();
      continue;
    }
    const sockets = new WebSocketServer({ server: second });
    const close = (server: Server) => new Promise((resolve) => server.close(resolve));
    t.after(async () => {
      for (const client of sockets.clients) client.terminate();
      for (const server of [http, second]) {
        server.closeAllConnections();
        await close(server);
      }
    });
    return { url: `http://127.0.0.1:${port}`, sockets };
  }
}

test('the websocket is found one port higher when the address itself has none', async (t) => {
  const { url, sockets } = await validatorLike(t);
  const subscribes: string[] = [];
  sockets.on('connection', (socket) =>
    socket.on('message', (data) => {
      subscribes.push((JSON.parse(String(data)) as { method: string }).method);
      socket.send(`{"jsonrpc":"2.0","result":1,"id":1}`);
      socket.send(`{"jsonrpc":"2.0","method":"slotNotification","params":{"result":${NOTICE},"subscription":1}}`);
    }),
  );
  const { woken } = hintsOver(t, [url]);
  await until(() => woken() > 0);
  assert.deepEqual(subscribes, ['slotSubscribe']);
  assert.equal(woken(), 1);
});
