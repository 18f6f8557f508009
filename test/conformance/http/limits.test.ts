/** Each bound of the listener and the pipeline, over real sockets in this process. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { createListener } from '../../../src/http/listener.ts';
import { createHttpMeter } from '../../../src/http/meter.ts';
import type { SocketHandler } from '../../../src/plugin/host.ts';
import type { Route } from '../../../src/plugin/plugin.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { GOOD_KEY, startFront, type TestFront, type TestFrontOptions } from '../../helpers/http-front.ts';
import { type RawConnection, rawConnect } from '../../helpers/raw-http.ts';
import { until } from '../../helpers/until.ts';
import { sampleRoutes } from './sample-routes.ts';

const WAIT = { timeout: 20_000 };
const PING = 'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n';
const LARGE_BYTES = 30_000_000;
const large: Route = {
  method: 'GET',
  path: '/large',
  summary: '',
  tag: '',
  auth: 'none',
  errors: 'plain',
  replies: {},
  handler: () => ({ status: 200, bytes: Buffer.alloc(LARGE_BYTES), contentType: 'application/octet-stream' }),
};

async function withFront(options: TestFrontOptions, run: (front: TestFront) => Promise<void>): Promise<void> {
  const front = await startFront({ routes: [...sampleRoutes(), large], ...options });
  try {
    await run(front);
  } finally {
    await front.stop();
  }
}
const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const outcome = (connection: RawConnection) =>
  connection.answer().then(
    ({ status }) => status,
    () => 'closed' as const,
  );
const ping = async (port: number) => {
  const connection = rawConnect(port);
  connection.send(PING);
  const status = await outcome(connection);
  connection.destroy();
  return status;
};

describe('times', () => {
  test('a kept connection that is not used is closed', WAIT, async () => {
    await withFront({ http: { keepAliveTimeoutMs: 200 } }, async ({ port }) => {
      const connection = rawConnect(port);
      connection.send(PING);
      assert.equal((await connection.answer()).status, 200);
      await connection.closed;
    });
  });
  test('a client that reads nothing gives its socket back', WAIT, async () => {
    const times = { headerTimeoutMs: 60_000, requestTimeoutMs: 100, handlerTimeoutMs: 100, keepAliveTimeoutMs: 60_000 };
    const server = createListener(
      { ...times, stallGraceMs: 200, targetLimitBytes: 99 },
      createHttpMeter(createMetricsRegistry().scope('http')),
      (_request, response) => void response.end(Buffer.alloc(LARGE_BYTES)),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
    const connection = rawConnect((server.address() as { port: number }).port);
    connection.socket.pause();
    connection.send(PING);
    const socket = await accepted;
    await new Promise((resolve) => socket.on('close', resolve));
    connection.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  test('a refused client that sends nothing of its body is not waited for', WAIT, async () => {
    await withFront({ http: { requestTimeoutMs: 3_600_000 } }, async ({ port }) => {
      const connection = rawConnect(port);
      connection.send('POST /v0/token-metadata HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n{');
      assert.equal((await connection.answer()).status, 401);
      await connection.closed;
    });
  });
  test('a connection that says nothing does not hold up the end', WAIT, async () => {
    const front = await startFront({ routes: sampleRoutes() });
    const silent = rawConnect(front.port);
    await new Promise((resolve) => silent.socket.once('connect', resolve));
    await front.front.close(AbortSignal.timeout(3_600_000));
    await silent.closed;
  });
});

describe('refused bodies', () => {
  let front: TestFront;
  before(async () => {
    front = await startFront({ routes: sampleRoutes(), http: { bodyLimitBytes: 4_096 } });
  });
  after(() => front.stop());
  const head = (length: number, key = '') =>
    `POST /v1/wallet/batch-identity?api-key=${key} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`;

  test('an unread body closes its connection when it is too long to be read for nothing', WAIT, async () => {
    const connection = rawConnect(front.port);
    connection.send(`${head(900_000)}{}`);
    const { status, headers } = await connection.answer();
    assert.deepEqual([status, headers['connection']], [401, 'close']);
    await connection.closed;
  });
  test('413 closes its connection, also where the body is a small one', WAIT, async () => {
    const connection = rawConnect(front.port);
    connection.send(`${head(5_000, GOOD_KEY)}${'x'.repeat(5_000)}`);
    const { status, headers } = await connection.answer();
    assert.deepEqual([status, headers['connection']], [413, 'close']);
    await connection.closed;
  });
  test('a client that writes all before it reads gets to read its refusal', WAIT, async () => {
    const { socket, ...connection } = rawConnect(front.port);
    socket.pause();
    const write = (bytes: string | Buffer) =>
      new Promise<void>((resolve, reject) => socket.write(bytes, (error) => (error ? reject(error) : resolve())));
    await write(head(400_000, GOOD_KEY));
    // It has been refused by now; a reset would make the next writes fail.
    await new Promise((resolve) => setTimeout(resolve, 100));
    for (let sent = 0; sent < 400_000; sent += 40_000) {
      await write(Buffer.alloc(40_000, 0x20));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    socket.resume();
    assert.equal((await connection.answer()).status, 413);
  });
  test('but nobody is read for ever', WAIT, async () => {
    const { socket, ...connection } = rawConnect(front.port);
    connection.send(head(200_000_000, GOOD_KEY));
    let taken = 0;
    const write = () => {
      if (taken >= 200_000_000) return;
      socket.write(Buffer.alloc(100_000, 0x20), (error) => {
        if (error) return;
        taken += 100_000;
        write();
      });
    };
    write();
    assert.equal((await connection.answer()).status, 413);
    await connection.closed;
    // What is read on purpose, and what the buffers of both sides take.
    assert.ok(taken < 30_000_000, `${taken} bytes were taken`);
  });
});

describe('requests at once', () => {
  test('a flood of pipelined requests is refused, before it keeps others out', WAIT, async () => {
    await withFront({}, async ({ port }) => {
      const connection = rawConnect(port);
      connection.send(PING.repeat(2_000));
      let answered = 0;
      let status = await outcome(connection);
      for (; status === 200; answered += 1) status = await outcome(connection);
      assert.equal(status, 503);
      assert.ok(answered <= 100, `${answered}`);
      await connection.closed;
    });
  });
  test('answers that nobody reads take no place from others', WAIT, async () => {
    await withFront({ http: { maxInFlight: 3 } }, async ({ port, front }) => {
      const greedy = many(6, () => {
        const connection = rawConnect(port);
        connection.socket.pause();
        connection.send('GET /large HTTP/1.1\r\nHost: x\r\n\r\n');
        return connection;
      });
      await until(() => front.load().inFlight === 6, 'all are being answered');
      assert.equal(await ping(port), 200);
      for (const connection of greedy) connection.destroy();
      await until(() => front.load().inFlight === 0, 'all are over');
    });
  });
  for (const [what, query] of [
    ['without a key', ''],
    ['with a key', `?api-key=${GOOD_KEY}`],
  ] as const)
    test(`bodies that do not come ${what} take no place from others`, WAIT, async () => {
      await withFront({ http: { maxInFlight: 3 } }, async ({ port, front }) => {
        const waiting = many(6, () => {
          const connection = rawConnect(port);
          connection.send(`POST /${query} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{`);
          return connection;
        });
        await until(() => front.load().inFlight === 6, 'all have come');
        assert.equal(await ping(port), 200);
        for (const connection of waiting) connection.destroy();
      });
    });
});

describe('connections of one address', () => {
  const MOST = 5;
  const crowded = async ({ registry }: TestFront) =>
    Number(/^parhelion_http_connections_crowded_total (\d+)$/m.exec(await registry.text())?.[1]);
  const open = async (port: number, count: number) => {
    const connections = many(count, () => rawConnect(port));
    for (const connection of connections) connection.send(PING);
    const outcomes = await Promise.all(connections.map(outcome));
    return { connections, answered: outcomes.filter((one) => one === 200).length };
  };

  test('have a limit, and come back', WAIT, async () => {
    await withFront({ http: { maxConnectionsPerAddress: MOST } }, async (front) => {
      for (let round = 1; round <= 3; round += 1) {
        const { connections, answered } = await open(front.port, MOST + 3);
        assert.deepEqual([answered, await crowded(front)], [MOST, 3 * round]);
        for (const connection of connections) connection.destroy();
        await until(() => front.front.load().inFlight === 0, 'nothing runs');
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    });
  });
  test('have none for trusted proxies, and none for 0', WAIT, async () => {
    for (const http of [
      { maxConnectionsPerAddress: MOST, trustedProxies: ['127.0.0.0/8'] },
      { maxConnectionsPerAddress: 0 },
    ])
      await withFront({ http }, async (front) => {
        const { connections, answered } = await open(front.port, MOST + 3);
        assert.equal(answered, MOST + 3);
        for (const connection of connections) connection.destroy();
      });
  });
  test('a connection counts once, however often it offers another protocol', WAIT, async () => {
    await withFront({ http: { maxConnectionsPerAddress: 2 } }, async ({ port }) => {
      const connection = rawConnect(port);
      for (let i = 0; i < 10; i += 1) {
        connection.send('GET /ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
        assert.equal((await connection.answer()).status, 200);
      }
      connection.destroy();
    });
  });
});

describe('upgrades', () => {
  const upgrade = (target: string) =>
    `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;

  test('a target that is too long is 414; an open socket may be silent for as long as it likes', WAIT, async () => {
    const taken: Socket[] = [];
    const sockets: SocketHandler = {
      connections: () => taken.length,
      upgrade: (_request, socket) => taken.push(socket as Socket) > 0,
    };
    await withFront({ sockets }, async ({ port }) => {
      const long = rawConnect(port);
      long.send(upgrade(`/?api-key=${GOOD_KEY}&x=${'x'.repeat(9_000)}`));
      assert.equal((await long.answer()).status, 414);
      const fine = rawConnect(port);
      fine.send(upgrade(`/?api-key=${GOOD_KEY}`));
      await until(() => taken.length === 1, 'the socket is handed over');
      assert.equal(taken[0]?.timeout ?? 0, 0);
      fine.destroy();
      // What a reset ends with: nobody else listens to the socket yet.
      taken[0]?.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
    });
  });
});
