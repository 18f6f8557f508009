import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type AccessDaemon, startAccessDaemon } from './harness.ts';

interface Endpoint {
  readonly method: string;
  readonly path: string;
  readonly isOptional: boolean;
}

/** Every refusal of the gate: how the key comes to it, the status, and the text of each shape. */
const REFUSALS = [
  { name: 'no key', status: 401, plain: /^API key required/, rpc: [-32001, 'Unauthorized'] },
  { name: 'unknown key', status: 401, plain: /^Invalid API key$/, rpc: [-32001, 'Unauthorized'] },
  { name: 'revoked key', status: 401, plain: /^Invalid API key$/, rpc: [-32001, 'Unauthorized'] },
  {
    name: 'address not allowed',
    status: 403,
    plain: /^IP address not allowed for this API key$/,
    rpc: [-32403, 'Forbidden: IP address not allowed for this API key'],
  },
  {
    name: 'origin not allowed',
    status: 403,
    plain: /^Origin not allowed for this API key$/,
    rpc: [-32403, 'Forbidden: this API key lacks permission for this method'],
  },
  {
    name: 'product not permitted',
    status: 403,
    plain: /^This API key lacks permission for this endpoint$/,
    rpc: [-32403, 'Forbidden: this API key lacks permission for this method'],
  },
  {
    name: 'not in the plan',
    status: 403,
    plain: /^This endpoint requires a paid plan$/,
    rpc: [-32403, 'Forbidden: the plan does not include this method'],
  },
  { name: 'credits used up', status: 429, plain: /^max usage reached$/, rpc: [-32005, 'max usage reached'] },
  { name: 'too fast', status: 429, plain: /^Too many requests$/, rpc: [-32005, 'Too many requests'] },
] as const;
type Refusal = (typeof REFUSALS)[number];

const GROUPS = ['rpc', 'das', 'photon', 'sender', 'getValidityProof', 'sendTransaction'];
const all = (rate: number) => Object.fromEntries(GROUPS.map((group) => [group, rate]));
const ADMIN = '/v0/admin/projects/{id}/usage';
/** Routes whose calls cost credits; the others go on when there are none left. */
const PAID =
  /^POST \/v0\/webhooks$|^PUT \/v0\/webhooks\/\{|webhooks.*addresses$|^POST \/$|^POST \/v0\/(token-metadata|transactions)$|^GET \/v0\/addresses\/|^\w+ \/v1\/wallet\/|^P(OS|U)T \/v1\/parsed-events\/|^GET \/v1\/parsed-events\/idls\/\{/;
const ADMIN_TEXT: Partial<Record<Refusal['name'], string>> = {
  'no key': 'Missing or invalid API key',
  'unknown key': 'Missing or invalid API key',
  'revoked key': 'Missing or invalid API key',
};

let bed: AccessDaemon;
let endpoints: Endpoint[] = [];
const keys = new Map<Refusal['name'], string>();

before(async () => {
  bed = await startAccessDaemon();
  const document = (await (await bed.request('/openapi.json')).json()) as {
    paths: Record<string, Record<string, { security?: object[] }>>;
  };
  endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { security = [] }]) => security.length > 0)
      .map(([method, { security }]) => ({
        method: method.toUpperCase(),
        path,
        isOptional: security!.some((one) => Object.keys(one).length === 0),
      })),
  );
  const revoked = await bed.makeKey();
  await bed.cli('keys', 'revoke', '--id', revoked.id);
  keys.set('unknown key', randomUUID());
  keys.set('revoked key', revoked.key);
  keys.set('address not allowed', (await bed.makeKey({ flags: ['--ips', '10.0.0.0/8'] })).key);
  keys.set('origin not allowed', (await bed.makeKey({ flags: ['--origins', 'https://app.example'] })).key);
  keys.set('product not permitted', (await bed.makeKey({ flags: ['--permissions', 'photon'] })).key);
  keys.set('not in the plan', (await bed.makeKey({ override: { ratePerSecond: all(0) } })).key);
  keys.set('credits used up', (await bed.makeKey({ override: { creditsLimit: 0 } })).key);
  keys.set('too fast', (await bed.makeKey({ override: { ratePerSecond: all(0.01) } })).key);
});
after(() => bed.stop());

/** A request that the gate sees; what comes after it does not matter. */
function send({ method, path }: Endpoint, key: string | undefined, suffix = ''): Promise<Response> {
  const url = path.replaceAll(/\{id\}/g, bed.daemon.projectId).replaceAll(/\{\w+\}/g, randomUUID());
  const body = path === '/' ? '{"jsonrpc":"2.0","id":"x","method":"getSlot"}' : '{}';
  return bed.request(url + suffix, key, { method, ...(method === 'GET' || method === 'DELETE' ? {} : { body }) });
}

/** These routes have the errors of the wallet API. */
const hasDetails = ({ path }: Endpoint): boolean => /^\/v1\/(wallet|parsed-events)\//.test(path);

async function assertRefused(endpoint: Endpoint, refusal: Refusal, response: Response): Promise<void> {
  const where = `${endpoint.method} ${endpoint.path}: ${refusal.name}`;
  const text = await response.text();
  assert.equal(response.status, refusal.status, `${where} ${text}`);
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8', where);
  assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
  const wait = response.headers.get('retry-after');
  if (refusal.status === 429) assert.ok(wait !== null && /^[1-9]\d*$/.test(wait), `${where}: ${wait}`);
  else assert.equal(wait, null, where);
  const answer = JSON.parse(text) as Record<string, unknown>;
  if (['/', '/fast', '/mcp'].includes(endpoint.path)) {
    const { code, message } = answer['error'] as { code: number; message: string };
    assert.deepEqual([code, message], refusal.rpc, where);
    if (endpoint.path === '/') assert.equal(answer['id'], 'x', where);
  } else if (endpoint.path === ADMIN) {
    assert.deepEqual(Object.keys(answer), ['statusCode', 'message', 'error'], where);
    assert.equal(answer['statusCode'], refusal.status);
    const known = ADMIN_TEXT[refusal.name];
    if (known === undefined) assert.match(String(answer['message']), refusal.plain);
    else assert.equal(answer['message'], known);
  } else if (hasDetails(endpoint) && refusal.status === 403) {
    assert.deepEqual([answer['error'], answer['code']], ['Forbidden', 403], where);
    assert.match(answer['details'] as string, refusal.plain, where);
  } else {
    const { details, ...rest } = answer;
    assert.equal(typeof details, hasDetails(endpoint) && refusal.status === 429 ? 'string' : 'undefined');
    assert.deepEqual(Object.keys(rest), ['error', 'code'], where);
    assert.match(answer['error'] as string, refusal.plain, where);
    assert.equal(answer['code'], refusal.status);
  }
}

/** Whether the refusal applies to the endpoint at all. */
function applies({ method, path, isOptional }: Endpoint, { name }: Refusal): boolean {
  if (name === 'no key') return !isOptional;
  if (name === 'credits used up') return PAID.test(`${method} ${path}`);
  if (name === 'not in the plan' || name === 'too fast') return path !== ADMIN;
  // The calls that its tools make ask for permissions.
  if (name === 'product not permitted') return path !== '/mcp';
  return true;
}

test('the document names every endpoint with a key', () => {
  const names = endpoints.map(({ method, path }) => `${method} ${path}`);
  for (const name of ['POST /', 'POST /fast', 'POST /v0/webhooks', 'PATCH /v0/webhooks/{webhookID}', `GET ${ADMIN}`])
    assert.ok(names.includes(name), `${name} of ${names.join(', ')}`);
});

describe('every endpoint', () => {
  for (const refusal of REFUSALS) {
    test(refusal.name, async () => {
      for (const endpoint of endpoints) {
        if (!applies(endpoint, refusal)) {
          if (refusal.name === 'credits used up' && endpoint.path !== '/fast') {
            const response = await send(endpoint, keys.get(refusal.name));
            assert.ok(![401, 403, 429].includes(response.status), `${endpoint.method} ${endpoint.path}`);
            await response.arrayBuffer();
          }
          continue;
        }
        const key = keys.get(refusal.name);
        // Whatever was left of its group is used up by this one.
        if (refusal.name === 'too fast') await (await send(endpoint, key)).arrayBuffer();
        await assertRefused(endpoint, refusal, await send(endpoint, key));
        // The same through the other places of a key.
        if (key !== undefined)
          await assertRefused(endpoint, refusal, await send(endpoint, undefined, `?api-key=${key}`));
      }
    });
  }

  test('wrong method, unknown path and trailing slash give the same errors before and after the key check', async () => {
    assert.equal((await bed.request('/v0/nothing')).status, 404);
    const admin = await bed.request('/v0/admin/nothing');
    assert.deepEqual(await admin.json(), { statusCode: 404, message: 'Invalid path', error: 'Not Found' });
    const method = await bed.request(`/v0/admin/projects/${bed.daemon.projectId}/usage`, undefined, { method: 'POST' });
    assert.equal(method.status, 405);
    assert.equal(((await method.json()) as { message: string }).message, 'Method not allowed');
    assert.equal((await bed.request('/v0/webhooks/', bed.daemon.key)).status, 200);
  });
});
