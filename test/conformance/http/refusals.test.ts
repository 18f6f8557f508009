/** What the listener does with connections that are no proper HTTP, or stop being it. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { createListener } from '../../../src/http/listener.ts';
import { createHttpMeter } from '../../../src/http/meter.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { GOOD_KEY, startFront, type TestFront } from '../../helpers/http-front.ts';
import { type RawConnection, rawConnect } from '../../helpers/raw-http.ts';
import { until } from '../../helpers/until.ts';
import { sampleRoutes } from './sample-routes.ts';

const WAIT = { timeout: 20_000 };
const PING = 'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n';
const slow = `GET /v1/wallet/faulty/slow?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\n\r\n`;
let front: TestFront;
before(async () => {
  front = await startFront({ routes: sampleRoutes(), http: { requestTimeoutMs: 60_000 } });
});
after(() => front.stop());

async function metric(name: string): Promise<number> {
  const line = (await front.registry.text()).split('\n').find((one) => one.startsWith(`parhelion_http_${name} `));
  return Number(line?.split(' ')[1]);
}

/** Status of each answer until the connection ends. */
async function statuses(connection: RawConnection): Promise<number[]> {
  const seen: number[] = [];
  for (;;) {
    const answer = await connection.answer().catch(() => null);
    if (answer === null) return seen;
    seen.push(answer.status);
  }
}

test('a body with a length and chunks is refused, and what follows is not read', WAIT, async () => {
  const connection = rawConnect(front.port);
  connection.send(
    `POST /v0/token-metadata HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${PING}`,
  );
  assert.deepEqual(await statuses(connection), [400]);
});

test('the refusal of nonsense comes after the answers to what stood before it', WAIT, async () => {
  const connection = rawConnect(front.port);
  connection.send(`${slow}${PING}\u0000nonsense\r\n\r\n`);
  assert.deepEqual(await statuses(connection), [200, 200, 400]);
});

test('nonsense within a body whose request was answered already only ends the connection', WAIT, async () => {
  const connection = rawConnect(front.port);
  connection.send('POST /v0/token-metadata HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n');
  assert.equal((await connection.answer()).status, 401);
  connection.send('no chunk at all\r\n');
  const received: Buffer[] = [];
  connection.socket.on('data', (chunk) => void received.push(chunk));
  await connection.closed;
  assert.equal(Buffer.concat(received).toString('latin1'), '');
});

test('CONNECT is answered, and a client that resets instead of reading harms nobody', WAIT, async () => {
  const connect = 'CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n';
  const connection = rawConnect(front.port);
  connection.send(connect);
  const answer = await connection.answer();
  assert.deepEqual([answer.status, JSON.parse(answer.body)], [405, { error: 'Method not allowed', code: 405 }]);
  await connection.closed;
});

test('an answer whose socket is reset meanwhile is no uncaught error, whoever holds the socket', WAIT, async () => {
  const registry = createMetricsRegistry();
  const limits = {
    headerTimeoutMs: 1_000,
    requestTimeoutMs: 1_000,
    handlerTimeoutMs: 1_000,
    keepAliveTimeoutMs: 1_000,
  };
  const meter = createHttpMeter(registry.scope('http'));
  const server = createListener({ ...limits, targetLimitBytes: 99 }, meter, () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const taken = new Promise<Socket>((resolve) => server.on('connect', (_request, socket) => resolve(socket as Socket)));
  const connection = rawConnect((server.address() as { port: number }).port);
  connection.send('CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n');
  const socket = await taken;
  // What a write to a reset connection ends with; without a listener it would end the process.
  socket.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
  await connection.closed;
  await new Promise((resolve) => server.close(resolve));
});

test(
  'one connection is refused once, however much nonsense comes; one that was reset is not answered',
  WAIT,
  async () => {
    const registry = createMetricsRegistry();
    const limits = {
      headerTimeoutMs: 1_000,
      requestTimeoutMs: 1_000,
      handlerTimeoutMs: 1_000,
      keepAliveTimeoutMs: 1_000,
    };
    const meter = createHttpMeter(registry.scope('http'));
    const server = createListener({ ...limits, targetLimitBytes: 99 }, meter, () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const accept = () => new Promise<Socket>((resolve) => server.once('connection', resolve));
    const nonsense = Object.assign(new Error('Parse Error'), { code: 'HPE_INVALID_METHOD' });

    const accepting = accept();
    const connection = rawConnect(port);
    const socket = await accepting;
    // As node:http tells it: once for every piece that comes while the refusal waits to be read.
    for (let piece = 0; piece < 3; piece += 1) server.emit('clientError', nonsense, socket);
    assert.deepEqual(await statuses(connection), [400]);
    assert.match(await registry.text(), /^parhelion_http_malformed_total 1$/m);

    const acceptingNext = accept();
    const gone = rawConnect(port);
    const goneSocket = await acceptingNext;
    server.emit('clientError', Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), goneSocket);
    assert.ok(goneSocket.destroyed);
    assert.deepEqual(await statuses(gone), []);
    await new Promise((resolve) => server.close(resolve));
  },
);

test('pipelined requests whose connection is lost are all over, each of them once', WAIT, async () => {
  const settledBefore = front.gate.settled.length;
  const errorsBefore = front.log.lines.filter(({ level }) => level === 'error').length;
  const connection = rawConnect(front.port);
  connection.send(slow.repeat(3));
  await until(() => front.front.load().inFlight === 3, 'all three run');
  connection.destroy();
  await until(() => front.front.load().inFlight === 0, 'none is left');
  // The first of them is told of twice, by its answer and by its connection.
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(front.gate.settled.length - settledBefore, 3);
  assert.equal(await metric('requests_in_flight'), 0);
  assert.equal(front.log.lines.filter(({ level }) => level === 'error').length, errorsBefore);
});

test('a client that leaves in the middle of its body is no error of ours', WAIT, async () => {
  const errorsBefore = front.log.lines.filter(({ level }) => level === 'error').length;
  const before = front.log.lines.length;
  const connection = rawConnect(front.port);
  connection.send(
    `POST /v1/wallet/batch-identity?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{`,
  );
  await until(() => front.front.load().inFlight === 1, 'it has come');
  connection.destroy();
  await until(() => front.log.lines.slice(before).some(({ fields }) => fields['status'] === 499), 'its line');
  assert.equal(front.log.lines.filter(({ level }) => level === 'error').length, errorsBefore);
});

test('a stream that nobody will read is let go: for HEAD, and when it comes after its deadline', WAIT, async () => {
  const streams: Readable[] = [];
  const stream = () => {
    const made = new Readable({ read() {} });
    streams.push(made);
    return made;
  };
  let isAborted = false;
  const common = { method: 'GET', summary: '', tag: '', auth: 'none', errors: 'plain', replies: {} } as const;
  const contentType = 'application/octet-stream';
  const own = await startFront({
    routes: [
      { ...common, path: '/stream', handler: () => ({ status: 200, stream: stream(), contentType }) },
      {
        ...common,
        path: '/late',
        timeoutMs: 150,
        async handler({ signal }) {
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          isAborted = signal.aborted;
          return { status: 200, stream: stream(), contentType };
        },
      },
      {
        ...common,
        path: '/stopped',
        timeoutMs: 50,
        async handler({ signal }) {
          await new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(new Error('given up', { cause: signal.reason })), {
              once: true,
            });
          });
          return { status: 204 };
        },
      },
    ],
  });
  const head = await fetch(`${own.url}/stream`, { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal((await fetch(`${own.url}/late`)).status, 504);
  await until(() => streams.length === 2 && streams.every(({ destroyed }) => destroyed), 'both are destroyed');
  assert.ok(isAborted);
  assert.equal((await fetch(`${own.url}/stopped`)).status, 504);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const errors = own.log.lines.filter(({ level }) => level === 'error' || level === 'fatal');
  assert.deepEqual(errors, [], 'a handler that throws because its time is up is no error of its own');
  await own.stop();
});
