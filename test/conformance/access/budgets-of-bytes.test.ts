/** Bytes of requests and answers that one project leaves in memory, over the real daemon: another project goes on meanwhile. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { type RawConnection, rawConnect } from '../../helpers/raw-http.ts';
import { inLongTier } from '../../helpers/run-part.ts';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const LIMIT = { timeout: 120_000 };
const MB = 1_000_000;
const BUDGETS = { answerBytes: 24 * MB, requestBytes: MB };
const WINDOW_MS = 1_500;
let bed: AccessDaemon;
let port: number;
let connections: RawConnection[] = [];
let sockets: WebSocket[] = [];
before(async () => {
  bed = await startAccessDaemon({ http: { readWindowMs: WINDOW_MS, minReadBytesPerSecond: 100_000 } });
  const big = `"${'x'.repeat(4 * MB)}"`;
  bed.upstream.on('getBig', { result: big });
  port = Number(new URL(bed.daemon.apiUrl).port);
});
afterEach(() => {
  for (const one of connections) one.destroy();
  for (const one of sockets) one.terminate();
  connections = [];
  sockets = [];
});
after(() => bed?.stop());

function request(key: string, body: string): RawConnection {
  const connection = rawConnect(port);
  connections.push(connection);
  connection.send(
    `POST /?api-key=${key} HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return connection;
}

async function used(budget: string): Promise<number> {
  const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  return Number(new RegExp(`^parhelion_budget_used\\{budget="${budget}"\\} (\\S+)$`, 'm').exec(text)?.[1]);
}

async function until(what: string, done: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 1_000; i += 1) {
    if (await done()) return;
    await sleep(20);
  }
  assert.fail(`waited in vain: ${what}`);
}

const batch = (count: number) => JSON.stringify(Array.from({ length: count }, (_, i) => rpcCall('getBig', i + 1)));

test(
  'answers that nobody reads: further ones are refused to the project alone, and their connections are cut',
  LIMIT,
  async () => {
    const attacker = await bed.makeKey({ override: { budgets: BUDGETS } });
    const victim = await bed.makeKey({ override: { budgets: BUDGETS } });
    for (let i = 0; i < 10; i += 1) request(attacker.key, batch(4)).socket.pause();
    await until('answers wait', async () => (await used('answerBytes')) > 12 * MB);
    for (let i = 0; i < 3; i += 1) {
      assert.ok((await used('answerBytes')) <= 2 * BUDGETS.answerBytes);
      const answer = (await (await bed.rpc(victim.key, [rpcCall('getBig', 1), rpcCall('getSlot', 2)])).json()) as {
        result?: string;
      }[];
      assert.deepEqual(
        answer.map(({ result }) => (typeof result === 'string' ? result.length : result)),
        [4 * MB, 1_000],
      );
    }
    await until('nothing waits any more', async () => (await used('answerBytes')) === 0);
  },
);

test('a batch beyond the budget is shortened item by item; a call beyond it keeps its id', LIMIT, async () => {
  const { key } = await bed.makeKey({ override: { budgets: { answerBytes: 10 * MB } } });
  const items = (await (await bed.rpc(key, JSON.parse(batch(5)))).json()) as {
    id: number;
    result?: string;
    error?: { code: number };
  }[];
  assert.deepEqual(
    items.map(({ id }) => id),
    [1, 2, 3, 4, 5],
  );
  const codes = items.map(({ error }) => error?.code ?? 0).sort();
  assert.deepEqual(codes, [-32005, -32005, -32005, 0, 0]);
  const small = await bed.makeKey({ override: { budgets: { answerBytes: 100 } } });
  bed.upstream.on('getMedium', { result: `"${'x'.repeat(200)}"` });
  const refused = await bed.rpc(small.key, rpcCall('getMedium', 'mine'));
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  const { id, error } = (await refused.json()) as {
    id: string;
    error: { code: number; message: string; data: { details: string } };
  };
  assert.deepEqual([id, error.code, error.message], ['mine', -32005, 'Too many requests']);
  assert.match(error.data.details, /at most 100 bytes of answers/);
  assert.equal(((await (await bed.rpc(small.key, rpcCall('getSlot'))).json()) as { result: number }).result, 1_000);
});

test('a compressed answer is held as long as any', LIMIT, async () => {
  const { key } = await bed.makeKey({ override: { budgets: { answerBytes: 9 * MB } } });
  const response = await fetch(`${bed.daemon.apiUrl}/?api-key=${key}`, {
    method: 'POST',
    headers: { 'accept-encoding': 'gzip' },
    body: batch(3),
  });
  const items = (await response.json()) as { result?: string; error?: { code: number } }[];
  assert.equal(items.filter(({ error }) => error?.code === -32005).length, 1);
  await until('it is taken', async () => (await used('answerBytes')) === 0);
});

inLongTier(() =>
  test('websockets that are not read: bytes count over all of them, and they are cut', LIMIT, async () => {
    const attacker = await bed.makeKey({ override: { budgets: BUDGETS } });
    const victim = await bed.makeKey({ override: { budgets: BUDGETS } });
    const open = async (key: string) => {
      const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/?api-key=${key}`);
      sockets.push(socket);
      socket.on('error', () => undefined);
      await once(socket, 'open');
      return socket;
    };
    const his = await Promise.all(Array.from({ length: 12 }, () => open(attacker.key)));
    for (const socket of his) {
      socket.pause();
      for (let i = 0; i < 2; i += 1) socket.send(JSON.stringify(rpcCall('getBig', i)));
    }
    await until('answers wait', async () => (await used('answerBytes')) > 12 * MB);
    const mine = await open(victim.key);
    for (let i = 0; i < 5; i += 1) {
      assert.ok((await used('answerBytes')) <= 2 * BUDGETS.answerBytes);
      mine.send(JSON.stringify(rpcCall('getBig', i)));
      const [data] = (await once(mine, 'message')) as [Buffer];
      assert.equal((JSON.parse(String(data)) as { result: string }).result.length, 4 * MB);
    }
    // They are alive as far as pings tell, and cut all the same; `pause` of the client keeps even the close from being seen.
    await until('nothing waits any more', async () => (await used('answerBytes')) === 0);
    assert.equal(mine.readyState, WebSocket.OPEN);
  }),
);

test('a slow reader above the minimum rate gets everything', LIMIT, async () => {
  const { key } = await bed.makeKey();
  const connection = rawConnect(port);
  connections.push(connection);
  const body = batch(3);
  let received = 0;
  connection.socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    connection.socket.pause();
    setTimeout(() => connection.socket.resume(), chunk.length / 2_000);
  });
  connection.send(
    `POST /?api-key=${key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  await connection.closed;
  assert.ok(received > 12 * MB, String(received));
});

test('bodies that do not come to their end: the project is refused, another one is not', LIMIT, async () => {
  const attacker = await bed.makeKey({ override: { budgets: BUDGETS } });
  const victim = await bed.makeKey({ override: { budgets: BUDGETS } });
  const half = (key: string) => {
    const connection = rawConnect(port);
    connections.push(connection);
    connection.send(
      `POST /?api-key=${key} HTTP/1.1\r\nHost: x\r\nContent-Length: 500001\r\n\r\n${' '.repeat(500_000)}`,
    );
    return connection;
  };
  half(attacker.key);
  half(attacker.key);
  await until('both wait', async () => (await used('requestBytes')) === MB);
  const refused = await half(attacker.key).answer();
  assert.equal(refused.status, 429);
  assert.match(refused.body, /"code":-32005.*at most 1000000 bytes of request bodies/);
  const mine = await bed.rpc(victim.key, rpcCall('getSlot', 1, [' '.repeat(400_000)]));
  assert.equal(mine.status, 200);
});
