/**
 * A server for the HTTP rows, in a process of its own: `front` is the whole request pipeline over an answer that is ready,
 * `open` the same for everybody, `gated FILE` with the real one over a store with keys, `unseen` the one for everybody without log lines
 * and metrics, `bare` is node:http that reads the same request and sends the same bytes, `shared` is that in two processes behind one
 * listener.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Type } from '@sinclair/typebox';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { bufferedOutput, createLog } from '../../../src/adapters/log.ts';
import { createHttpFront } from '../../../src/http/index.ts';
import { createRpcFront } from '../../../src/http/json-rpc/front.ts';
import type { Gate } from '../../../src/plugin/host.ts';
import { defineRoute, GateRefusal, JsonText, json, type Price } from '../../../src/plugin/plugin.ts';
import type { Counter, Gauge, Histogram, Metrics } from '../../../src/ports/telemetry.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { testCore } from '../../helpers/http-front.ts';
import { BENCH_KEY, cachedText, rpcText } from './http-answers.ts';

const price: Price = { product: 'photon', credits: 10, groups: ['photon'] };

/** One key, as the access plugin knows it once it is cached, or every one; no limits. */
function oneKeyGate(isOpen = false): Gate {
  const caller = { projectId: 'p', keyId: 'k', plan: 'unlimited', wallet: null };
  const admission = { headers: {}, charge: () => 0 };
  return {
    authenticate: ({ query, header }) => {
      if (!isOpen && (query[0] ?? header) !== BENCH_KEY) throw new GateRefusal('bad-key');
      return caller;
    },
    admit: () => admission,
  };
}

/** The gate of the access plugin; it writes usage every second. */
async function realGate(path: string): Promise<Gate> {
  const { openSqliteStore } = await import('../../../src/store/sqlite.ts');
  const { startAccess } = await import('../../helpers/access-harness.ts');
  return startAccess(openSqliteStore({ path, busyTimeoutMs: 5_000 }), createSystemClock()).gate;
}

const uncounted: Counter & Gauge & Histogram = {
  add: () => undefined,
  set: () => undefined,
  record: () => undefined,
  with: () => uncounted,
};
const noMetrics: Metrics = {
  counter: () => uncounted,
  gauge: () => uncounted,
  observe: () => undefined,
  histogram: () => uncounted,
};

async function serveFront(gate: Gate, isSeen = true): Promise<number> {
  const core = testCore();
  const clock = createSystemClock();
  const registry = isSeen ? createMetricsRegistry() : { scope: () => noMetrics };
  const level = isSeen ? 'info' : 'silent';
  const log = createLog({ level, format: 'json', destination: bufferedOutput('/dev/null') });
  const cached = new JsonText(cachedText());
  const result = new JsonText(JSON.stringify(JSON.parse(rpcText()).result));
  const method = {
    name: 'getCompressedAccountProof',
    summary: '',
    tag: '',
    auth: 'key' as const,
    price,
    params: Type.Object({ hash: Type.String({ maxLength: 44 }) }),
    result: Type.Unknown(),
    handler: async () => result,
  };
  const shared = { core, gate, log, clock };
  const rpc = createRpcFront({ ...shared, methods: [method], fallback: null, metrics: registry.scope('rpc') });
  const route = defineRoute({
    method: 'GET',
    path: '/v1/wallet/:wallet/history',
    summary: '',
    tag: '',
    auth: 'key',
    errors: 'wallet',
    price,
    query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 100, default: 100 }) }),
    replies: { 200: Type.Unknown() },
    handler: async () => json(cached),
  });
  const front = createHttpFront({
    ...shared,
    routes: [route],
    rpc,
    sockets: null,
    metrics: registry.scope('http'),
    expiry: registry.scope('tls').gauge('certificate_expiry_timestamp_seconds', 'expiry', ['listener']),
    random: createSystemRandom(),
    version: '0',
  });
  return (await front.listen()).port;
}

/** What the pipeline sends too: the same bytes on both sides. */
const HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'X-Request-Id': '00000000-0000-4000-8000-000000000000',
  'Cache-Control': 'no-store',
  'Access-Control-Allow-Origin': '*',
  'Content-Type': 'application/json; charset=utf-8',
};

async function serveBare(listening?: object): Promise<number> {
  const answers = { GET: Buffer.from(cachedText()), POST: Buffer.from(rpcText()) };
  const server = createServer((request, response) => {
    const body = request.method === 'GET' ? answers.GET : answers.POST;
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.writeHead(200, { ...HEADERS, 'Content-Length': body.length });
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => {
    if (listening === undefined) server.listen(0, '127.0.0.1', resolve);
    else server.listen(listening, resolve);
  });
  listener = server;
  return (server.address() as AddressInfo).port;
}
let listener: Server | null = null;

async function serveShared(): Promise<number> {
  const port = await serveBare();
  const child = fork(process.argv[1] ?? '', ['joined'], { execArgv: process.execArgv });
  await once(child, 'message');
  child.send('listener', (listener as unknown as { readonly _handle: never })._handle);
  await once(child, 'message');
  return port;
}

async function joinShared(): Promise<number> {
  process.send?.('loaded');
  const [, handle] = await once(process, 'message');
  return await serveBare(handle as object);
}

const servers: Readonly<Record<string, () => Promise<number>>> = {
  bare: () => serveBare(),
  shared: serveShared,
  joined: joinShared,
  front: () => serveFront(oneKeyGate()),
  open: () => serveFront(oneKeyGate(true)),
  unseen: () => serveFront(oneKeyGate(true), false),
  gated: async () => serveFront(await realGate(process.argv[3] ?? '')),
};
const port = await servers[process.argv[2] ?? 'front']?.();
process.send?.({ port });
process.on('disconnect', () => process.exit());
