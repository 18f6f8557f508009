/** Calls that are refused cost a token of the rate: else whoever sends nothing but nonsense works the daemon for nothing. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const LIMIT = { timeout: 120_000 };
/** One call, and for minutes none. */
const RARE = { override: { ratePerSecond: { rpc: 0.01 } } };
let bed: AccessDaemon;
before(async () => {
  bed = await startAccessDaemon({ rpc: { maxBatchItems: 5 }, sender: { ratePerSecond: 1 } });
});
after(() => bed?.stop());

const post = (key: string, body: string) => bed.request('/', key, { method: 'POST', body });
const code = async (response: Response) => ((await response.json()) as { error?: { code: number } }).error?.code ?? 0;

const refused: Record<string, readonly [body: string, code: number]> = {
  'what is no JSON': ['{"jsonrpc"', -32700],
  'what is no request': ['17', -32600],
  'an empty batch': ['[]', -32600],
  'a batch that is too long': [JSON.stringify(Array.from({ length: 6 }, () => rpcCall('getSlot'))), -32600],
  'a member twice': ['{"jsonrpc":"2.0","id":1,"method":"getSlot","method":"getSlot"}', -32600],
  'an unknown method': [JSON.stringify(rpcCall('accountSubscribe')), -32601],
};
for (const [name, [body, expected]] of Object.entries(refused)) {
  test(`${name} takes a token`, LIMIT, async () => {
    const { key } = await bed.makeKey(RARE);
    assert.equal(await code(await post(key, body)), expected);
    const next = await post(key, JSON.stringify(rpcCall('getSlot')));
    assert.equal(next.status, 429);
    assert.ok(Number(next.headers.get('retry-after')) > 1);
  });
}

test(
  'the larger it is the more it takes; a large body of somebody without tokens is not even looked at',
  LIMIT,
  async () => {
    const waitAfter = async (body: string) => {
      const { key } = await bed.makeKey(RARE);
      await post(key, body);
      const next = await post(key, `{"jsonrpc":"2.0","id":"mine","method":"getSlot"}${' '.repeat(20_000)}`);
      const { id } = (await next.json()) as { id: unknown };
      assert.deepEqual([next.status, id], [429, 'mine']);
      return Number(next.headers.get('retry-after'));
    };
    const [small, large] = [await waitAfter('{'), await waitAfter(`[${'0,'.repeat(500_000)}`)];
    assert.ok(large > 10 * small, `${small} s and ${large} s`);
  },
);

test('items of a batch that are refused take a token each', LIMIT, async () => {
  const { key } = await bed.makeKey(RARE);
  const items = [rpcCall('slotSubscribe', 1), rpcCall('slotSubscribe', 2), rpcCall('slotSubscribe', 3)];
  const codes = ((await (await post(key, JSON.stringify(items))).json()) as { error: { code: number } }[]).map(
    ({ error }) => error.code,
  );
  assert.deepEqual(codes, [-32601, -32601, -32601]);
  const next = await post(key, JSON.stringify(rpcCall('getSlot')));
  assert.ok(
    next.status === 429 && Number(next.headers.get('retry-after')) > 200,
    next.headers.get('retry-after') ?? '',
  );
});

test('a call that the gate refuses for another reason also takes a token', LIMIT, async () => {
  const { key } = await bed.makeKey({ ...RARE, flags: ['--permissions', 'das'] });
  assert.equal((await post(key, JSON.stringify(rpcCall('getSlot')))).status, 403);
  assert.equal((await post(key, `${JSON.stringify(rpcCall('getSlot'))}${' '.repeat(20_000)}`)).status, 429);
});

test('opening a websocket takes a token, and is refused without one', LIMIT, async () => {
  const { key } = await bed.makeKey(RARE);
  const connect = () =>
    new Promise<number>((resolve) => {
      const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/?api-key=${key}`);
      socket.on('error', () => undefined);
      socket.once('open', () => {
        socket.terminate();
        resolve(101);
      });
      socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
    });
  assert.deepEqual([await connect(), await connect()], [101, 429]);
});

test('/fast: no large bodies, and a token before anything is read', LIMIT, async () => {
  const fast = (body: string) => bed.request('/fast', undefined, { method: 'POST', body });
  assert.equal((await fast(`{"jsonrpc":"2.0","id":1,"method":"x","params":["${'x'.repeat(40_000)}"]}`)).status, 413);
  const seen = [];
  for (let i = 0; i < 8; i += 1) {
    const response = await fast('{"jsonrpc":"2.0","id":"mine","method":"getSlot","params":[]}');
    seen.push([response.status, ((await response.json()) as { id: unknown }).id]);
  }
  assert.deepEqual(seen[0], [200, 'mine']);
  assert.ok(
    seen.some(([status, id]) => status === 429 && id === 'mine'),
    JSON.stringify(seen),
  );
});

test('without credits a webhook can be switched off and deleted for nothing, but not on', LIMIT, async () => {
  const { project, key } = await bed.makeKey({ override: { creditsLimit: 350 } });
  const call = async (method: string, path: string, body?: object) =>
    await bed.request(path, key, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const hook = { webhookURL: 'https://app.example/hook', webhookType: 'raw', accountAddresses: ['1'.repeat(32)] };
  const made = await call('POST', '/v0/webhooks', hook);
  const path = `/v0/webhooks/${((await made.json()) as { webhookID: string }).webhookID}`;
  const toggle = async (active: boolean) => (await call('PATCH', path, { active })).status;
  const used = async () =>
    ((await (await call('GET', `/v0/admin/projects/${project}/usage`)).json()) as { creditsUsed: number }).creditsUsed;
  assert.deepEqual([await toggle(false), await toggle(true), await used()], [200, 200, 300]);
  assert.deepEqual([await toggle(false), await used()], [200, 300], 'the last 50 do not pay for it');
  const on = await call('PATCH', path, { active: true });
  assert.deepEqual([on.status, ((await on.json()) as { error: string }).error], [429, 'max usage reached']);
  assert.ok(Number(on.headers.get('retry-after')) > 0);
  await bed.cli('projects', 'set-plan', '--id', project, '--override', JSON.stringify({ creditsLimit: 400 }));
  for (let i = 0; i < 200 && (await toggle(true)) !== 200; i += 1) await new Promise((done) => setTimeout(done, 20));
  assert.equal(await used(), 400, 'exactly enough');
  assert.equal((await call('DELETE', path)).status, 200);
  assert.equal(await used(), 400);
});
