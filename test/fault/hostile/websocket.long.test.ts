import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { until } from '../../helpers/until.ts';
import { type HostileBed, rssBytes, startHostileBed } from './harness.ts';

const LIMITS = { maxMessageBytes: 100_000, maxSubscriptions: 20, maxInFlight: 16, maxQueuedBytes: 1_000_000 };
let bed: HostileBed;
before(async () => {
  bed = await startHostileBed({ proxy: { websocket: { ...LIMITS, pingIntervalMs: 1_000, maxConnections: 300 } } });
});
after(() => bed?.stop());

/** A socket on which frames are written by hand, after the handshake. */
async function rawSocket() {
  const connection = bed.connect();
  connection.send(
    `GET /?api-key=${bed.daemon.key} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
  );
  const received: Buffer[] = [];
  connection.socket.on('data', (chunk) => void received.push(chunk));
  await until(() => Buffer.concat(received).includes('\r\n\r\n'), 'the handshake');
  assert.match(Buffer.concat(received).toString('latin1'), /^HTTP\/1\.1 101 /);
  return connection;
}

interface FrameOptions {
  readonly final?: boolean;
  readonly masked?: boolean;
  readonly reserved?: number;
  /** What the header says. */
  readonly length?: bigint;
}

/** One frame with a mask of zeros. */
function frame(opcode: number, payload: Buffer | string = '', options: FrameOptions = {}): Buffer {
  const bytes = Buffer.from(payload);
  const { final = true, masked = true, reserved = 0, length } = options;
  const head = Buffer.alloc(10);
  head[0] = (final ? 0x80 : 0) | reserved | opcode;
  head[1] = (masked ? 0x80 : 0) | 127;
  head.writeBigUInt64BE(length ?? BigInt(bytes.length), 2);
  return Buffer.concat([head, masked ? Buffer.alloc(4) : Buffer.alloc(0), bytes]);
}

/** The shortest form, as control frames need it. */
const short = (opcode: number, payload: Buffer | string = ''): Buffer => {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | bytes.length, 0, 0, 0, 0]), bytes]);
};

const TEXT = 1;
const PING = 9;
const abuses: Record<string, readonly Buffer[]> = {
  'a giant frame': [frame(TEXT, 'x', { length: 5_000_000_000n })],
  'a frame beyond all integers': [frame(TEXT, 'x', { length: 0xffffffffffffffffn })],
  'a frame just above the limit': [frame(TEXT, Buffer.alloc(100_001, 0x20))],
  'fragments that add up to more': Array.from({ length: 30 }, (_, i) =>
    frame(i === 0 ? TEXT : 0, Buffer.alloc(10_000, 0x20), { final: false }),
  ),
  'tens of thousands of empty fragments': Array.from({ length: 20_000 }, (_, i) =>
    frame(i === 0 ? TEXT : 0, '', { final: false }),
  ),
  'text that is not UTF-8': [frame(TEXT, Buffer.from([0xff, 0xfe, 0xc0]))],
  'an unmasked frame': [frame(TEXT, '{}', { masked: false })],
  'reserved bits': [frame(TEXT, '{}', { reserved: 0x70 })],
  'an unknown opcode': [frame(3, '{}')],
  'a continuation of nothing': [frame(0, '{}')],
  'a text within a text': [frame(TEXT, '{', { final: false }), frame(TEXT, '}')],
  'a long ping': [frame(PING, Buffer.alloc(200))],
  'a ping in fragments': [frame(PING, 'x', { final: false })],
  'HTTP after the handshake': [Buffer.from('GET /ping HTTP/1.1\r\nHost: x\r\n\r\n')],
};

for (const [name, frames] of Object.entries(abuses)) {
  test(`${name} ends the socket`, { timeout: 30_000 }, async () => {
    await bed.during(async () => {
      const connection = await rawSocket();
      for (const one of frames) connection.send(one);
      // The good-bye is not answered: the socket has to be cut all the same.
      await connection.closed;
    });
  });
}

const open = (target = `/?api-key=${bed.daemon.key}`) =>
  new Promise<WebSocket | number>((resolve) => {
    const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}${target}`);
    socket.on('open', () => resolve(socket));
    socket.on('error', () => resolve(0));
    socket.on('unexpected-response', (_, response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
  });

test('a flood of subscriptions is bounded and leaves nothing behind', async () => {
  await bed.during(async () => {
    const socket = (await open()) as WebSocket;
    const answers: { id: number; result?: number; error?: { code: number } }[] = [];
    socket.on('message', (data) => answers.push(JSON.parse(String(data))));
    for (let id = 1; id <= 2_000; id += 1)
      socket.send(`{"jsonrpc":"2.0","id":${id},"method":"logsSubscribe","params":[{"mentions":["${id}"]}]}`);
    await until(() => answers.length === 2_000, 'an answer for each');
    assert.equal(answers.filter(({ result }) => result !== undefined).length, 20);
    assert.ok(bed.upstream.held('logsSubscribe').length <= 20);
    socket.terminate();
    await until(() => bed.upstream.held('logsSubscribe').length === 0, 'the upstream is told');
  });
});

test('a flood of calls waits for its turn', async () => {
  let running = 0;
  let most = 0;
  bed.upstream.on('getSlow', async () => {
    most = Math.max(most, ++running);
    await sleep(2);
    running -= 1;
    return { result: '1' };
  });
  await bed.during(async () => {
    const socket = (await open()) as WebSocket;
    let answered = 0;
    socket.on('message', () => {
      answered += 1;
    });
    for (let id = 1; id <= 3_000; id += 1)
      socket.send(`{"jsonrpc":"2.0","id":${id},"method":"getSlow","params":["${'x'.repeat(1_000)}${id}"]}`);
    await until(() => answered === 3_000, `an answer for each call`);
    socket.terminate();
    // What had been read in one piece may run beyond the bound.
    assert.ok(most < 16 + 100, `${most} at once`);
  });
});

test('a client that never reads is let go: calls and pings', { timeout: 60_000 }, async () => {
  bed.upstream.on('getBig', { result: `"${'y'.repeat(50_000)}"` });
  const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"getBig"}`;
  await bed.during(async () => {
    for (const flood of [
      () => frame(TEXT, call(1)),
      () => Buffer.concat(Array.from({ length: 100 }, () => short(PING, 'p'.repeat(125)))),
    ]) {
      const before = rssBytes(bed);
      const connection = await rawSocket();
      connection.socket.pause();
      let gone = false;
      connection.socket.on('error', () => {
        gone = true;
      });
      for (let i = 0; i < 4_000 && !gone && !connection.socket.destroyed; i += 1) {
        connection.send(flood());
        if (i % 50 === 0) await sleep(5);
        if (connection.socket.writableLength > 5_000_000) break;
      }
      await sleep(200);
      assert.ok(rssBytes(bed) < before + 150_000_000, `${before} -> ${rssBytes(bed)}`);
      connection.destroy();
    }
  });
});

test('a client that answers no ping is cut', { timeout: 30_000 }, async () => {
  await bed.during(async () => {
    const silent = await rawSocket();
    await silent.closed;
  });
});

test('handshakes that are none, and keys that are wrong', async () => {
  await bed.during(async () => {
    assert.equal(await open('/'), 401);
    assert.equal(await open('/?api-key=wrong'), 401);
    for (const headers of [
      'Sec-WebSocket-Version: 13\r\n',
      'Sec-WebSocket-Version: 1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n',
    ]) {
      const connection = bed.connect();
      connection.send(
        `GET /?api-key=${bed.daemon.key} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${headers}\r\n`,
      );
      const { status } = await connection.answer();
      assert.ok(status >= 400 && status < 500, String(status));
      await connection.closed;
    }
  });
});

test('more sockets than allowed are refused, and the service goes on', async () => {
  await bed.during(async () => {
    const sockets = await Promise.all(Array.from({ length: 400 }, () => open()));
    const statuses = sockets.filter((one) => typeof one === 'number');
    assert.deepEqual([...new Set(statuses)], [503]);
    assert.equal(statuses.length, 100);
    for (const socket of sockets) if (typeof socket !== 'number') socket.terminate();
  });
});
