import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { createHealth, type Health } from '../../../src/http/health.ts';
import { type AdminFront, createAdminFront } from '../../../src/http/index.ts';
import { defineRoute, type HealthCheck, json } from '../../../src/plugin/plugin.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { testCore } from '../../helpers/http-front.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { rawRequest } from '../../helpers/raw-http.ts';

const status = (more: Partial<ChainStatus> = {}): ChainStatus => ({
  chain: 'main',
  kind: 'local',
  cluster: 'local',
  engine: 'litesvm',
  genesisHash: 'g',
  tipSlot: 100,
  cursorSlot: 99,
  finalizedSlot: 60,
  lagSlots: 1,
  slotMs: 400,
  stalled: null,
  openGaps: 0,
  ...more,
});

let chain = status();
let check: HealthCheck['run'] = async () => ({ ok: true, detail: 'fine' });
let checks = 0;
/** What the clock of the checks says while it stands still. */
let stoppedMs: number | null = null;
let health: Health;
let admin: AdminFront;
let port = 0;

before(async () => {
  const clock = createSystemClock();
  const log = createMemoryLog();
  const registry = createMetricsRegistry();
  registry.scope('sample').counter('things_total', 'things').add(3);
  const core = testCore();
  health = createHealth({
    checks: [
      {
        name: 'sample',
        run: (signal) => {
          checks += 1;
          return check(signal);
        },
      },
    ],
    chains: () => [chain],
    maxReadyLag: { seconds: 60, slots: null },
    version: '1.2.3',
    clock: { ...clock, monotonic: () => stoppedMs ?? clock.monotonic() },
    log,
    checkTimeoutMs: 200,
  });
  const route = (path: string, auth: 'admin' | 'none') =>
    defineRoute({
      method: 'POST',
      path,
      summary: '',
      tag: '',
      auth,
      errors: 'plain',
      body: Type.Unknown(),
      replies: {},
      handler: (request) => json({ got: request.body }),
    });
  admin = createAdminFront({
    core: { ...core, admin: { ...core.admin, allowedHosts: ['ops.example'] } },
    routes: [route('/reload', 'admin'), route('/public', 'none')],
    health,
    registry,
    lastReload: () => null,
    log,
    metrics: registry.scope('admin'),
    expiry: registry.scope('tls').gauge('certificate_expiry_timestamp_seconds', 'expiry', ['listener']),
    clock,
    random: createSystemRandom(),
    version: '0.0.0-test',
  });
  ({ port } = await admin.listen());
});
after(() => admin.close(AbortSignal.timeout(1_000)));

const ask = (path: string, host = '127.0.0.1', headers = '', method = 'GET') =>
  rawRequest(port, `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`, method === 'HEAD');
/** Checks of one probe serve all probes for half a second. */
const freshChecks = () => new Promise((resolve) => setTimeout(resolve, 550));

test('liveness names version and chain, GET and HEAD', async () => {
  const answer = await ask('/healthz');
  assert.equal(answer.status, 200);
  assert.deepEqual(JSON.parse(answer.body), {
    status: 'ok',
    version: '1.2.3',
    chain: [{ chain: 'main', kind: 'local', cluster: 'local', engine: 'litesvm' }],
  });
  assert.equal((await ask('/healthz', '127.0.0.1', '', 'HEAD')).status, 200);
});

test('readiness follows start, checks, chain and drain', async () => {
  const ready = async () => {
    const answer = await ask('/readyz');
    const body = JSON.parse(answer.body);
    return { status: answer.status, body, failed: body.checks.filter((one: { ok: boolean }) => !one.ok) };
  };
  assert.deepEqual(
    (await ready()).failed.map((one: { name: string }) => one.name),
    ['started'],
  );
  health.setStarted();
  const good = await ready();
  assert.deepEqual([good.status, good.body.ready, good.body.chain[0].cursorSlot], [200, true, 99]);

  chain = status({ stalled: 'hole at slot 7' });
  assert.deepEqual((await ready()).failed, [{ name: 'chain main', ok: false, detail: 'hole at slot 7' }]);
  chain = status({ lagSlots: 151 });
  assert.equal((await ready()).status, 503);
  chain = status({ lagSlots: 150 });
  assert.equal((await ready()).status, 200);

  for (const [run, detail] of [
    [async () => ({ ok: false, detail: 'no upstream' }), 'no upstream'],
    [() => new Promise<never>(() => {}), 'no answer within 200 ms'],
    [async () => Promise.reject(new Error('postgres://user:pass@host')), 'the check failed; the log says why'],
    [
      () => {
        throw new Error('postgres://user:pass@host');
      },
      'the check failed; the log says why',
    ],
  ] as const) {
    await freshChecks();
    check = run;
    const answer = await ready();
    assert.equal(answer.status, 503);
    assert.deepEqual(answer.failed, [{ name: 'sample', ok: false, detail }]);
  }
  check = async () => ({ ok: true, detail: 'fine' });
  await freshChecks();
  const before = checks;
  // All at one moment, however long a busy machine takes for them.
  stoppedMs = performance.now();
  await Promise.all(Array.from({ length: 20 }, () => ask('/readyz')));
  stoppedMs = null;
  assert.equal(checks - before, 1, 'many probes share one run');
  health.setDraining();
  const draining = await ready();
  assert.deepEqual([draining.status, draining.body.draining], [503, true]);
});

test('metrics are text for Prometheus', async () => {
  const answer = await ask('/metrics');
  assert.equal(answer.status, 200);
  assert.match(answer.headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/);
  assert.match(answer.body, /^parhelion_sample_things_total 3$/m);
  assert.match(answer.body, /^parhelion_admin_requests_total\{method="GET",route="\/healthz",status="200"\} 2$/m);
});

test('the document and the metrics are compressed for who accepts it', async () => {
  for (const path of ['/openapi.json', '/metrics']) {
    const plain = await ask(path);
    const { headers } = await ask(path, '127.0.0.1', 'Accept-Encoding: gzip\r\n');
    const isLarge = Number(plain.headers['content-length']) > 1_024;
    assert.equal(headers['content-encoding'], isLarge ? 'gzip' : undefined, path);
  }
});

test('only loopback names, literal addresses and configured hosts are answered', async () => {
  for (const host of ['localhost', `localhost:${port}`, '127.0.0.1:1', '[::1]:9', '10.1.2.3', 'OPS.example:8790'])
    assert.equal((await ask('/healthz', host)).status, 200, host);
  for (const host of ['evil.example', 'localhost.evil.example', 'ops.example.evil', '127.0.0.1.nip.io', '0x7f000001'])
    assert.equal((await ask('/healthz', host)).status, 403, host);
});

test('pages of other origins are refused', async () => {
  assert.equal((await ask('/healthz', 'localhost:5', 'Origin: http://localhost:5\r\n')).status, 200);
  for (const origin of ['http://localhost:6', 'http://evil.example', 'null', 'https://localhost'])
    assert.equal((await ask('/healthz', 'localhost:5', `Origin: ${origin}\r\n`)).status, 403, origin);
  const answer = await ask('/healthz', 'localhost');
  assert.equal(answer.headers['access-control-allow-origin'], undefined);
  assert.notEqual((await ask('/healthz', 'localhost', '', 'OPTIONS')).status, 200);
});

test('a browser that opens the listener finds its pages; other clients get what they always got', async () => {
  const get = (path: string, accept: string) =>
    rawRequest(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: ${accept}\r\n\r\n`);
  const page = await get('/', 'text/html,application/xhtml+xml,*/*;q=0.8');
  assert.equal(page.status, 200);
  for (const link of ['/docs', '/readyz', '/metrics']) assert.ok(page.body.includes(`href="${link}"`), link);
  assert.equal((await get('/', '*/*')).status, 404);
  const docs = await get('/docs', 'text/html');
  assert.equal(docs.status, 200);
  const reference = JSON.parse((await get('/docs/reference.json', '*/*')).body) as { paths: object };
  assert.ok(Object.keys(reference.paths).includes('/reload'));
});

test('only routes of operators are served', async () => {
  const post = (path: string) =>
    rawRequest(port, `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}`);
  assert.deepEqual(JSON.parse((await post('/reload')).body), { got: {} });
  assert.equal((await post('/public')).status, 404);
  assert.equal((await post('/')).status, 404);
});

test('a document describes what this listener serves, and nothing of the other one', async () => {
  const answer = await ask('/openapi.json');
  assert.equal(answer.status, 200);
  const { paths } = JSON.parse(answer.body) as { paths: Record<string, Record<string, { security?: unknown }>> };
  assert.deepEqual(Object.keys(paths).sort(), [
    '/docs',
    '/healthz',
    '/metrics',
    '/openapi.json',
    '/readyz',
    '/reload',
    '/v0/admin/reload',
  ]);
  assert.deepEqual(Object.keys(paths['/reload'] ?? {}), ['post']);
  const metrics = paths['/metrics']?.['get'] as unknown as { responses: { 200: { content: object } } };
  assert.deepEqual(Object.keys(metrics.responses[200].content), ['text/plain']);
});
