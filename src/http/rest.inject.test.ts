import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createBudgets } from '../budgets.ts';
import {
  defineRoute,
  empty,
  GateRefusal,
  JsonBytes,
  JsonText,
  json,
  RequestError,
  type Route,
  Type,
} from '../plugin/plugin.ts';
import type { Caller } from '../ports/access.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createHttpMeter } from './meter.ts';
import { injectCall } from './rest.ts';
import { compileRoute, createRouter } from './router.ts';
import { createValidator } from './validation.ts';

const caller: Caller = { projectId: 'p', keyId: null, plan: 'free', wallet: null };
/** Cut between the two bytes of a letter. */
const PAGE = Buffer.from('"Fé"');
const common = { summary: '', tag: 't', auth: 'key', errors: 'plain', replies: {} } as const;
const routes: readonly Route[] = [
  defineRoute({
    ...common,
    method: 'GET',
    path: '/things/:id',
    params: Type.Object({ id: Type.String({ maxLength: 5 }) }),
    query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 9, default: 3 }) }),
    handler: ({ params, query, caller }) => json({ ...params, ...query, project: caller?.projectId }),
  }),
  defineRoute({
    ...common,
    method: 'GET',
    path: '/things/special',
    handler: () => json(new JsonText('{"big":1e400}')),
  }),
  defineRoute({
    ...common,
    method: 'POST',
    path: '/things',
    body: Type.Object({ name: Type.String() }),
    handler: ({ body, rawBody }) => json({ ...body, bytes: rawBody?.length, big: 2n ** 64n }, 201),
  }),
  defineRoute({ ...common, method: 'GET', path: '/pages/bytes', handler: () => ({ status: 200, bytes: PAGE }) }),
  defineRoute({
    ...common,
    method: 'GET',
    path: '/pages/pieces',
    handler: () => json(new JsonBytes([PAGE.subarray(0, 4), PAGE.subarray(4)])),
  }),
  defineRoute({ ...common, method: 'DELETE', path: '/things/:id', handler: () => empty() }),
  defineRoute({
    ...common,
    method: 'GET',
    path: '/budget',
    handler: ({ tenant }) => json({ id: tenant.id, limit: tenant.limit('upstreamCalls') }),
  }),
];
const limits = { bodyLimitBytes: 1_000, handlerTimeoutMs: 1_000 };
const meter = createHttpMeter(createMetricsRegistry().scope('http'));
const validator = createValidator();
const router = createRouter(
  routes.map((route) => compileRoute(route, limits, validator, meter)),
  1_000,
);
type Parts = Parameters<typeof injectCall>[1];
const ask = (method: string, path: string, body?: unknown, parts: Parts = { gate: null }) =>
  injectCall(router, parts, {
    method,
    path,
    body,
    caller,
    requestId: 'r',
    remoteAddress: '127.0.0.1',
    log: createMemoryLog(),
    signal: new AbortController().signal,
  });
const refusal = (status: number) => (error: unknown) => error instanceof RequestError && error.status === status;

test('a call gets the same answer as from the listener', async () => {
  assert.deepEqual(await ask('GET', '/things/a%20b?limit=4&other=1'), {
    status: 200,
    text: '{"id":"a b","limit":4,"project":"p"}',
  });
  assert.equal((await ask('GET', '/things/x')).text, '{"id":"x","limit":3,"project":"p"}');
  assert.equal((await ask('GET', '/things/special')).text, '{"big":1e400}', 'a fixed path wins');
  assert.deepEqual(await ask('POST', '/things', { name: 'n' }), {
    status: 201,
    text: '{"name":"n","bytes":12,"big":18446744073709551616}',
  });
  assert.deepEqual(await ask('DELETE', '/things/x'), { status: 200, text: '' });
});

test('an answer in bytes is the object of the route, and text; one in pieces is the same', async () => {
  const { bytes, text } = await ask('GET', '/pages/bytes');
  assert.ok(bytes === PAGE && text === '"Fé"');
  assert.equal((await ask('GET', '/pages/pieces')).text, '"Fé"');
  assert.equal((await ask('GET', '/things/special')).bytes, undefined);
});

test('a call that the listener would refuse is refused', async () => {
  for (const path of ['/nothing', '/things/a/b', '//things/a']) await assert.rejects(ask('GET', path), refusal(404));
  await assert.rejects(ask('PUT', '/things/x'), refusal(405));
  await assert.rejects(ask('GET', '/things/'), refusal(405), 'a trailing slash is dropped');
  for (const path of [
    '/things/a%2Fb',
    '/things/%zz',
    '/things/toolong',
    '/things/x?limit=0',
    '/things/x?limit=x',
    '/things/x?limit=1&limit=2',
  ])
    await assert.rejects(ask('GET', path), refusal(400), path);
  for (const body of [undefined, {}, { name: 1 }, [], 'x'])
    await assert.rejects(ask('POST', '/things', body), refusal(400));
});

test('what a page asks of upstreams has the budgets of its project from the first call on, also of one that is disabled', async () => {
  const admit = () => assert.fail('reads are not admitted');
  const of = (callerOf: () => Promise<Caller>) =>
    ask('GET', '/budget', undefined, {
      gate: { admit, callerOf } as unknown as Parts['gate'],
      budgets: createBudgets(),
    });
  const known = await of(async () => ({ ...caller, budgets: { upstreamCalls: 3 } as Caller['budgets'] & object }));
  assert.equal(known.text, '{"id":"p","limit":3}');
  const disabled = await of(async () => {
    throw new GateRefusal('bad-key');
  });
  assert.equal(disabled.text, '{"id":"p","limit":null}');
});
