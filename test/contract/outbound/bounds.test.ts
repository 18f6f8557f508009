/** What the guarded client refuses, gives up or releases, so that no target or name server can block it or fill its memory. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { createOutbound, createPools } from '../../../src/adapters/outbound/index.ts';
import {
  createAddressPolicy,
  createResolver,
  type LookupAll,
  type OutboundTarget,
  type ResolvedAddress,
} from '../../../src/adapters/outbound/resolver.ts';
import type { OutboundRequest } from '../../../src/ports/outbound.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';

const LOOPBACK = { allowCidrs: ['127.0.0.0/8'], allowHttp: true, allowPorts: null, caFile: null, maxConnections: 4 };
const v4 = (...all: string[]): ResolvedAddress[] => all.map((address) => ({ address, family: 4 }));
const never = () => new Promise<never>(() => undefined);

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

function openAt(lookup: LookupAll) {
  const clock = createManualClock();
  return { clock, client: createOutbound({ clock, log: createMemoryLog(), lookup }).open(LOOPBACK) };
}
const post = (url: string, patch: Partial<OutboundRequest> = {}): OutboundRequest => ({
  method: 'POST',
  url,
  body: Buffer.from('{}'),
  timeoutMs: 2_000,
  keepBytes: 16,
  maxBytes: 64,
  ...patch,
});
const resolver = (lookup: LookupAll) => {
  const clock = createManualClock();
  return { clock, names: createResolver(lookup, createAddressPolicy(LOOPBACK.allowCidrs), clock) };
};
const targetOf = (origin: string): OutboundTarget => ({
  origin,
  path: '/',
  host: 'x.example',
  literal: null,
  secure: false,
});

test('a closed client sends nothing', async () => {
  const { client } = openAt(async () => v4('127.0.0.1'));
  await client.close();
  const before = receiver.connections();
  await assert.rejects(client.request(post(receiver.url)), { code: 'OUTBOUND_CONNECT' });
  assert.equal(receiver.connections(), before);
});

test('the time of the look-up counts toward the deadline of the request', async () => {
  const before = receiver.received.length;
  // The clock moves during the look-up; the timers of the deadline do not fire in between.
  const clock = createManualClock();
  let lateMs = 0;
  const lookup = async () => {
    lateMs = 2_000;
    return v4('127.0.0.1');
  };
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const client = createOutbound({ clock: late, log: createMemoryLog(), lookup }).open(LOOPBACK);
  const url = `http://late.example:${receiver.port}/`;
  await assert.rejects(client.request(post(url)), { code: 'OUTBOUND_TIMEOUT' });
  assert.equal(receiver.received.length, before);
  await client.close();
});

test('an abort ends an unanswered request long before its deadline', { timeout: 20_000 }, async () => {
  const { client } = openAt(async () => v4('127.0.0.1'));
  receiver.script({ kind: 'silent' });
  const controller = new AbortController();
  const before = receiver.connections();
  const running = client.request(post(receiver.url, { signal: controller.signal, timeoutMs: 3_600_000 }));
  await until(() => receiver.connections() !== before);
  controller.abort();
  await assert.rejects(running, { code: 'OUTBOUND_TIMEOUT' });
  receiver.setFallback(answer(200));
  await client.close();
});

test('a name server that never answers is given up', { timeout: 20_000 }, async () => {
  const { clock, names } = resolver(never);
  const asked = names.resolve('slow.example');
  asked.catch(() => undefined);
  await clock.advance(60_000);
  await assert.rejects(asked, { code: 'OUTBOUND_DNS' });
});

test('a name without an address has its own error', async () => {
  const { names } = resolver(async () => []);
  await assert.rejects(names.resolve('empty.example'), { code: 'OUTBOUND_DNS' });
});

test('the number of concurrent look-ups is limited, because they occupy threads', async () => {
  let running = 0;
  const { clock, names } = resolver(() => {
    running += 1;
    return never();
  });
  const asked = Array.from({ length: 1_000 }, (_, i) =>
    names.resolve(`n${i}.example`).then(
      () => 'found',
      () => 'refused',
    ),
  );
  // Refused at once; running look-ups are given up at their deadline.
  assert.equal(await Promise.race(asked), 'refused');
  assert.ok(running <= 256, `${running}`);
  await clock.advance(60_000);
  assert.deepEqual([...new Set(await Promise.all(asked))], ['refused']);
});

test('a socket that reached an unvetted address carries nothing', { timeout: 20_000 }, async () => {
  const pools = createPools({ clock: createManualClock(), maxConnections: 1, ca: null });
  const before = receiver.received.length;
  // A literal address is connected without a look-up, whatever the list contains.
  const { pool, release } = pools.lease(targetOf(receiver.url.replace(/\/$/, '')), v4('127.0.0.2'));
  await assert.rejects(pool.request({ path: '/', method: 'GET' }), { code: 'OUTBOUND_BLOCKED_ADDRESS' });
  assert.equal(receiver.received.length, before);
  release();
  await pools.close();
});

test('idle pools are closed, those in use are kept', async () => {
  const clock = createManualClock();
  const pools = createPools({ clock, maxConnections: 1, ca: null });
  const lease = (name: string) => pools.lease(targetOf(`http://${name}.example`), v4('127.0.0.1'));
  const resting = lease('resting');
  const busy = lease('busy');
  resting.release();
  await clock.advance(120_000);
  assert.ok(resting.pool.destroyed);
  assert.ok(!busy.pool.destroyed);
  assert.equal(lease('busy').pool, busy.pool);
  assert.notEqual(lease('resting').pool, resting.pool);
  await pools.close();
});

test('the number of pools is bounded for any number of targets', async () => {
  const pools = createPools({ clock: createManualClock(), maxConnections: 1, ca: null });
  const opened = Array.from({ length: 3_000 }, (_, i) => {
    const { pool, release } = pools.lease(targetOf(`http://t${i}.example`), v4('127.0.0.1'));
    release();
    return pool;
  });
  assert.ok(opened.filter((pool) => !pool.destroyed).length <= 2_048);
  await pools.close();
  assert.ok(opened.every((pool) => pool.destroyed));
});

test('a long keep-alive hint of a receiver does not hold sockets', { timeout: 30_000 }, async () => {
  const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    request.resume();
    response.setHeader('Keep-Alive', 'timeout=600');
    response.end('ok');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const closed = new Promise<void>((resolve) => server.on('connection', (socket) => socket.on('close', resolve)));
  const { client } = openAt(async () => v4('127.0.0.1'));
  assert.equal((await client.request(post(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`))).status, 200);
  await closed;
  await client.close();
  await new Promise((resolve) => server.close(resolve));
});
