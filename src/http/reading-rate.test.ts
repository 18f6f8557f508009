/** Real connections, plain and TLS: one large write, whose end says nothing about how its client reads. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { makeCertificate, opensslMissing } from '../../test/helpers/certificates.ts';
import { until } from '../../test/helpers/until.ts';
import { createSystemClock } from '../adapters/clock.ts';
import type { Clock } from '../ports/clock.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createReadingRate } from './connections.ts';

const LIMIT = { timeout: 60_000 };
const BYTES = 24_000_000;
/** Far above what the system buffers for a client that reads nothing. */
const WINDOW_MS = 1_500;

async function serve(t: TestContext, server: Server, clock: Clock = createSystemClock()): Promise<number> {
  const cut = createMetricsRegistry().scope('x').counter('cut_total', 'cut');
  const limits = { minReadBytesPerSecond: 10_000, readWindowMs: WINDOW_MS };
  createReadingRate({ clock, limits, cut }).attach(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

/** Resolves with the bytes that came, when the other side has closed. */
function read(socket: Socket, pauseMs: number | null): Promise<number> {
  let received = 0;
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (pauseMs === null) return;
    socket.pause();
    setTimeout(() => socket.resume(), (pauseMs * chunk.length) / 65_536);
  });
  if (pauseMs === null) socket.pause();
  return new Promise((resolve) => socket.once('close', () => resolve(received)));
}

const answer = (_: unknown, response: { end(bytes: Buffer): void }) => response.end(Buffer.alloc(BYTES));

for (const kind of ['plain', 'TLS'] as const) {
  const skip = kind === 'TLS' && (opensslMissing() ?? false);
  test(`${kind}: a slow reader gets everything, one that reads nothing is disconnected`, {
    ...LIMIT,
    skip,
  }, async (t) => {
    const cert = kind === 'TLS' ? makeCertificate() : null;
    const port = await serve(t, cert === null ? createServer(answer) : createTlsServer({ ...cert }, answer));
    const open = (): Socket =>
      cert === null ? connect(port, '127.0.0.1') : connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false });
    const stuck = open();
    const left = read(stuck, null);
    // It takes several windows.
    assert.ok((await read(open(), 20)) > BYTES);
    // A client that reads nothing does not see the end of its connection before it reads again.
    stuck.resume();
    assert.ok((await left) < BYTES);
  });
}

test('a client that takes what is written in the turn of each look keeps its connection', {
  ...LIMIT,
  skip: opensslMissing() ?? false,
}, async (t) => {
  let nowMs = 0;
  let look: () => void = () => undefined;
  const clock: Clock = {
    ...createSystemClock(),
    monotonic: () => nowMs,
    timeout(_, fn) {
      look = fn;
      return () => undefined;
    },
  };
  let write = (_: string): void => undefined;
  // Over TLS a write takes longer than its turn.
  const server = createTlsServer({ ...makeCertificate() }, (_, response) => {
    response.flushHeaders();
    write = (text) => void response.write(text);
  });
  const port = await serve(t, server, clock);
  const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false });
  t.after(() => void socket.destroy());
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => text.includes('200 OK'), 'the head');
  for (let looks = 1; looks <= 12; looks += 1) {
    nowMs += WINDOW_MS / 3;
    write(`<${looks}>`);
    // The response is sent at the end of the turn; a look in the next one still finds it unsent.
    await new Promise<void>((resolve) => process.nextTick(() => process.nextTick(resolve)));
    look();
    await until(() => text.includes(`<${looks}>`) || socket.destroyed, `message ${looks}`);
  }
  assert.equal(socket.destroyed, false);
});
