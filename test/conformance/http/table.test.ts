import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { deflateSync, gzipSync } from 'node:zlib';
import { GOOD_KEY, startFront, type TestFront } from '../../helpers/http-front.ts';
import { sampleRoutes } from './sample-routes.ts';

/** One endpoint of each error shape, with a request that succeeds. */
const endpoints = [
  { method: 'POST', path: '/v0/token-metadata', body: '{"mintAccounts":["a"]}', shape: 'plain' },
  { method: 'PATCH', path: '/v0/webhooks/w1', body: '{"active":true}', shape: 'plain' },
  { method: 'DELETE', path: '/v0/webhooks/w1', body: undefined, shape: 'plain' },
  { method: 'GET', path: '/v1/wallet/abc/balances', body: undefined, shape: 'wallet' },
  { method: 'POST', path: '/v1/wallet/batch-identity', body: '{"addresses":[]}', shape: 'wallet' },
  { method: 'GET', path: '/v0/admin/projects/p1/usage', body: undefined, shape: 'admin' },
] as const;
type Endpoint = (typeof endpoints)[number];

const NO_KEY = 'API key required. Pass via ?api-key=xxx or X-Api-Key header';
const IP = 'IP address not allowed for this API key';
const PLAN = 'This endpoint requires a paid plan';
const PERMISSION = 'This API key lacks permission for this endpoint';

/** What each shape makes of one refusal. */
const refusals = [
  { key: '', status: 401, plain: NO_KEY, wallet: [NO_KEY], admin: ['Missing or invalid API key', 'Unauthorized'] },
  {
    key: 'wrong',
    status: 401,
    plain: 'Invalid API key',
    wallet: ['Invalid API key'],
    admin: ['Missing or invalid API key', 'Unauthorized'],
  },
  { key: 'ip', status: 403, plain: IP, wallet: ['Forbidden', IP], admin: [IP, 'Forbidden'] },
  { key: 'plan', status: 403, plain: PLAN, wallet: ['Forbidden', PLAN], admin: [PLAN, 'Forbidden'] },
  {
    key: 'permission',
    status: 403,
    plain: PERMISSION,
    wallet: ['Forbidden', PERMISSION],
    admin: [PERMISSION, 'Forbidden'],
  },
  {
    key: 'credits',
    status: 429,
    plain: 'max usage reached',
    wallet: ['max usage reached', 'Credits of this cycle are used up'],
    admin: ['max usage reached', 'Too Many Requests'],
  },
  {
    key: 'rate',
    status: 429,
    plain: 'Too many requests',
    wallet: ['Too many requests', 'Retry after 3 s'],
    admin: ['Too many requests: at most 5 per second', 'Too Many Requests'],
  },
] as const;

function expected(endpoint: Endpoint, refusal: (typeof refusals)[number]): object {
  if (endpoint.shape === 'plain') return { error: refusal.plain, code: refusal.status };
  if (endpoint.shape === 'admin')
    return { statusCode: refusal.status, message: refusal.admin[0], error: refusal.admin[1] };
  const [error, details] = refusal.wallet as readonly string[];
  return { error, code: refusal.status, ...(details === undefined ? {} : { details }) };
}

let front: TestFront;
before(async () => {
  front = await startFront({ routes: sampleRoutes(), http: { bodyLimitBytes: 4_096 } });
});
after(() => front.stop());

function call(endpoint: Endpoint, options: RequestInit = {}, suffix = ''): Promise<Response> {
  return fetch(`${front.url}${endpoint.path}${suffix}`, {
    method: endpoint.method,
    ...(endpoint.body === undefined ? {} : { body: endpoint.body }),
    ...options,
  });
}

async function assertJson(response: Response): Promise<Record<string, unknown>> {
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
  assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
  const text = await response.text();
  assert.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)));
  return JSON.parse(text) as Record<string, unknown>;
}

for (const endpoint of endpoints) {
  describe(`${endpoint.method} ${endpoint.path}`, () => {
    for (const refusal of refusals) {
      const forms: [string, RequestInit, string][] =
        refusal.key === ''
          ? [
              ['no key', {}, ''],
              ['an empty key', {}, '?api-key='],
            ]
          : [
              [`${refusal.key} in the query`, {}, `?api-key=${refusal.key}`],
              [`${refusal.key} in the header`, { headers: { 'X-Api-Key': refusal.key } }, ''],
              [`${refusal.key} as bearer`, { headers: { Authorization: `Bearer ${refusal.key}` } }, ''],
            ];
      for (const [name, init, suffix] of forms) {
        test(`${name}: ${refusal.status}`, async () => {
          const response = await call(endpoint, init, suffix);
          assert.equal(response.status, refusal.status);
          assert.deepEqual(await assertJson(response), expected(endpoint, refusal));
          const retryAfter = response.headers.get('retry-after');
          if (refusal.status === 429)
            assert.equal(retryAfter, refusal.key === 'rate' || refusal.key === 'credits' ? '3' : '1');
          else assert.equal(retryAfter, null);
        });
      }
    }

    test('a good key in each place passes, with and without a trailing slash', async () => {
      const places: [RequestInit, string][] = [
        [{}, `?api-key=${GOOD_KEY}`],
        [{}, `/?api-key=${GOOD_KEY}`],
        [{}, `?x=1&api%2Dkey=${GOOD_KEY}&y=2`],
        [{ headers: { 'X-Api-Key': GOOD_KEY } }, '/'],
        [{ headers: { Authorization: `Bearer ${GOOD_KEY}` } }, ''],
      ];
      for (const [init, suffix] of places) {
        const response = await call(endpoint, init, suffix);
        assert.equal(response.status, 200, `${suffix}: ${await response.clone().text()}`);
        assert.equal(response.headers.get('x-ratelimit-remaining'), '9');
        await response.arrayBuffer();
      }
    });

    test('the first place that holds a key decides', async () => {
      const wrongQuery = await call(endpoint, { headers: { 'X-Api-Key': GOOD_KEY } }, '?api-key=wrong');
      assert.equal(wrongQuery.status, 401);
      await wrongQuery.arrayBuffer();
      const emptyQuery = await call(endpoint, { headers: { 'X-Api-Key': GOOD_KEY } }, '?api-key=');
      assert.equal(emptyQuery.status, 200);
      await emptyQuery.arrayBuffer();
      const two = await call(endpoint, {}, `?api-key=${GOOD_KEY}&api-key=other`);
      assert.equal(two.status, 401);
      await two.arrayBuffer();
    });

    test('a wrong method is 405 with Allow, in the shape of the path', async () => {
      const method = endpoint.method === 'GET' ? 'PUT' : 'GET';
      const response = await fetch(`${front.url}${endpoint.path}`, { method });
      assert.equal(response.status, 405);
      assert.match(response.headers.get('allow') ?? '', new RegExp(`${endpoint.method}.*OPTIONS`));
      const body = await assertJson(response);
      assert.equal(endpoint.shape === 'admin' ? body['message'] : body['error'], 'Method not allowed');
    });

    test('OPTIONS is 200 without a key and without a body', async () => {
      const response = await fetch(`${front.url}${endpoint.path}`, { method: 'OPTIONS' });
      assert.equal(response.status, 200);
      assert.equal(await response.text(), '');
      assert.match(response.headers.get('access-control-allow-headers') ?? '', /Authorization.*solana-client.*\*/);
      assert.match(response.headers.get('access-control-expose-headers') ?? '', /Retry-After.*x-ratelimit-reset/);
    });
  });
}

describe('bodies', () => {
  const post = (body: string | Uint8Array, path = '/v1/wallet/batch-identity', headers: Record<string, string> = {}) =>
    fetch(`${front.url}${path}?api-key=${GOOD_KEY}`, { method: 'POST', body: body as string, headers });
  const metadata = '/v0/token-metadata';

  test('any content type and none is read as JSON', async () => {
    for (const type of ['text/plain', 'application/json; charset=utf-8', 'application/x-www-form-urlencoded']) {
      const response = await post('{"a":1}', undefined, { 'Content-Type': type });
      assert.deepEqual(await response.json(), { body: { a: 1 } });
    }
  });
  test('a byte-order mark is skipped', async () => {
    assert.deepEqual(await (await post('\ufeff{"a":1}')).json(), { body: { a: 1 } });
  });
  for (const [name, body] of [
    ['no JSON', '{"a":'],
    ['empty', ''],
    ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['65 levels', '['.repeat(65) + ']'.repeat(65)],
  ] as const) {
    test(`${name}: 400`, async () => {
      const response = await post(body);
      assert.equal(response.status, 400);
      const answer = await assertJson(response);
      assert.equal(answer['error'], 'Invalid JSON body');
      assert.equal(answer['code'], 400);
    });
  }
  test('64 levels pass, brackets inside strings do not count', async () => {
    assert.equal((await post('['.repeat(64) + ']'.repeat(64))).status, 200);
    assert.equal((await post(JSON.stringify({ a: '[{'.repeat(500), b: '\\"[[' }))).status, 200);
  });
  test('over the limit: 413 and the connection closes', async () => {
    const response = await post(JSON.stringify('x'.repeat(5_000)));
    assert.equal(response.status, 413);
    assert.equal(response.headers.get('connection'), 'close');
    assert.deepEqual(await assertJson(response), {
      error: 'Request body too large',
      code: 413,
      details: 'The limit is 4096 bytes',
    });
  });
  test('a route with a larger limit of its own takes more', async () => {
    const response = await fetch(`${front.url}/v0/webhooks/w?api-key=${GOOD_KEY}`, {
      method: 'PATCH',
      body: JSON.stringify({ active: true, filler: 'x'.repeat(1_000_000) }),
    });
    assert.equal(response.status, 200);
  });
  test('plain JSON that is said to be encoded is taken; what really is encoded: 415', async () => {
    for (const encoding of ['gzip', 'br', 'identity', ''])
      assert.equal((await post(' {}', undefined, { 'Content-Encoding': encoding })).status, 200, encoding);
    for (const [encoding, body] of [
      ['gzip', gzipSync('{}')],
      ['deflate', deflateSync('{}')],
      ['x-unknown', Buffer.from('\u00ff', 'latin1')],
    ] as const) {
      const response = await post(body, undefined, { 'Content-Encoding': encoding });
      assert.equal(response.status, 415, encoding);
      assert.deepEqual(await assertJson(response), { error: 'Unsupported content encoding', code: 415 });
    }
  });
  test('fields that do not fit: 400 with one sentence; unknown fields are ignored', async () => {
    for (const [body, reason] of [
      ['{}', 'mintAccounts is required'],
      ['{"mintAccounts":"a"}', 'mintAccounts must be an array'],
      ['{"mintAccounts":["a","b","c","d"]}', 'mintAccounts must have at most 3 items'],
      ['{"mintAccounts":[1]}', 'mintAccounts[0] must be a string'],
      ['[]', 'body must be an object'],
    ] as const) {
      const response = await post(body, metadata);
      assert.equal(response.status, 400);
      assert.deepEqual(await assertJson(response), { error: `Invalid request body: ${reason}`, code: 400 });
    }
    const good = await post('{"mintAccounts":[],"unknown":[[1]]}', metadata);
    assert.equal(good.status, 200);
  });
  test('a key is refused before the body is read', async () => {
    const response = await fetch(`${front.url}${metadata}`, { method: 'POST', body: 'no json at all' });
    assert.equal(response.status, 401);
  });
});

describe('query parameters', () => {
  const get = (query: string) => fetch(`${front.url}/v1/wallet/abc/balances?api-key=${GOOD_KEY}${query}`);
  for (const [query, values] of [
    ['', { page: 1, limit: 100, showNative: true }],
    ['&limit=5&showNative=false', { page: 1, limit: 5, showNative: false }],
    ['&limit=&page=', { page: 1, limit: 100, showNative: true }],
    ['&rebate-address=abc&rebate-address=def', { page: 1, limit: 100, showNative: true }],
    ['&order=asc', { page: 1, limit: 100, showNative: true, order: 'asc' }],
    [`&api-key=${GOOD_KEY}`, { page: 1, limit: 100, showNative: true }],
  ] as const) {
    test(`"${query}" is read`, async () => {
      const response = await get(query);
      assert.equal(response.status, 200);
      assert.deepEqual(((await response.json()) as { query: unknown }).query, values);
    });
  }
  for (const query of [
    'limit=0',
    'limit=101',
    'limit=+5',
    'limit=-5',
    'limit=5.0',
    'limit=1e2',
    'limit= 5',
    'limit=0x10',
    'limit=99999999999999999',
    'limit=5&limit=5',
    'showNative=1',
    'showNative=True',
    'order=up',
  ]) {
    test(`"${query}" is 400`, async () => {
      const response = await get(`&${query}`);
      assert.equal(response.status, 400);
      const body = await assertJson(response);
      assert.equal(body['error'], 'Invalid query parameter');
      assert.equal(typeof body['details'], 'string');
    });
  }
});

describe('failures of handlers', () => {
  const get = (name: string) => fetch(`${front.url}/v1/wallet/faulty/${name}?api-key=${GOOD_KEY}`);
  test('a bug is 500 with nothing but the request id', async () => {
    const response = await get('bug');
    assert.equal(response.status, 500);
    const id = response.headers.get('x-request-id');
    assert.deepEqual(await assertJson(response), { error: 'Internal error', code: 500, details: `Request ${id}` });
    const lines = front.log.lines.filter((line) => line.level === 'error' && line.fields['requestId'] === id);
    assert.equal(lines.length, 1, 'the stack is logged once');
  });
  for (const [name, status, details] of [
    ['store', 503, 'The database does not answer'],
    ['chain', 503, 'No Solana upstream answers'],
    ['late', 504, 'A Solana upstream did not answer in time'],
  ] as const) {
    test(`${name}: ${status} without addresses`, async () => {
      const response = await get(name);
      assert.equal(response.status, status);
      assert.equal(response.headers.get('retry-after'), status === 503 ? '1' : null);
      const body = await assertJson(response);
      assert.equal(body['details'], details);
      assert.doesNotMatch(JSON.stringify(body), /pass|token/);
    });
  }
  test('a handler over its time is 504 and its signal aborts', async () => {
    const response = await get('hang');
    assert.equal(response.status, 504);
    assert.deepEqual(await assertJson(response), { error: 'Gateway timeout', code: 504 });
  });
  test('integers beyond 2^53 are bare and exact', async () => {
    const response = await fetch(`${front.url}/v1/wallet/abc/balances?api-key=${GOOD_KEY}`);
    assert.match(await response.text(), /"big":18446744073709551615[,}]/);
  });
});

describe('charging', () => {
  const settledBy = async (path: string, init: RequestInit = {}) => {
    const before = front.gate.settled.length;
    const response = await fetch(`${front.url}${path}`, { headers: { 'X-Api-Key': GOOD_KEY }, ...init });
    const bytes = (await response.arrayBuffer()).byteLength;
    for (let i = 0; i < 200 && front.gate.settled.length === before; i += 1)
      await new Promise((resolve) => setTimeout(resolve, 5));
    return { bytes, settled: front.gate.settled.slice(before) };
  };
  test('2xx and the declared statuses are charged, others are not', async () => {
    const ok = await settledBy('/v1/wallet/abc/balances');
    assert.deepEqual(ok.settled, [{ name: '/v1/wallet/:wallet/balances', charged: true, bytesOut: ok.bytes }]);
    const missing = await settledBy('/v1/wallet/nobody/balances');
    assert.equal(missing.settled[0]?.charged, true);
    const invalid = await settledBy('/v1/wallet/abc/balances?limit=0');
    assert.equal(invalid.settled[0]?.charged, false);
    const bug = await settledBy('/v1/wallet/faulty/bug');
    assert.equal(bug.settled[0]?.charged, false);
  });
});

test('log lines never hold a key', async () => {
  await (await fetch(`${front.url}/v1/wallet/abc/balances?limit=5&api-key=${GOOD_KEY}&api%2dkey=${GOOD_KEY}`)).text();
  const text = JSON.stringify(
    front.log.lines.filter((line) => line.message === 'request').map((l) => ({ ...l.fields, keyId: 0 })),
  );
  assert.ok(text.includes('api-key=***'), 'the masked query is there');
  assert.ok(!text.includes(GOOD_KEY));
});
