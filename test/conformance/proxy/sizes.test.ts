/** An answer of any size reaches the client whole, or the client sees that it does not. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  createServer as createHttpServer,
  request as httpRequest,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Keypair } from '@solana/web3.js';
import type { Log } from '../../../src/ports/telemetry.ts';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { REPLY_FAULTS } from '../../helpers/reply-faults.ts';
import { byCase } from '../../helpers/run-part.ts';
import { legacy, transfer } from '../sender/transactions.ts';
import { until } from './rpc-client.ts';
import { connect } from './socket-client.ts';

/** Around the sizes of reads, TLS records and buffers, and some in between. */
const SIZES = [
  1,
  100,
  1_000,
  ...[16_384, 65_536, 131_072].flatMap((size) => [size - 50, size - 1, size, size + 1, size + 1_900]),
  32_768,
  67_351,
  72_000,
  81_920,
  90_000,
  121_307,
  196_608,
  262_144,
  400_000,
];

type Sending = (response: ServerResponse, body: Buffer) => void;

/** How a node may send an answer. */
const SENDINGS: Readonly<Record<string, Sending>> = {
  'with its length, at once': (response, body) => {
    response.setHeader('content-length', body.length);
    response.end(body);
  },
  'in chunks, the last with the end': (response, body) => {
    for (let at = 0; at + 16_384 < body.length; at += 16_384) response.write(body.subarray(at, at + 16_384));
    response.end(body.subarray(Math.floor((body.length - 1) / 16_384) * 16_384));
  },
  'until the connection closes': (response, body) => {
    response.useChunkedEncodingByDefault = false;
    response.setHeader('connection', 'close');
    response.write(body.subarray(0, 65_000));
    setImmediate(() => response.end(body.subarray(65_000)));
  },
};

/** Each size in each way, in an order in which every tenth has both large and small ones in all ways. */
const CASES = SIZES.flatMap((size) => Object.keys(SENDINGS).map((sending) => ({ size, sending })));

const answerOf = (size: number, id: unknown): Buffer =>
  Buffer.from(
    `{"jsonrpc":"2.0","result":"${'0123456789abcdef'.repeat(Math.ceil(size / 16)).slice(0, size)}","id":${JSON.stringify(id)}}`,
  );

interface Node {
  readonly url: string;
  readonly calls: readonly string[];
}

interface Call {
  readonly method: string;
  readonly id: unknown;
  readonly params: readonly unknown[];
}

/** `handle`: for all methods but those that show that it is healthy. */
async function startNode(
  t: TestContext,
  isSecure: boolean,
  handle: (call: Call, response: ServerResponse) => void,
  /** Absent: batches are refused. */
  handleBatch: (calls: readonly Call[], response: ServerResponse) => void = (_, response) => {
    response.end('{"jsonrpc":"2.0","error":{"code":-32600,"message":"no batches"},"id":null}');
  },
): Promise<Node> {
  const calls: string[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      // Websockets are not served here.
      if (chunks.length === 0) return void response.writeHead(404).end();
      const call = JSON.parse(Buffer.concat(chunks).toString()) as Call | readonly Call[];
      if (!('method' in call)) return handleBatch(call, response);
      const own: Record<string, string> = { getSlot: '1000', getGenesisHash: '"11111111111111111111111111111112"' };
      const result = own[call.method];
      if (result !== undefined)
        return void response.end(`{"jsonrpc":"2.0","result":${result},"id":${JSON.stringify(call.id)}}`);
      calls.push(call.method);
      handle(call, response);
    });
  };
  const server = isSecure ? createHttpsServer(makeCertificate(), listener) : createHttpServer(listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `${isSecure ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

async function startFront(
  t: TestContext,
  nodes: readonly Node[],
  more: object = {},
  log?: Log,
): Promise<DaemonInProcess> {
  const daemon = await startDaemon({
    ...(log === undefined ? {} : { parts: (parts) => ({ ...parts, log }) }),
    config: {
      plugins: ['access', 'proxy', 'sender'],
      upstream: { urls: nodes.map(({ url }) => ({ url })), healthIntervalMs: 3_600_000 },
      follow: { enabled: false },
      ...more,
    },
  });
  t.after(() => daemon.stop());
  return daemon;
}

interface Received {
  readonly status: number;
  readonly body: Buffer;
}

/** Rejects for an answer that ends before it is complete. */
function send(
  daemon: DaemonInProcess,
  path: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<Received> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${daemon.apiUrl}${path}?api-key=${daemon.key}`,
      { method: 'POST', headers },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const all = Buffer.concat(chunks);
          const isPacked = response.headers['content-encoding'] === 'gzip';
          resolve({ status: response.statusCode ?? 0, body: isPacked ? gunzipSync(all) : all });
        });
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

const callOf = (method: string, params: readonly unknown[], id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });

byCase(CASES, (cases) => {
  for (const isSecure of [false, true]) {
    const missing = isSecure ? opensslMissing() : null;
    test(`answers of every size arrive byte for byte${isSecure ? ', over TLS' : ''}`, {
      skip: missing ?? false,
    }, async (t) => {
      if (isSecure) {
        const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
        process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
        t.after(() => {
          if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
          else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
        });
      }
      const node = await startNode(
        t,
        isSecure,
        ({ id, params: [size, sending] }, response) =>
          SENDINGS[sending as string]!(response, answerOf(size as number, id)),
        (calls, response) => {
          const answers = calls.map(({ id, params: [size] }) => answerOf(size as number, id).toString('latin1'));
          SENDINGS[calls[0]!.params[1] as string]!(response, Buffer.from(`[${answers.join()}]`, 'latin1'));
        },
      );
      const daemon = await startFront(t, [node]);
      const client = await connect(t, { daemon });
      let socketId = 1_000;
      for (const { sending, size } of cases) {
        const what = `${size} bytes, ${sending}`;
        const body = callOf('getX', [size, sending]);
        const plain = await send(daemon, '/', body);
        assert.equal(plain.status, 200, what);
        assert.ok(plain.body.equals(answerOf(size, 1)), `${what}: ${plain.body.length} bytes`);
        const packed = await send(daemon, '/', body, { 'accept-encoding': 'gzip' });
        assert.ok(packed.body.equals(answerOf(size, 1)), `${what}, gzip: ${packed.body.length} bytes`);
        const batch = await send(daemon, '/', `[${body},${callOf('getX', [size, sending], 2)}]`);
        const joined = Buffer.concat([
          Buffer.from('['),
          answerOf(size, 1),
          Buffer.from(','),
          answerOf(size, 2),
          Buffer.from(']'),
        ]);
        assert.ok(batch.body.equals(joined), `${what}, batch: ${batch.body.length} bytes`);
        socketId += 1;
        const told = await client.call('getX', [size, sending], socketId);
        assert.ok(Buffer.from(told).equals(answerOf(size, socketId)), `${what}, websocket: ${told.length} bytes`);
      }
    });
  }

  test('refusals of every size arrive through /fast', async (t) => {
    const refusalOf = (size: number) =>
      `{"code":-32002,"message":"Transaction simulation failed","data":{"logs":["${'x'.repeat(size)}"]}}`;
    let next = { size: 0, sending: '' };
    const node = await startNode(t, false, ({ id }, response) => {
      const text = `{"jsonrpc":"2.0","error":${refusalOf(next.size)},"id":${JSON.stringify(id)}}`;
      SENDINGS[next.sending]!(response, Buffer.from(text));
    });
    const daemon = await startFront(t, [node], { sender: { rebroadcast: { enabled: false }, ratePerSecond: 10_000 } });
    const receiver = Keypair.generate().publicKey;
    for (const { sending, size } of cases) {
      next = { size, sending };
      const { base64 } = legacy([transfer(receiver, size)]);
      const body = callOf('sendTransaction', [base64, { encoding: 'base64' }]);
      const expected = `{"jsonrpc":"2.0","error":${refusalOf(size)},"id":1}`;
      for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
        const made = await send(daemon, '/fast', body, headers);
        const what = `${size} bytes, ${sending}: ${made.status}, ${made.body.length} bytes`;
        assert.ok(made.body.equals(Buffer.from(expected)), what);
      }
    }
    assert.equal(node.calls.length, cases.length * 2);
  });
});

const BREAKS = Object.keys(REPLY_FAULTS).flatMap((fault) =>
  [66_000, 100, 140_000].flatMap((size) => Object.keys(SENDINGS).map((sending) => ({ fault, size, sending }))),
);

byCase(BREAKS, (cases) =>
  test('an answer that is not the whole answer to the call never arrives as a clean one', async (t) => {
    const broken = new Map<string, (whole: Buffer) => Buffer>(Object.entries(REPLY_FAULTS));
    const first = await startNode(t, false, ({ id, params: [size, fault, sending] }, response) =>
      SENDINGS[sending as string]!(response, broken.get(fault as string)!(answerOf(size as number, id))),
    );
    const second = await startNode(
      t,
      false,
      ({ id, params: [size] }, response) => void response.end(answerOf(size as number, id)),
    );
    // It stays the first choice, however often it fails.
    const daemon = await startFront(t, [first, second], {
      upstream: { urls: [{ url: first.url }, { url: second.url }], healthIntervalMs: 3_600_000, coolDownMs: 1 },
      proxy: { stickyMs: 0 },
    });
    const client = await connect(t, { daemon });
    let socketId = 5_000;
    let breaks = 0;
    for (const { fault, sending, size } of cases) {
      const what = `${size} bytes, ${sending}, ${fault}`;
      const body = callOf('getX', [size, fault, sending]);
      for (const headers of size === 66_000 ? [{}, { 'accept-encoding': 'gzip' }] : [{}]) {
        const made = await send(daemon, '/', body, headers).catch(() => null);
        if (made === null) breaks += 1;
        else assert.ok(made.body.equals(answerOf(size, 1)), `${what}: ${made.status}, ${made.body.length} bytes`);
        // What was not passed on yet is asked elsewhere.
        if (size < 65_000) assert.notEqual(made, null, what);
      }
      const batch = await send(daemon, '/', `[${body}]`);
      assert.ok(
        batch.body.equals(Buffer.concat([Buffer.from('['), answerOf(size, 1), Buffer.from(']')])),
        `${what}, batch`,
      );
      socketId += 1;
      const told = await client.call('getX', [size, fault, sending], socketId);
      assert.ok(Buffer.from(told).equals(answerOf(size, socketId)), `${what}, websocket`);
    }
    assert.ok(breaks > 0);
  }),
);

test('an answer that breaks off is counted and logged as failed, and not charged', async (t) => {
  const node = await startNode(t, false, ({ id, params: [isCut] }, response) => {
    const whole = answerOf(200_000, id);
    response.end(isCut === true ? whole.subarray(0, -10) : whole);
  });
  const log = createMemoryLog();
  const daemon = await startFront(t, [node], {}, log);
  const metric = async (name: string, labels: string): Promise<number> => {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    return Number(new RegExp(`^${name}\\{${labels}\\} (\\d+)`, 'm').exec(text)?.[1] ?? 0);
  };
  const credits = async (): Promise<number> => {
    for (;;) {
      const response = await fetch(`${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage`, {
        headers: { 'X-Api-Key': daemon.key },
      });
      if (response.status === 200) return ((await response.json()) as { creditsUsed: number }).creditsUsed;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  };
  assert.equal((await send(daemon, '/', callOf('getX', [false]))).body.length, answerOf(200_000, 1).length);
  await until('the whole answer is charged', async () => (await credits()) === 1);
  await assert.rejects(send(daemon, '/', callOf('getX', [true])));
  await assert.rejects(send(daemon, '/', callOf('getX', [true]), { 'accept-encoding': 'gzip' }));
  await until(
    'both are counted',
    async () => (await metric('parhelion_proxy_upstream_attempts_total', 'upstream="main-0",outcome="failed"')) === 2,
  );
  await until(
    'both calls failed',
    async () => (await metric('parhelion_rpc_calls_total', 'method="getX",outcome="error"')) === 2,
  );
  const requests = () => log.lines.filter(({ message, fields }) => message === 'request' && fields['rpc'] === 'getX');
  await until('all are logged', () => requests().length === 3);
  // With the status that the client got: what is wrong is the end.
  assert.deepEqual(
    requests().map(({ level, fields }) => [level, fields['status'], fields['broken'], fields['rpcFailed']]),
    [
      ['info', 200, undefined, undefined],
      ['warn', 200, true, 1],
      ['warn', 200, true, 1],
    ],
  );
  await send(daemon, '/', callOf('getX', [false]));
  await until('only the whole ones are charged', async () => (await credits()) === 2);
});
