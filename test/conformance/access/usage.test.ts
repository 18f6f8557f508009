import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

interface Usage {
  readonly creditsUsed: number;
  readonly creditsRemaining: number;
  readonly prepaidCreditsUsed: number;
  readonly prepaidCreditsRemaining: number;
  readonly creditCycle: { readonly start: string; readonly end: string };
  readonly subscriptionDetails: {
    readonly billingCycle: object | null;
    readonly creditsLimit: number;
    readonly plan: string;
  };
  readonly credits: Record<string, number>;
  readonly requests: Record<string, number>;
  readonly dataTransfer: Record<string, number>;
  readonly usage: Record<string, number>;
}

let bed: AccessDaemon;
before(async () => {
  bed = await startAccessDaemon();
});
after(() => bed.stop());

const usagePath = (project: string) => `/v0/admin/projects/${project}/usage`;
async function usageOf({ project, key }: { project: string; key: string }): Promise<Usage> {
  const response = await bed.request(usagePath(project), key);
  assert.equal(response.status, 200);
  return (await response.json()) as Usage;
}
const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);

describe('the usage endpoint', () => {
  test('has every key, always, and shows each call that was answered before', async () => {
    const one = await bed.makeKey({ plan: 'developer' });
    const empty = await usageOf(one);
    assert.deepEqual(Object.keys(empty), [
      'creditsRemaining',
      'creditsUsed',
      'prepaidCreditsRemaining',
      'prepaidCreditsUsed',
      'creditCycle',
      'subscriptionDetails',
      'credits',
      'requests',
      'dataTransfer',
      'usage',
    ]);
    assert.equal(sum(empty.credits) + sum(empty.requests) + sum(empty.dataTransfer) + sum(empty.usage), 0);
    assert.equal(Object.keys(empty.credits).length, 11);
    assert.equal(Object.keys(empty.requests).length, 9);
    assert.deepEqual(Object.keys(empty.usage).sort(), [
      'api',
      'archival',
      'das',
      'grpc',
      'grpcGeyser',
      'photon',
      'rpc',
      'stream',
      'webhook',
      'websocket',
    ]);
    const { creditsLimit, plan, billingCycle } = empty.subscriptionDetails;
    assert.deepEqual([creditsLimit, plan], [10_000_000, 'developer']);
    assert.deepEqual(billingCycle, empty.creditCycle);
    for (const method of ['getBalance', 'getSlot', 'getTransaction', 'getProgramAccounts'])
      assert.equal((await bed.rpc(one.key, rpcCall(method))).status, 200);
    const after = await usageOf(one);
    assert.deepEqual(after.credits, { ...empty.credits, rpc: 12, archival: 1 });
    assert.deepEqual(after.requests, { ...empty.requests, rpc: 3, archival: 1 });
    assert.deepEqual([after.creditsUsed, after.creditsRemaining, sum(after.usage)], [13, 10_000_000 - 13, 13]);
  });

  test('free has no billing cycle, unlimited reports its own, and their numbers are integers', async () => {
    for (const [plan, limit, isBilled] of [
      ['unlimited', Number.MAX_SAFE_INTEGER, true],
      ['free', 1_000_000, false],
    ] as const) {
      const { subscriptionDetails, creditCycle } = await usageOf(await bed.makeKey({ plan }));
      const billingCycle = isBilled ? creditCycle : null;
      assert.deepEqual(subscriptionDetails, { billingCycle, creditsLimit: limit, plan });
    }
  });

  test('checks in order: key, rate, id, enablement; 400 and 403 count in the window, 429 does not', async () => {
    const one = await bed.makeKey();
    const other = await bed.makeKey();
    const bad = { statusCode: 400, message: 'Invalid project id', error: 'Bad Request' };
    const off = { statusCode: 403, message: 'Admin API not enabled for this project', error: 'Forbidden' };
    const ask = async (id: string) => {
      const response = await bed.request(usagePath(id), one.key);
      return { status: response.status, body: await response.json() };
    };
    await bed.cli('projects', 'set-plan', '--id', one.project, '--admin-api', 'off');
    assert.deepEqual(await ask('not-a-uuid'), { status: 400, body: bad });
    assert.deepEqual(await ask(other.project), { status: 400, body: bad });
    assert.deepEqual(await ask(randomUUID()), { status: 400, body: bad });
    assert.deepEqual(await ask(one.project), { status: 403, body: off });
    assert.deepEqual(await ask(one.project.toUpperCase()), { status: 403, body: off });
    const sixth = await ask('not-a-uuid');
    assert.equal(sixth.status, 429);
    assert.deepEqual(sixth.body, {
      statusCode: 429,
      message: 'Too many requests: at most 5 per second',
      error: 'Too Many Requests',
    });
    await bed.cli('projects', 'set-plan', '--id', one.project, '--admin-api', 'on');
    for (let tries = 0; tries < 100 && (await ask(one.project)).status !== 200; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await bed.request(usagePath(one.project.toUpperCase()), other.key)).status, 400);
  });

  test('works with used up credits, costs nothing and is not counted', async () => {
    const one = await bed.makeKey({ override: { creditsLimit: 1 } });
    assert.equal((await bed.rpc(one.key, rpcCall('getBalance'))).status, 200);
    const refused = await bed.rpc(one.key, rpcCall('getBalance'));
    assert.equal(refused.status, 429);
    assert.match(await refused.text(), /"code":-32005,"message":"max usage reached"/);
    await usageOf(one);
    const { creditsUsed, creditsRemaining, requests } = await usageOf(one);
    assert.deepEqual([creditsUsed, creditsRemaining, sum(requests)], [1, 0, 1]);
  });

  test('helius-sdk reads it, and its errors', { skip: sdk.skip }, async () => {
    const restore = redirectHostedClients(bed.daemon.apiUrl);
    try {
      const one = await bed.makeKey({ plan: 'business' });
      await bed.cli('projects', 'grant', '--id', one.project, '--credits', '500');
      const { admin } = sdk.module.createHelius({ apiKey: one.key });
      const usage = await admin.getProjectUsage(one.project);
      assert.deepEqual([usage.creditsRemaining, usage.prepaidCreditsRemaining], [100_000_000, 500]);
      assert.equal(usage.subscriptionDetails.plan, 'business');
      assert.match(usage.subscriptionDetails.billingCycle.start, /^\d{4}-\d{2}-\d{2}$/);
      assert.equal(sum({ ...usage.usage }), 0);
      await assert.rejects(admin.getProjectUsage(randomUUID()), /API error \(400\).*Invalid project id/);
      const wrong = sdk.module.createHelius({ apiKey: randomUUID() });
      await assert.rejects(wrong.admin.getProjectUsage(one.project), /API error \(401\).*Missing or invalid API key/);
    } finally {
      restore();
    }
  });
});

describe('charging', () => {
  test('results and errors of an upstream are charged, own errors and refusals are not', async () => {
    const one = await bed.makeKey();
    bed.upstream.on('getEpochInfo', ({ id }) => ({
      chunks: [`{"jsonrpc":"2.0","error":{"code":-32007,"message":"skipped"},"id":${JSON.stringify(id)}}`],
    }));
    assert.match(await (await bed.rpc(one.key, rpcCall('getEpochInfo'))).text(), /-32007/);
    for (const body of [
      { jsonrpc: '1.0', id: 1, method: 'getBalance' },
      rpcCall('accountSubscribe'),
      rpcCall('no such name'),
      [],
    ])
      await (await bed.rpc(one.key, body)).text();
    assert.equal((await bed.request('/v0/webhooks/not-a-uuid', one.key)).status, 400);
    assert.equal((await bed.request(`/v0/webhooks/${randomUUID()}`, one.key)).status, 404);
    assert.equal((await bed.request('/v0/webhooks', one.key, { method: 'POST', body: '{' })).status, 400);
    assert.equal((await bed.request('/v0/webhooks', one.key)).status, 200);
    const { credits, requests } = await usageOf(one);
    assert.deepEqual([credits['rpc'], requests['rpc'], credits['webhooks'], requests['webhooks']], [1, 1, 0, 1]);
  });

  test('a batch costs what its items cost, each for itself; without the credits for all none runs', async () => {
    const one = await bed.makeKey({ override: { creditsLimit: 30 } });
    const batch = [rpcCall('getBalance', 1), rpcCall('getProgramAccounts', 2), rpcCall('nope nope', 3)];
    const answers = (await (await bed.rpc(one.key, batch)).json()) as { id: number; error?: object }[];
    assert.deepEqual(
      answers.map(({ id, error }) => [id, error !== undefined]),
      [
        [1, false],
        [2, false],
        [3, true],
      ] as unknown as typeof answers,
    );
    assert.equal((await usageOf(one)).creditsUsed, 11);
    const before = bed.upstream.callsOf('getProgramAccounts').length;
    const refused = await bed.rpc(one.key, [rpcCall('getProgramAccounts', 1), rpcCall('getProgramAccounts', 2)]);
    assert.equal(refused.status, 429);
    assert.match(await refused.text(), /"max usage reached".*"id":null/);
    assert.equal(bed.upstream.callsOf('getProgramAccounts').length, before);
    assert.equal((await usageOf(one)).creditsUsed, 11);
  });

  test('the plan limits batches; an item that it lacks is refused alone', async () => {
    const free = await bed.makeKey({ plan: 'free', override: { ratePerSecond: { rpc: 1_000 } } });
    const items = async (body: unknown[]) => {
      const response = await bed.rpc(free.key, body);
      assert.equal(response.status, 200);
      return (await response.json()) as { error?: { code: number; message: string; data?: { details: string } } }[];
    };
    for (const [body, reason] of [
      [Array.from({ length: 101 }, (_, i) => rpcCall('getBalance', i)), /at most 100 items/],
      [Array.from({ length: 11 }, (_, i) => rpcCall('getBlocks', i)), /at most 10 historical/],
      [[rpcCall('getBalance'), rpcCall('getSignaturesForAddress')], /getSignaturesForAddress cannot be part/],
    ] as const) {
      const answers = await items([...body]);
      assert.equal(answers.length, body.length);
      for (const { error } of answers) {
        assert.equal(error?.code, -32600);
        assert.match(error?.data?.details ?? '', reason);
      }
    }
    const mixed = await items([rpcCall('sendBundle', 1), rpcCall('getBalance', 2)]);
    assert.deepEqual(mixed[0]!.error, { code: -32403, message: 'Forbidden: the plan does not include this method' });
    assert.equal(mixed[1]!.error, undefined);
    const single = await bed.rpc(free.key, rpcCall('sendBundle'));
    assert.equal(single.status, 403);
  });
});

describe('rates', () => {
  test('twice the rate at once, then 429 with the time to wait; headers say what is left', async () => {
    const one = await bed.makeKey({ override: { ratePerSecond: { rpc: 5, sendTransaction: 0.1 } } });
    const statuses: number[] = [];
    const responses: Response[] = [];
    for (let n = 0; n < 14; n += 1) responses.push(await bed.rpc(one.key, rpcCall('getBalance')));
    for (const response of responses) statuses.push(response.status);
    assert.deepEqual(statuses.slice(0, 10), Array(10).fill(200));
    assert.equal(responses[0]!.headers.get('x-ratelimit-limit'), '5');
    assert.equal(responses[0]!.headers.get('x-ratelimit-remaining'), '9');
    assert.ok(Math.abs(Number(responses[0]!.headers.get('x-ratelimit-reset')) - Date.now() / 1_000) < 60);
    const last = await bed.rpc((await bed.makeKey({ override: { ratePerSecond: { rpc: 0.01 } } })).key, [
      ...Array.from({ length: 3 }, (_, i) => rpcCall('getBalance', i)),
    ]);
    assert.equal(last.status, 200, 'one token lets a whole batch pass');
    const send = (await bed.makeKey({ override: { ratePerSecond: { sendTransaction: 0.1 } } })).key;
    assert.equal((await bed.rpc(send, rpcCall('sendTransaction', 1, ['AA']))).status, 200);
    const slow = await bed.rpc(send, rpcCall('sendTransaction', 1, ['AA']));
    assert.deepEqual([slow.status, slow.headers.get('retry-after')], [429, '10']);
    assert.equal((await bed.rpc(send, rpcCall('getBalance'))).status, 200, 'the method has a bucket of its own');
  });
});

describe('keys', () => {
  test('rotation: both work for a while, the old one ends; limits go over to the new one', async () => {
    const old = await bed.makeKey({ flags: ['--permissions', 'rpc,admin', '--ips', '127.0.0.1'] });
    const rotated = await bed.cli<{ key: string; oldKeyEndsAt: number }>(
      'keys',
      'rotate',
      '--id',
      old.id,
      '--overlap',
      '1h',
    );
    assert.notEqual(rotated.key, old.key);
    for (const key of [old.key, rotated.key]) {
      assert.equal((await bed.rpc(key, rpcCall('getBalance'))).status, 200);
      assert.equal((await bed.rpc(key, rpcCall('getTransaction'))).status, 403);
    }
    const listed = await bed.cli<{ id: string; successor: string | null; expiresAt: number }[]>(
      'keys',
      'list',
      '--project',
      old.project,
    );
    assert.equal(listed.find(({ id }) => id === old.id)!.expiresAt, rotated.oldKeyEndsAt);
    const now = await bed.cli<{ key: string }>('keys', 'rotate', '--id', old.id, '--overlap', '0');
    assert.equal((await bed.rpc(now.key, rpcCall('getBalance'))).status, 200);
    await assert.rejects(bed.cli('keys', 'rotate', '--id', old.id), /ACCESS_KEY_ENDED|revoked or expired/);
  });

  test('lists of networks and origins take effect within the time that a key is remembered', async () => {
    const { key, id } = await bed.makeKey();
    const ask = async (headers: Record<string, string> = {}) =>
      (await bed.rpc(key, rpcCall('getBalance'), headers)).status;
    const until = async (status: number, headers?: Record<string, string>) => {
      for (let tries = 0; tries < 200 && (await ask(headers)) !== status; tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 25));
      assert.equal(await ask(headers), status);
    };
    assert.equal(await ask(), 200);
    await bed.cli('keys', 'allow-ip', '--id', id, '--ips', '192.0.2.0/24,2001:db8::/32');
    await until(403);
    assert.equal(await ask({ 'X-Forwarded-For': '192.0.2.1' }), 403, 'nobody trusts this header');
    await bed.cli('keys', 'allow-ip', '--id', id, '--any');
    await until(200);
    await bed.cli('keys', 'allow-origin', '--id', id, '--origins', 'https://app.example,https://*.pages.example');
    await until(403);
    for (const origin of ['https://app.example', 'https://a.b.pages.example', 'HTTPS://APP.example'])
      assert.equal(await ask({ Origin: origin }), 200, origin);
    for (const origin of [
      'http://app.example',
      'https://app.example.evil',
      'https://pages.example',
      'https://evil/.pages.example',
      'null',
    ])
      assert.equal(await ask({ Origin: origin }), 403, origin);
  });
});

test('the plan says how many webhooks a project may have', async () => {
  const one = await bed.makeKey({ override: { webhooks: { max: 2 } } });
  const make = async () => {
    const body = JSON.stringify({ webhookURL: 'https://app.example/hook', webhookType: 'raw' });
    const response = await bed.request('/v0/webhooks', one.key, { method: 'POST', body });
    return [response.status, ((await response.json()) as { error?: string }).error];
  };
  assert.deepEqual(
    [await make(), await make()],
    [
      [200, undefined],
      [200, undefined],
    ],
  );
  assert.deepEqual(await make(), [400, 'reached webhook limit']);
});

test('the first project has the configured plan', async () => {
  const other = await startAccessDaemon({ access: { defaultPlan: 'developer' } });
  try {
    const response = await other.request(usagePath(other.daemon.projectId), other.daemon.key);
    assert.equal(((await response.json()) as Usage).subscriptionDetails.plan, 'developer');
    assert.equal((await other.request('/v0/webhooks')).status, 401, 'calls without a key are off');
  } finally {
    await other.stop();
  }
});
