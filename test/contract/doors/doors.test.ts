/**
 * One suite for every listener that takes bytes of a client: what is slow, unfinished, packed or refused is counted from its first byte,
 * has a deadline and costs tokens by its size, and another project is served meanwhile.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { type AccessDaemon, rpcCall, startAccessDaemon } from '../../conformance/access/harness.ts';
import { freePort } from '../../helpers/free-port.ts';
import { testCore } from '../../helpers/http-front.ts';
import { byCase } from '../../helpers/run-part.ts';

const LIMIT = { timeout: 180_000 };
const REQUEST_BYTES = 600_000;
/** Below the largest size of a call on each door. */
const LARGE_BYTES = 500_000;
/** One call and its size, and for minutes none. The other rate shows when it is in effect, without a token of this one. */
const RARE = { ratePerSecond: { rpc: 0.01, das: 777 } };
const TIMEOUT_MS = 4_000;

/** A connection of a client that sends what a test tells it to. */
interface Client {
  /** The part of a request that begins it, and then so many bytes of an unfinished message. */
  begin(bytes: number): void;
  more(bytes: number): void;
  /** What the other side said at last, when it has refused the client or closed the connection. */
  readonly ended: Promise<string>;
  destroy(): void;
}

interface Door {
  open(key: string): Promise<Client>;
  /** A whole message of this size, valid or not, on a connection that is open when `ready` is called. Resolves with `ok` or the refusal. */
  send(key: string, bytes: number, isValid: boolean, ready?: () => Promise<unknown>): Promise<string>;
  /** What is written when the rate is used up. */
  readonly rate: RegExp;
  /** What is written when the budget of bytes is used up. */
  readonly full: RegExp;
  readonly late: RegExp;
}

let bed: AccessDaemon;
let apiPort: number;
let grpcPort: number;
const opened: { destroy(): void }[] = [];

before(async () => {
  grpcPort = await freePort();
  bed = await startAccessDaemon({
    http: { requestTimeoutMs: TIMEOUT_MS, headerTimeoutMs: TIMEOUT_MS },
    plugins: [...testCore().plugins, 'streams'],
    streams: { grpc: { port: grpcPort } },
  });
  apiPort = Number(new URL(bed.daemon.apiUrl).port);
});
after(async () => {
  for (const one of opened) one.destroy();
  await bed?.stop();
});

function tcp(): { readonly socket: Socket; readonly text: () => string; readonly ended: Promise<string> } {
  const socket = connect({ host: '127.0.0.1', port: apiPort });
  opened.push(socket);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  const ended = new Promise<string>((resolve) => socket.once('close', () => resolve(text)));
  return { socket, text: () => text, ended };
}

const http: Door = {
  async open(key) {
    const { socket, ended } = tcp();
    return {
      begin(bytes) {
        socket.write(
          `POST /?api-key=${key} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n${' '.repeat(bytes)}`,
        );
      },
      more: (bytes) => void socket.write(' '.repeat(bytes)),
      ended,
      destroy: () => socket.destroy(),
    };
  },
  async send(key, bytes, isValid, ready) {
    await ready?.();
    const response = await bed.request('/', key, { method: 'POST', body: callOf(bytes, isValid) });
    return outcomeOf((await response.json()) as Answer);
  },
  rate: /^-32429|^-32005/,
  full: /at most 600000 bytes of request bodies/,
  late: /408|^$/,
};

interface Answer {
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details?: string } };
}
const outcomeOf = ({ error }: Answer) =>
  error === undefined ? 'ok' : `${error.code} ${error.data?.details ?? error.message}`;
const callOf = (bytes: number, isValid: boolean) =>
  isValid
    ? `{"jsonrpc":"2.0","id":1,"method":"getSlot","params":["${'x'.repeat(bytes)}"]}`
    : `{"jsonrpc":"2.0","id":1,"params":["${'x'.repeat(bytes)}"]}`;

/** A masked frame, whole or only its head and first bytes (RFC 6455, section 5.2). */
function frameOf(payload: Buffer, { isFirst = true, isLast = true, size = payload.length } = {}): Buffer {
  const head = Buffer.alloc(14);
  head[0] = (isLast ? 0x80 : 0) | (isFirst ? 1 : 0);
  head[1] = 0x80 | 127;
  head.writeBigUInt64BE(BigInt(size), 2);
  const mask = randomBytes(4);
  mask.copy(head, 10);
  const masked = Buffer.from(payload);
  for (let i = 0; i < masked.length; i += 1) masked[i] = (masked[i] as number) ^ (mask[i & 3] as number);
  return Buffer.concat([head, masked]);
}

async function upgraded(key: string) {
  const one = tcp();
  one.socket.write(
    [
      `GET /?api-key=${key} HTTP/1.1`,
      'Host: x',
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
      '',
      '',
    ].join('\r\n'),
  );
  await until('it is open', () => one.text().includes('\r\n\r\n'));
  assert.match(one.text(), /^HTTP\/1\.1 101/);
  return one;
}

/** First byte of a close frame: the last one, with opcode 8. */
const CLOSE_FRAME = 0x88;

/** Frames of the server that hold one text each follow the head of the upgrade. */
const websocket = (isFragmented: boolean): Door => ({
  async open(key) {
    const { socket, ended } = await upgraded(key);
    // A client that reads why it is closed, and leaves: the others are waited for.
    socket.on('data', (chunk: Buffer) => {
      if (chunk.includes(CLOSE_FRAME)) socket.end();
    });
    return {
      begin(bytes) {
        const payload = Buffer.alloc(bytes, ' ');
        socket.write(isFragmented ? frameOf(payload, { isLast: false }) : frameOf(payload, { size: 1_000_000 }));
      },
      more(bytes) {
        const payload = Buffer.alloc(bytes, ' ');
        socket.write(isFragmented ? frameOf(payload, { isFirst: false, isLast: false }) : payload);
      },
      ended,
      destroy: () => socket.destroy(),
    };
  },
  async send(key, bytes, isValid, ready) {
    const { socket, text } = await upgraded(key);
    await ready?.();
    socket.write(frameOf(Buffer.from(callOf(bytes, isValid))));
    await until('it is answered', () => text().includes('"jsonrpc"') || socket.destroyed);
    socket.destroy();
    return outcomeOf(JSON.parse(text().slice(text().indexOf('{"jsonrpc"'))) as Answer);
  },
  rate: /^-32429|^-32005/,
  full: /too many bytes of unfinished messages/,
  late: /did not arrive in time/,
});

const grpc: Door = {
  async open(key) {
    const { stream, ended, session } = grpcCall(key, 'Subscribe');
    return {
      begin(bytes) {
        const head = Buffer.alloc(5);
        head.writeUInt32BE(bytes + 1, 1);
        stream.write(Buffer.concat([head, Buffer.alloc(bytes)]));
      },
      more: (bytes) => void stream.write(Buffer.alloc(bytes)),
      ended,
      destroy: () => session.destroy(),
    };
  },
  async send(key, bytes, isValid, ready) {
    await ready?.();
    const { stream, ended, session } = grpcCall(key, 'Subscribe');
    // A member that nobody knows, or no message at all; packed, so that the size is seen only afterwards.
    const member = Buffer.concat([Buffer.from([0xba, 0x3e]), varint(bytes), Buffer.alloc(bytes)]);
    const packed = gzipSync(isValid ? member : Buffer.alloc(bytes, 0xff));
    const head = Buffer.alloc(5);
    head[0] = 1;
    head.writeUInt32BE(packed.length, 1);
    stream.write(Buffer.concat([head, packed]));
    const answered = new Promise<string>((resolve) => stream.once('data', () => resolve('ok')));
    const outcome = await Promise.race([ended, answered, sleep(3_000, 'ok')]);
    session.destroy();
    return outcome;
  },
  rate: /^8 too many requests/,
  full: /^8 The plan allows at most 600000 bytes of request bodies/,
  late: /^4 the message did not arrive in time/,
};

const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    bytes.push(left < 128 ? left : (left & 127) | 128);
    if (left < 128) return Buffer.from(bytes);
  }
};

function grpcCall(key: string, method: string) {
  const session: ClientHttp2Session = connectHttp2(`http://127.0.0.1:${grpcPort}`);
  session.on('error', () => undefined);
  opened.push(session);
  const stream = session.request({
    ':method': 'POST',
    ':path': `/geyser.Geyser/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-token': key,
    'grpc-encoding': 'gzip',
  });
  const ended = new Promise<string>((resolve) => {
    const tell = (headers: Readonly<Record<string, unknown>>) => {
      const status = headers['grpc-status'];
      if (status !== undefined)
        resolve(`${String(status)} ${decodeURIComponent(String(headers['grpc-message'] ?? ''))}`);
    };
    stream.on('response', tell);
    stream.on('trailers', tell);
    stream.on('error', () => resolve('broken'));
    stream.on('close', () => resolve('closed'));
  });
  stream.resume();
  return { session, stream, ended };
}

async function until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 1_500; i += 1) {
    if (await check()) return;
    await sleep(20);
  }
  assert.fail(`waited in vain: ${what}`);
}

async function used(): Promise<number> {
  const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  return Number(/^parhelion_budget_used\{budget="requestBytes"\} (\S+)$/m.exec(text)?.[1]);
}

const DOORS: Readonly<Record<string, Door>> = {
  'a websocket, in fragments': websocket(true),
  HTTP: http,
  'a websocket, in one frame': websocket(false),
  gRPC: grpc,
};

byCase(Object.entries(DOORS), (doors) => {
  for (const [name, door] of doors) {
    describe(name, () => {
      test('an unfinished message counts from its first bytes, and has a deadline', LIMIT, async () => {
        const { key } = await bed.makeKey();
        const client = await door.open(key);
        client.begin(300_000);
        const early = client.ended.then((text) => assert.fail(`it ended before: ${text}`));
        await Promise.race([early, until('it counts', async () => (await used()) >= 300_000)]);
        early.catch(() => undefined);
        assert.match(await client.ended, door.late);
        await until('it is given back', async () => (await used()) === 0);
      });

      test(
        'more than the project may hold is refused before it is complete; a neighbour is served',
        LIMIT,
        async () => {
          const [attacker, neighbour] = [
            await bed.makeKey({ override: { budgets: { requestBytes: REQUEST_BYTES } } }),
            await bed.makeKey(),
          ];
          const first = await door.open(attacker.key);
          first.begin(400_000);
          await until('the first counts', async () => (await used()) >= 400_000);
          const second = await door.open(attacker.key);
          second.begin(400_000);
          assert.match(await second.ended, door.full);
          assert.ok((await used()) <= 2 * REQUEST_BYTES);
          assert.equal(await door.send(neighbour.key, 1_000, true), 'ok');
          first.destroy();
          second.destroy();
          await until('all is given back', async () => (await used()) === 0);
        },
      );

      for (const isValid of [true, false]) {
        test(
          `a large message that is ${isValid ? 'admitted' : 'refused'} takes tokens by its size`,
          LIMIT,
          async () => {
            const waits = async (bytes: number) => {
              const { key, project } = await bed.makeKey();
              const limit = async () => {
                await bed.cli('projects', 'set-plan', '--id', project, '--override', JSON.stringify(RARE));
                const isLimited = async () =>
                  (await bed.rpc(key, rpcCall('getAsset', 1, {}))).headers.get('x-ratelimit-limit') === '777';
                await until('the limit is in effect', isLimited);
              };
              const outcome = await door.send(key, bytes, isValid, limit);
              if (isValid && bytes < 60_000) assert.equal(outcome, 'ok');
              const next = await bed.rpc(key, { jsonrpc: '2.0', id: 1, method: 'getSlot' });
              assert.equal(next.status, 429);
              return Number(next.headers.get('retry-after'));
            };
            const [small, large] = [await waits(1_000), await waits(LARGE_BYTES)];
            // gRPC stops to unpack when no token is left, so it may take fewer.
            if (door === grpc) assert.ok(large >= small, `${small} s and ${large} s`);
            else assert.ok(large > 5 * small, `${small} s and ${large} s`);
          },
        );
      }
    });
  }
});

test(
  'gRPC: a small message that unpacks to a large one is not unpacked beyond what the rate and the budget allow',
  LIMIT,
  async () => {
    const { key } = await bed.makeKey({ override: { ratePerSecond: { rpc: 5 } } });
    assert.match(await grpc.send(key, 30_000_000, true), grpc.rate);
    const few = await bed.makeKey({ override: { budgets: { requestBytes: REQUEST_BYTES } } });
    assert.match(await grpc.send(few.key, 30_000_000, true), grpc.full);
  },
);

test('a websocket takes large parameters only of subscriptions that have them', LIMIT, async () => {
  const { key } = await bed.makeKey();
  const other = await upgraded(key);
  other.socket.write(
    frameOf(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"getSlot","params":["${'x'.repeat(1_100_000)}`), {
      isLast: false,
    }),
  );
  assert.match(await other.ended, /a message of this kind has at most 1048576 bytes/);
  const hidden = await upgraded(key);
  const lie = `{"jsonrpc":"2.0","id":1,"x":{"method":"transactionSubscribe"},"method":"getSlot","params":["${'x'.repeat(1_100_000)}"]}`;
  hidden.socket.write(frameOf(Buffer.from(lie)));
  await until('it is answered', () => hidden.text().includes('"jsonrpc"'));
  assert.match(hidden.text(), /"code":-32600.*a call has at most 1048576 bytes/);
});
