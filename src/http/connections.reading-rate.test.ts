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

/** Time that passes only when a test says so: a busy machine changes nothing. */
function createLookClock() {
  let nowMs = 0;
  let next: { readonly atMs: number; readonly look: () => void } | null = null;
  const clock: Clock = {
    ...createSystemClock(),
    monotonic: () => nowMs,
    timeout(ms, look) {
      next = { atMs: nowMs + ms, look };
      return () => {
        next = null;
      };
    },
  };
  return {
    clock,
    /** Looks take place when they are due. */
    passUntil(ms: number): void {
      while (next !== null && next.atMs <= ms) {
        const { atMs, look } = next;
        next = null;
        nowMs = Math.max(nowMs, atMs);
        look();
      }
      nowMs = Math.max(nowMs, ms);
    },
    /** The process does not run meanwhile: the look that was due in this time is late. */
    sleep(ms: number): void {
      nowMs += ms;
      this.passUntil(nowMs);
    },
    now: () => nowMs,
  };
}

/** Asks, and calls `took` with the number of bytes so far, which says whether to go on; null: it reads nothing. */
function read(
  socket: Socket,
  took: ((received: number) => boolean) | null,
): () => { received: number; isOver: boolean } {
  let received = 0;
  let isOver = false;
  socket.on('error', () => undefined);
  socket.once('close', () => {
    isOver = true;
  });
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (took === null) return;
    socket.pause();
    if (took(received)) setImmediate(() => socket.resume());
  });
  if (took === null) socket.pause();
  return () => ({ received, isOver });
}

const answer = (_: unknown, response: { end(bytes: Buffer): void }) => response.end(Buffer.alloc(BYTES));
/** The system takes up to some megabytes at once, so a lower rate would come in steps longer than a window. */
const SLOW_BYTES_PER_MS = 6_000;

for (const kind of ['plain', 'TLS'] as const) {
  const skip = kind === 'TLS' && (opensslMissing() ?? false);
  const open = async (t: TestContext, clock: Clock) => {
    const cert = kind === 'TLS' ? makeCertificate() : null;
    const port = await serve(t, cert === null ? createServer(answer) : createTlsServer({ ...cert }, answer), clock);
    return (): Socket =>
      cert === null ? connect(port, '127.0.0.1') : connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false });
  };

  test(`${kind}: a slow reader gets everything, one that reads nothing is disconnected`, {
    ...LIMIT,
    skip,
  }, async (t) => {
    const time = createLookClock();
    const connected = await open(t, time.clock);
    const unread = connected();
    const stuck = read(unread, null);
    // It takes several windows.
    const slow = read(connected(), (received) => {
      time.passUntil(received / SLOW_BYTES_PER_MS);
      return true;
    });
    await until(() => slow().isOver, 'the slow reader has all');
    assert.ok(slow().received > BYTES);
    assert.ok(time.now() > 2 * WINDOW_MS);
    for (let look = 0; look < 10; look += 1) time.passUntil(time.now() + WINDOW_MS / 3);
    // A client that reads nothing does not see the end of its connection before it reads again.
    unread.resume();
    await until(() => stuck().isOver, 'the other one is disconnected');
    assert.ok(stuck().received < BYTES);
  });

  test(`${kind}: a pause of the process itself disconnects nobody`, { ...LIMIT, skip }, async (t) => {
    const time = createLookClock();
    const connected = await open(t, time.clock);
    const socket = connected();
    let hasPaused = false;
    const reader = read(socket, (received) => {
      hasPaused ||= received >= BYTES / 4;
      return !hasPaused || time.now() > 10 * WINDOW_MS;
    });
    await until(() => hasPaused, 'it pauses');
    for (let look = 0; look < 2; look += 1) time.passUntil(time.now() + WINDOW_MS / 3);
    time.sleep(10 * WINDOW_MS);
    socket.resume();
    await until(() => reader().isOver, 'it has all');
    assert.ok(reader().received > BYTES);
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
