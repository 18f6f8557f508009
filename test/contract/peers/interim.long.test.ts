/**
 * RFC 9110 15.2: a client skips informational answers that it did not ask for. Everything in the daemon and its commands that calls a server of
 * somebody else, beside a server that sends some before each answer.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { fetchSnapshot } from '../../../plugins/compression/snapshot/commands.ts';
import { clickhouseKind } from '../../../plugins/sinks/targets/clickhouse.ts';
import { s3Kind } from '../../../plugins/sinks/targets/s3.ts';
import { frame } from '../../../plugins/streams/grpc-server.ts';
import { createPassOn } from '../../../plugins/streams/pass-on.ts';
import { startListener } from '../../../plugins/webhooks/listen.ts';
import { createFooterStream } from '../../../src/adapters/chain/finality/footer-stream.ts';
import { openSocket, type PoolMember } from '../../../src/adapters/chain/rpc/member.ts';
import { createTransport } from '../../../src/adapters/chain/rpc/transport.ts';
import { createArchiveEngine, parseArchive } from '../../../src/adapters/clickhouse/index.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createOutbound } from '../../../src/adapters/outbound/index.ts';
import { createBridge } from '../../../src/cli/commands/mcp.ts';
import { askForKey } from '../../../src/cli/commands/signup.ts';
import { createService } from '../../../src/cli/move/service.ts';
import { askDaemon } from '../../../src/cli/running-daemon.ts';
import { connectTo } from '../../../src/cli/signup/pay.ts';
import { listenOn } from '../../../src/http/listener.ts';
import { ProtobufWriter } from '../../../src/lib/protobuf.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { callPeer } from '../../../src/runtime/call-peer.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { SINK_CLIENTS_DIR } from '../../helpers/sink-servers.ts';
import { openSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

const INTERIM: Readonly<Record<number, string>> = {
  100: 'HTTP/1.1 100 Continue\r\n\r\n',
  102: 'HTTP/1.1 102 Processing\r\n\r\n',
  103: 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n',
};
const CODES = Object.keys(INTERIM).map(Number);
const ALL = Object.values(INTERIM).join('');

const clock = createSystemClock();
const log = createMemoryLog();
const portOf = (server: Server | Http2Server) => (server.address() as AddressInfo).port;
async function listening<S extends Server | Http2Server>(t: TestContext, server: S): Promise<S> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return server;
}

/** A server that sends `before()` ahead of each answer. */
async function startPeer(
  t: TestContext,
  before: () => string,
  answer: (request: IncomingMessage, body: string) => string,
): Promise<{ readonly port: number; readonly url: string; readonly seen: string[] }> {
  const seen: string[] = [];
  const server = await listening(
    t,
    createHttpServer((request: IncomingMessage, response: ServerResponse) => {
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString('latin1');
      });
      request.on('end', () => {
        seen.push(`${request.method} ${request.url}`);
        response.socket?.write(before());
        response.end(answer(request, body));
      });
    }),
  );
  server.on('upgrade', (request: IncomingMessage, socket) => {
    seen.push('upgrade');
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    socket.write(before());
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
  });
  t.after(() => server.closeAllConnections());
  const port = portOf(server);
  return { port, url: `http://127.0.0.1:${port}`, seen };
}

type Peer = Awaited<ReturnType<typeof startPeer>>;

interface Caller {
  readonly name: string;
  /** What the peer answers. */
  answer?(request: IncomingMessage, body: string): string;
  /** Calls it, and throws unless the answer was read. */
  call(t: TestContext, peer: Peer): Promise<void>;
}

const rpcResult = (result: string) => (_: IncomingMessage, body: string) =>
  `{"jsonrpc":"2.0","id":${JSON.stringify((JSON.parse(body) as { id: unknown }).id)},"result":${result}}`;
const BLOCKHASH = '7'.repeat(44);

const CALLERS: readonly Caller[] = [
  {
    name: 'callPeer',
    async call(_, { url }) {
      const response = await callPeer(url, { method: 'POST', body: 'x' });
      assert.deepEqual([response.status, await response.text()], [200, 'ok']);
    },
  },
  {
    name: 'calls to upstreams',
    async call(t, { url }) {
      const upstream = { label: 'main-0', url, headers: {}, archive: false, maxConcurrent: 1 };
      const transport = createTransport(upstream, 'test', clock);
      t.after(() => transport.close());
      const reply = await transport.send({ tenant: OWN_WORK, body: '{}', timeoutMs: 10_000, maxBytes: 100 });
      const chunks: Buffer[] = [];
      for await (const chunk of reply.body) chunks.push(chunk as Buffer);
      assert.equal(Buffer.concat(chunks).toString(), 'ok');
    },
  },
  {
    name: 'websockets to upstreams',
    async call(t, { url }) {
      const member = { socketUrls: [url.replace('http', 'ws')], socketTurn: 0, upstream: { headers: {} } };
      const socket = openSocket(member as unknown as PoolMember, 'main-0');
      t.after(() => socket.terminate());
      await once(socket, 'open');
    },
  },
  {
    name: 'receivers, documents, prices, provers, the reference of shadow',
    async call(t, { url }) {
      const policy = {
        allowHttp: true,
        allowCidrs: ['127.0.0.0/8'],
        allowPorts: null,
        caFile: null,
        maxConnections: 1,
      };
      const client = createOutbound({ clock, log }).open(policy);
      t.after(() => client.close());
      const response = await client.request({ url, method: 'POST', timeoutMs: 10_000, keepBytes: 100, maxBytes: 100 });
      assert.deepEqual([response.status, response.body.toString()], [200, 'ok']);
    },
  },
  {
    name: 'the archive',
    answer: () => '{"data":[["7"]]}',
    async call(t, { port }) {
      const address = parseArchive(`clickhouse://127.0.0.1:${port}`, 'main', '/');
      const engine = createArchiveEngine({ address, packages: '/', owns: false });
      t.after(() => engine.close());
      await engine.run('SELECT 7');
    },
  },
  {
    name: 'sinks in ClickHouse',
    answer: () => '{"data":[]}',
    async call(_, { port }) {
      const target = await clickhouseKind.open(openSink(`clickhouse://127.0.0.1:${port}`));
      assert.deepEqual(await target.positions(), []);
    },
  },
  {
    name: 'sinks in S3',
    answer: () => '<ListBucketResult></ListBucketResult>',
    async call(_, { port }) {
      const target = await s3Kind([SINK_CLIENTS_DIR]).open(
        openSink(`s3://k:s@127.0.0.1:${port}/bucket/rows?tls=false`),
      );
      assert.deepEqual(await target.positions(), []);
    },
  },
  {
    name: 'webhooks listen --forward',
    async call(t, { url }) {
      const listener = await startListener({
        host: '127.0.0.1',
        port: 0,
        forward: url,
        secretsOf: () => Promise.resolve([]),
        nowMs: () => 0,
        arrived: () => undefined,
      });
      t.after(() => listener.close());
      const response = await fetch(listener.url, { method: 'POST', body: '[]' });
      assert.deepEqual([response.status, await response.text()], [200, 'ok']);
    },
  },
  {
    name: 'move',
    answer: () => '{"is":"read"}',
    async call(_, { url }) {
      const service = createService({ option: '--from', url, key: 'k', keyHeader: null });
      // A POST is not repeated.
      assert.deepEqual(await service.ask('POST', '/v0/webhooks', {}), { is: 'read' });
    },
  },
  {
    name: 'signup',
    answer: () => '{"projectId":"p1"}',
    async call(_, { url }) {
      const proof = { signature: '1', wallet: '1', walletSignature: '1', timestamp: 0 };
      assert.equal(await askForKey(url, proof as never), 'p1');
    },
  },
  {
    name: 'the payment of signup',
    answer: rpcResult(`{"context":{"slot":1},"value":{"blockhash":"${BLOCKHASH}","lastValidBlockHeight":9}}`),
    async call(_, { url }) {
      assert.equal((await connectTo(url).getLatestBlockhash()).blockhash, BLOCKHASH);
    },
  },
  {
    name: 'mcp over stdio',
    answer: rpcResult('{"is":"read"}'),
    async call(_, { url }) {
      const lines: string[] = [];
      const bridge = createBridge({ address: `${url}/mcp`, key: 'k', write: (line) => void lines.push(line) });
      bridge.take('{"jsonrpc":"2.0","id":1,"method":"ping"}');
      await bridge.idle();
      assert.deepEqual(
        lines.map((line) => JSON.parse(line) as unknown),
        [{ jsonrpc: '2.0', id: 1, result: { is: 'read' } }],
      );
    },
  },
  {
    name: 'snapshots of another daemon',
    async call(_, { url }) {
      const { file, remove } = await fetchSnapshot(url);
      assert.equal(readFileSync(file, 'utf8'), 'ok');
      await remove();
    },
  },
  {
    name: 'commands that ask the running daemon',
    async call(_, { url }) {
      assert.deepEqual(await askDaemon({ admin: url } as Parameters<typeof askDaemon>[0], '/healthz'), {
        status: 200,
        text: 'ok',
      });
    },
  },
  {
    name: 'who holds a port',
    answer: () => '{"openapi":"3.1.0","info":{"title":"parhelion API"',
    async call(_, { port }) {
      const taken = listenOn(createHttpServer(), { host: '127.0.0.1', port, key: 'http.port' });
      await assert.rejects(taken, /in use by another parhelion/);
    },
  },
];

for (const { name, answer = () => 'ok', call } of CALLERS)
  test(`informational answers that nobody asked for: ${name}`, async (t) => {
    let before = '';
    const peer = await startPeer(t, () => before, answer);
    // Without any it works: what follows tests nothing else.
    for (const given of ['', ...Object.values(INTERIM), ALL, ALL + ALL]) {
      before = given;
      const asked = peer.seen.length;
      await call(t, peer);
      assert.ok(peer.seen.length > asked, `${JSON.stringify(given)}: the peer was asked`);
    }
  });

/** An HTTP/2 server that sends informational headers before it answers each stream. */
async function startGrpc(t: TestContext, messages: readonly Buffer[], status: number): Promise<string> {
  const server = createHttp2Server();
  server.on('stream', (stream) => {
    for (const code of CODES) stream.additionalHeaders({ ':status': code, link: '</a>; rel=preload' });
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': String(status) }));
    stream.on('error', () => undefined);
    stream.end(Buffer.concat(messages));
  });
  await listening(t, server);
  return `http://127.0.0.1:${portOf(server)}`;
}

test('informational answers that nobody asked for: footers of a Yellowstone server', async (t) => {
  const url = await startGrpc(t, [], 16);
  const stream = createFooterStream({ url, token: null, clock });
  const end = await stream.open({ signal: new AbortController().signal, onFooter: () => undefined });
  assert.deepEqual(end, { kind: 'failed', reason: 'unauthenticated' });
});

test('informational answers that nobody asked for: streams that are passed on', async (t) => {
  const update = new ProtobufWriter();
  update.always(2, 7);
  const sent = Buffer.from(update.take());
  const url = await startGrpc(t, [frame(Buffer.alloc(0), sent, 'identity')], 13);
  const passOn = createPassOn({ url, token: null, maxMessageBytes: () => 1_000, clock, log });
  t.after(() => passOn.close());
  const taken: Buffer[] = [];
  const ends: unknown[] = [];
  const tenant = { ...OWN_WORK, take: () => ({ amount: 0, set: () => undefined, release: () => undefined }) };
  passOn.open(tenant as never, { take: (updates) => void taken.push(...updates), ended: (e) => void ends.push(e) }, {});
  await until(() => ends.length > 0, 'the stream ends');
  assert.deepEqual(taken, [sent]);
  assert.equal((ends[0] as { readonly status?: string }).status, 'internal');
});
