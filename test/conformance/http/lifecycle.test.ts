import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { WebSocket, WebSocketServer } from 'ws';
import type { SocketHandler } from '../../../src/plugin/host.ts';
import { codeOf, defineRoute } from '../../../src/plugin/plugin.ts';
import { GOOD_KEY, startFront, startFrontPair } from '../../helpers/http-front.ts';
import { rawConnect, rawRequest } from '../../helpers/raw-http.ts';
import { until } from '../../helpers/until.ts';
import { sampleRoutes } from './sample-routes.ts';
import { sampleMethods } from './sample-rpc.ts';

const get = (target: string) => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`;
const slow = `/v1/wallet/faulty/slow?api-key=${GOOD_KEY}`;

/** Echoes through the dispatch, as the proxy plugin does for calls that are no subscription. */
function echoSockets(): SocketHandler & { readonly closed: string[] } {
  const server = new WebSocketServer({ noServer: true });
  const closed: string[] = [];
  return {
    closed,
    connections: () => server.clients.size,
    upgrade: (request, socket, head, context, dispatch) => {
      server.handleUpgrade(request, socket, head, (client) => {
        context.signal.addEventListener('abort', () => closed.push(context.requestId));
        client.on('message', async (data) => {
          const answer = await dispatch(data as Buffer, context);
          if (answer !== null) client.send(answer, { binary: false });
        });
      });
      return true;
    },
  };
}

describe('drain', () => {
  test('new requests are refused in every shape while accepted ones finish', async () => {
    const front = await startFront({ routes: sampleRoutes(), methods: sampleMethods() });
    const running = rawConnect(front.port);
    running.send(get(slow));
    await until(() => front.gate.admitted.length > 0, 'the slow request runs');
    front.front.beginDrain();
    for (const [request, body] of [
      [get('/ping'), 'service unavailable'],
      [
        get('/v0/admin/projects/p/usage'),
        '{"statusCode":503,"message":"Service unavailable","error":"Service Unavailable"}',
      ],
      [get('/nothing'), '{"error":"Service unavailable","code":503}'],
      [
        get('/v1/wallet/a/balances'),
        '{"error":"Service unavailable","code":503,"details":"The service is shutting down"}',
      ],
      [
        'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}',
        '{"jsonrpc":"2.0","error":{"code":-32002,"message":"Service unavailable","data":{"details":"The service is shutting down"}},"id":null}',
      ],
    ] as const) {
      const answer = await rawRequest(front.port, request);
      assert.deepEqual([answer.status, answer.body], [503, body]);
      assert.equal(answer.headers['retry-after'], '1');
      assert.equal(answer.headers['connection'], 'close');
    }
    const closing = front.stop();
    const finished = await running.answer();
    assert.deepEqual([finished.status, finished.headers['connection']], [200, 'close']);
    await closing;
    await assert.rejects(fetch(`${front.url}/ping`), 'nothing listens any more');
  });
  test('at the deadline the rest is aborted and cut', async () => {
    const front = await startFront({
      routes: [
        defineRoute({
          method: 'GET',
          path: '/forever',
          summary: '',
          tag: '',
          auth: 'none',
          errors: 'plain',
          replies: {},
          handler: (request) =>
            new Promise((resolve) => request.signal.addEventListener('abort', () => resolve({ status: 200 }))),
        }),
      ],
    });
    const connection = rawConnect(front.port);
    connection.send(get('/forever'));
    await until(() => connection.socket.bytesWritten > 0, 'sent');
    await front.front.close(AbortSignal.timeout(100));
    await connection.closed;
  });
});

describe('bounds', () => {
  test('more than maxInFlight requests are 503 with Retry-After, and it recovers', async () => {
    const front = await startFront({ routes: sampleRoutes(), http: { maxInFlight: 2 } });
    const answers = await Promise.all(Array.from({ length: 6 }, () => rawRequest(front.port, get(slow))));
    const refused = answers.filter((answer) => answer.status === 503);
    assert.equal(refused.length, 4);
    assert.ok(refused.every((answer) => answer.headers['retry-after'] === '1'));
    assert.equal((await rawRequest(front.port, get(slow))).status, 200);
    assert.match(await front.registry.text(), /parhelion_http_overloaded_total 4/);
    await front.stop();
  });
  test('a connection above maxConnections takes the place of the longest idle one; where none is idle it is closed', async () => {
    const front = await startFront({ routes: sampleRoutes(), http: { maxConnections: 3 } });
    const [first, second, third] = [rawConnect(front.port), rawConnect(front.port), rawConnect(front.port)] as const;
    for (const one of [second, first, third]) {
      one.send(get('/ping'));
      await one.answer();
    }
    first.send(get('/ping'));
    await first.answer();
    const fourth = rawConnect(front.port);
    await second.closed;
    // Busy now, and so is the new one.
    for (const one of [first, third, fourth]) one.send(get(slow));
    await until(() => front.gate.admitted.length === 3, 'all are busy');
    await rawConnect(front.port).closed;
    assert.deepEqual(
      (await Promise.all([first, third, fourth].map((one) => one.answer()))).map(({ status }) => status),
      [200, 200, 200],
    );
    const fifth = rawConnect(front.port);
    fifth.send(get('/ping'));
    assert.equal((await fifth.answer()).status, 200);
    const metrics = await front.registry.text();
    assert.match(metrics, /^parhelion_http_connections_dropped_total 1$/m);
    assert.match(metrics, /^parhelion_http_connections_evicted_total 2$/m);
    for (const one of [first, third, fourth, fifth]) one.destroy();
    await front.stop();
  });
  test('a client that does not read its answer holds back the stream that it comes from', async () => {
    let produced = 0;
    const endless = () =>
      new Readable({
        read() {
          produced += 65_536;
          this.push(Buffer.alloc(65_536));
        },
      });
    const front = await startFront({
      routes: [
        defineRoute({
          method: 'GET',
          path: '/endless',
          summary: '',
          tag: '',
          auth: 'none',
          errors: 'plain',
          replies: {},
          handler: () => ({ status: 200, stream: endless(), contentType: 'application/octet-stream' }),
        }),
      ],
    });
    const connection = rawConnect(front.port);
    connection.socket.pause();
    connection.send(get('/endless'));
    await until(() => produced > 0, 'the stream flows');
    let last = -1;
    for (let still = 0; still < 10; still = produced === last ? still + 1 : 0) {
      last = produced;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.ok(produced < 64_000_000, `${produced} bytes were made for nobody`);
    connection.destroy();
    await until(() => front.log.lines.some((line) => line.fields['route'] === '/endless'), 'the line of the request');
    await front.stop();
  });
});

describe('websockets', () => {
  const open = (url: string, headers: Record<string, string> = {}) =>
    new Promise<WebSocket | number>((resolve) => {
      const socket = new WebSocket(url, { headers });
      socket.on('open', () => resolve(socket));
      socket.on('unexpected-response', (_, response) => {
        resolve(response.statusCode ?? 0);
        socket.terminate();
      });
      socket.on('error', () => {});
    });

  test('any path of both listeners upgrades; the key is checked there, and calls are answered as over HTTP', async () => {
    const sockets = echoSockets();
    const front = await startFrontPair({ methods: sampleMethods(), sockets });
    const ports = [front.port, front.websocketPort];
    for (const port of ports) {
      const socket = await open(`ws://127.0.0.1:${port}/any/path?api-key=${GOOD_KEY}`);
      assert.ok(socket instanceof WebSocket);
      const ask = (text: string) =>
        new Promise<string>((resolve) => {
          socket.once('message', (data) => resolve(String(data)));
          socket.send(text);
        });
      assert.equal(
        await ask('{"jsonrpc":"2.0","id":18446744073709551617,"method":"bigNumber"}'),
        '{"jsonrpc":"2.0","result":{"lamports":18446744073709551615},"id":18446744073709551617}',
      );
      assert.equal(JSON.parse(await ask('[]')).error.code, -32600);
      assert.equal(JSON.parse(await ask('nonsense')).error.code, -32700);
      socket.send('{"jsonrpc":"2.0","method":"bigNumber"}');
      assert.equal(JSON.parse(await ask('{"jsonrpc":"2.0","id":1,"method":"readyText"}')).id, 1);
      socket.close();
    }
    const header = await open(`ws://127.0.0.1:${front.port}`, { 'X-Api-Key': GOOD_KEY });
    assert.ok(header instanceof WebSocket);
    await until(() => sockets.closed.length === 2, 'signals of closed sockets abort');
    for (const [key, status] of [
      ['', 401],
      ['wrong', 401],
      ['ip', 403],
      ['rate', 429],
    ] as const)
      assert.equal(await open(`ws://127.0.0.1:${front.port}/?api-key=${key}`), status);
    front.front.beginDrain();
    assert.equal(await open(`ws://127.0.0.1:${front.port}/?api-key=${GOOD_KEY}`), 503);
    const cut = new Promise((resolve) => header.on('close', resolve));
    await front.stop();
    await cut;
  });
  test('without a handler of sockets an upgrade is 404', async () => {
    const front = await startFront({});
    assert.equal(await open(`ws://127.0.0.1:${front.port}/?api-key=${GOOD_KEY}`), 404);
    await front.stop();
  });
});

describe('listening', () => {
  const occupy = () =>
    new Promise<{ port: number; release: () => void }>((resolve) => {
      const server = createServer();
      server.listen(0, '127.0.0.1', () =>
        resolve({ port: (server.address() as { port: number }).port, release: () => server.close() }),
      );
    });

  test('a taken port is a coded error, for the second listener only where it was asked for', async () => {
    const taken = await occupy();
    const code = (error: unknown) => codeOf(error) === 'HTTP_PORT_TAKEN';
    await assert.rejects(startFront({ http: { port: taken.port } }), code);
    await assert.rejects(startFront({ http: { websocketPort: taken.port } }), code);
    taken.release();
  });
  test('a derived second port that is taken is a warning', async () => {
    const taken = await occupy();
    const free = await startFront({ http: { port: taken.port - 1 } }).catch(() => null);
    // The port below may be taken by somebody else: then there is nothing to see.
    if (free !== null) {
      assert.equal(free.websocketPort, null);
      assert.ok(free.log.lines.some((line) => line.level === 'warn'));
      await free.stop();
    }
    taken.release();
  });
  test('an answer of a throw-away chain says so', async () => {
    let label: string | null = 'local';
    const front = await startFront({ routes: sampleRoutes(), chainLabel: () => label });
    const answer = async () => (await fetch(`${front.url}/ping`)).headers.get('x-parhelion-chain');
    assert.equal(await answer(), 'local');
    label = 'rpc';
    assert.equal(await answer(), null);
    await front.stop();
  });
});

test('the documents and the page describe every route and method, and nothing on the page is inline', async () => {
  const routes = [
    ...sampleRoutes(),
    defineRoute({
      method: 'GET',
      path: '/v0/tricky',
      summary: '<script>alert(1)</script>',
      tag: 'A & B',
      auth: 'none',
      errors: 'plain',
      query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 100, default: 5, description: 'how many' }) }),
      replies: { 200: Type.Object({ data: Type.Array(Type.String()) }) },
      handler: () => ({ status: 200 }),
    }),
  ];
  const front = await startFront({ routes, methods: sampleMethods() });
  const document = (await (await fetch(`${front.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { parameters?: { name: string; in: string }[] }>>;
    'x-rpc': Record<string, unknown>;
  };
  for (const route of routes) {
    const operation = document.paths[route.path.replace(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()];
    assert.ok(operation, `${route.method} ${route.path}`);
    const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    assert.deepEqual(
      operation.parameters?.filter((one) => one.in === 'path').map((one) => one.name),
      names,
    );
  }
  assert.deepEqual(
    Object.keys(document['x-rpc']),
    sampleMethods().map((method) => method.name),
  );
  assert.equal(Object.keys(document.paths).includes('/'), true);

  const page = await fetch(`${front.url}/docs`);
  const html = await page.text();
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(
    policy,
    /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; /,
  );
  assert.doesNotMatch(policy, /unsafe|nonce|\*/);
  assert.ok(html.includes('<script type="module" src="/docs/docs.js"></script>'));
  assert.equal(html.match(/<script/g)?.length, 1);
  assert.doesNotMatch(html, /https?:\/\/|alert\(1\)/);
  const reference = await (await fetch(`${front.url}/docs/reference.json`)).json();
  const shown = Object.keys((reference as { paths: object }).paths);
  for (const route of routes) assert.ok(shown.includes(route.path.replace(/:(\w+)/g, '{$1}')), route.path);
  for (const { name } of sampleMethods()) assert.ok(shown.includes(`/#${name}`), name);
  for (const file of ['docs.js', 'docs.css', 'icon.svg', 'reference.json']) {
    const served = await fetch(`${front.url}/docs/${file}`);
    const etag = served.headers.get('etag') ?? '';
    assert.ok(served.status === 200 && (await served.text()).length > 0, file);
    const again = await fetch(`${front.url}/docs/${file}`, { headers: { 'if-none-match': etag } });
    assert.equal(again.status, 304, file);
  }
  const home = await fetch(front.url, { headers: { accept: 'text/html' }, redirect: 'manual' });
  assert.deepEqual([home.status, home.headers.get('location')], [302, '/docs']);
  assert.equal((await fetch(front.url, { redirect: 'manual' })).status, 405);
  await front.stop();
});
