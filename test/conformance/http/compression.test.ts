/** Answers by `Accept-Encoding`, over real connections. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import * as zlib from 'node:zlib';
import { Type } from '@sinclair/typebox';
import fc from 'fast-check';
import { WebSocket } from 'ws';
import { acceptedCoding } from '../../../src/http/respond.ts';
import type { RpcFallback } from '../../../src/plugin/host.ts';
import { defineRoute, JsonBytes, json, type Route } from '../../../src/plugin/plugin.ts';
import { GOOD_KEY, startFront, type TestFront } from '../../helpers/http-front.ts';
import { rawConnect } from '../../helpers/raw-http.ts';
import { until } from '../../helpers/until.ts';

const hasZstd = 'createZstdCompress' in zlib;
const BEST = hasZstd ? 'zstd' : 'gzip';
const row = (i: number) => ({
  address: `address-${i}-\u00e9`,
  lamports: i * 7_919,
  owner: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
});
const rows = (count: number) => Array.from({ length: count }, (_, i) => row(i));

function routes(): Route[] {
  const common = { method: 'GET', tag: 'x', summary: 'x', auth: 'none', errors: 'plain', replies: {} } as const;
  const bytes = Buffer.alloc(50_000, 'a');
  return [
    defineRoute({
      ...common,
      path: '/rows',
      query: Type.Object({ count: Type.Integer({ minimum: 0, maximum: 100_000, default: 0 }) }),
      handler: ({ query }) => json(rows(query.count)),
    }),
    defineRoute({
      ...common,
      path: '/pieces',
      query: Type.Object({ count: Type.Integer({ minimum: 0, maximum: 100_000, default: 0 }) }),
      handler: ({ query }) => {
        const bytes = Buffer.from(JSON.stringify(rows(query.count)));
        return json(new JsonBytes([bytes.subarray(0, 1), Buffer.alloc(0), bytes.subarray(1, -1), bytes.subarray(-1)]));
      },
    }),
    defineRoute({
      ...common,
      path: '/pieces-refused',
      handler: () => json(new JsonBytes([Buffer.from('{"error":'), Buffer.from('"none"}')]), 404),
    }),
    defineRoute({ ...common, path: '/image', handler: () => ({ status: 200, bytes, contentType: 'image/png' }) }),
    defineRoute({
      ...common,
      path: '/encoded',
      handler: () => ({ status: 200, bytes, contentType: 'text/css', headers: { 'Content-Encoding': 'br' } }),
    }),
    defineRoute({
      ...common,
      path: '/events',
      handler: () => ({ status: 200, stream: Readable.from(['data: 1\n\n']), contentType: 'text/event-stream' }),
    }),
  ];
}

/** `getBig` streams a result of a megabyte, `getBroken` half of one. */
const fallback: RpcFallback = {
  price: () => ({ product: 'rpc', credits: 1, groups: ['rpc'] }),
  forward: async ({ method }) => {
    async function* pieces() {
      yield Buffer.from('{"jsonrpc":"2.0","id":1,"result":"');
      for (let i = 0; i < 16; i += 1) yield Buffer.alloc(65_536, 'x');
      if (method === 'getBroken') throw new Error('the upstream broke off');
      yield Buffer.from('"}');
    }
    return { status: 200, body: Readable.from(pieces(), { objectMode: false }), answered: true };
  },
};

let front: TestFront;
before(async () => {
  front = await startFront({ routes: routes(), fallback });
});
after(() => front.stop());

interface Answer {
  readonly headers: IncomingMessage['headers'];
  readonly raw: Buffer;
  readonly text: string;
}

interface Asked {
  readonly method?: string;
  readonly body?: string;
  readonly agent?: Agent;
}

async function ask(path: string, encoding?: string, { method = 'GET', body = '', agent }: Asked = {}): Promise<Answer> {
  const headers = encoding === undefined ? {} : { 'Accept-Encoding': encoding };
  const sent = request(`${front.url}${path}`, {
    method,
    headers: { ...headers, 'X-Api-Key': GOOD_KEY },
    ...(agent === undefined ? {} : { agent }),
  });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const raw = Buffer.concat(chunks);
  return { headers: response.headers, raw, text: decode(raw, response.headers['content-encoding']).toString('utf8') };
}

function decode(raw: Buffer, coding: string | undefined): Buffer {
  if (coding === 'gzip') return raw.length === 0 ? raw : zlib.gunzipSync(raw);
  if (coding === 'zstd')
    return (zlib as unknown as { zstdDecompressSync(raw: Buffer): Buffer }).zstdDecompressSync(raw);
  return raw;
}

test('answers of all sizes are the same in every coding; small ones are left as they are', async () => {
  for (const count of [0, 5, 12, 200, 20_000]) {
    const plain = await ask(`/rows?count=${count}`);
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(plain.headers['content-length'], String(plain.raw.length));
    for (const encoding of ['gzip', 'zstd, gzip', '*']) {
      const made = await ask(`/rows?count=${count}`, encoding);
      assert.deepEqual(JSON.parse(made.text), rows(count));
      const isSmall = plain.raw.length <= 1_024;
      const coding = encoding === 'gzip' ? 'gzip' : BEST;
      assert.equal(made.headers['content-encoding'], isSmall ? undefined : coding);
      assert.equal(made.headers.vary, isSmall ? undefined : 'Accept-Encoding');
      assert.equal(plain.headers.vary, made.headers.vary);
      assert.equal(made.headers['content-length'], String(made.raw.length));
      if (!isSmall) assert.ok(made.raw.length < plain.raw.length / 2);
    }
  }
});

test('answers that are not text, already encoded, or event streams, or that no client wants compressed, are not compressed', async () => {
  for (const encoding of ['', 'identity', 'br, deflate', 'gzip;q=0', '*;q=0', 'gzip;q=0.5, identity;q=0.8', 'gzip;q=2'])
    assert.equal((await ask('/rows?count=50', encoding)).headers['content-encoding'], undefined, encoding);
  for (const [path, coding] of [
    ['/image', undefined],
    ['/encoded', 'br'],
    ['/events', undefined],
  ] as const) {
    const { headers } = await ask(path, 'gzip');
    assert.deepEqual([headers['content-encoding'], headers.vary], [coding, undefined], path);
  }
});

test('an answer in pieces is the same as in one, in every coding, and the next one of its connection follows it', async () => {
  for (const count of [0, 5, 200, 20_000])
    for (const encoding of [undefined, 'gzip', '*']) {
      const whole = await ask(`/rows?count=${count}`, encoding);
      const pieces = await ask(`/pieces?count=${count}`, encoding);
      const told = ({ headers }: Answer) =>
        ['content-type', 'content-encoding', 'content-length', 'vary', 'transfer-encoding'].map(
          (name) => headers[name],
        );
      assert.deepEqual([pieces.text === whole.text, told(pieces)], [true, told(whole)], `${count} ${encoding}`);
    }
  const { raw, headers } = await ask('/pieces?count=50', undefined, { method: 'HEAD' });
  const { raw: whole } = await ask('/rows?count=50');
  assert.deepEqual([raw.length, headers['content-length']], [0, `${whole.length}`]);
  assert.equal((await ask('/pieces-refused')).text, '{"error":"none"}');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const together = await Promise.all(
    Array.from({ length: 8 }, (_, n) => ask(`/${n % 2 === 0 ? 'pieces' : 'rows'}?count=50`, undefined, { agent })),
  );
  agent.destroy();
  assert.deepEqual(
    together.map(({ text }) => text),
    Array(8).fill(whole.toString()),
  );
});

test('HEAD has the headers of GET, and no length that would be that of another form', async () => {
  const head = await ask('/rows?count=50', 'gzip', { method: 'HEAD' });
  assert.deepEqual(
    [head.headers['content-encoding'], head.headers.vary, head.raw.length],
    ['gzip', 'Accept-Encoding', 0],
  );
  assert.equal(head.headers['content-length'], undefined);
  const { raw } = await ask('/rows?count=50');
  assert.equal((await ask('/rows?count=50', undefined, { method: 'HEAD' })).headers['content-length'], `${raw.length}`);
});

test('a streamed JSON-RPC answer is compressed as it comes; one that breaks off is cut', async () => {
  const body = '{"jsonrpc":"2.0","id":1,"method":"getBig"}';
  const made = await ask('/', 'gzip', { method: 'POST', body });
  assert.equal(made.headers['content-encoding'], 'gzip');
  assert.ok(made.raw.length < 20_000);
  assert.equal((JSON.parse(made.text) as { result: string }).result.length, 1_048_576);
  await assert.rejects(
    ask('/', 'gzip', { method: 'POST', body: body.replace('getBig', 'getBroken') }),
    /aborted|hang up/,
  );
});

test('a refusal is compressed like any answer, and errors of one line are not', async () => {
  const { headers, text } = await ask('/nothing', 'gzip');
  assert.equal(headers['content-encoding'], undefined);
  assert.deepEqual(JSON.parse(text), { error: 'invalid path', code: 404 });
});

test('pipelined requests are answered in their order, and a client that goes meanwhile harms nobody', async () => {
  const get = (count: number) => `GET /rows?count=${count} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n`;
  for (let i = 0; i < 20; i += 1) {
    const gone = rawConnect(front.port);
    gone.send(get(5_000).repeat(3));
    await once(gone.socket, 'connect');
    setTimeout(() => gone.destroy(), i);
  }
  const connection = rawConnect(front.port);
  connection.send(get(5_000) + get(1) + get(300));
  const sizes: number[] = [];
  for (let i = 0; i < 3; i += 1) sizes.push(Number((await connection.answer()).headers['content-length']));
  assert.ok(sizes[0]! > sizes[2]! && sizes[2]! > sizes[1]!, String(sizes));
  connection.destroy();
  await until(() => front.front.load().inFlight === 0, 'nothing is left');
});

test('while many answers are being compressed others leave as they are', async () => {
  const answers = await Promise.all(Array.from({ length: 80 }, () => ask('/rows?count=3000', 'gzip')));
  const codings = new Set(answers.map(({ headers }) => headers['content-encoding']));
  assert.ok(codings.has('gzip'));
  for (const { text } of answers) assert.equal(text.length, answers[0]?.text.length);
  assert.equal((await ask('/rows?count=3000', 'gzip')).headers['content-encoding'], 'gzip');
});

test('with http.compression off nothing is compressed', async () => {
  const off = await startFront({ routes: routes(), http: { compression: false } });
  const response = await fetch(`${off.url}/rows?count=500`, { headers: { 'Accept-Encoding': 'gzip' } });
  assert.deepEqual([response.headers.get('content-encoding'), response.headers.get('vary')], [null, null]);
  await response.arrayBuffer();
  await off.stop();
});

test('the refusal of an upgrade is never compressed', async () => {
  const socket = new WebSocket(front.url.replace('http', 'ws'), { headers: { 'Accept-Encoding': 'gzip' } });
  socket.on('error', () => undefined);
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  assert.equal(response.headers['content-encoding'], undefined);
});

test('the choice: the highest weight, what is named before what the star stands for, ours among equals', () => {
  const both = ['zstd', 'gzip'] as const;
  for (const [header, coding] of [
    ['gzip, zstd', 'zstd'],
    ['gzip;q=1.0, zstd;q=0.9', 'gzip'],
    ['GZIP', 'gzip'],
    ['x-gzip', 'gzip'],
    ['*', 'zstd'],
    ['*, zstd;q=0', 'gzip'],
    ['zstd;q=0, gzip;q=0', null],
    ['identity;q=0', null],
    ['gzip ; q=0.001', 'gzip'],
    ['gzip;q=0.8, identity;q=0.8', 'gzip'],
    ['br', null],
    [undefined, null],
  ] as const)
    assert.equal(acceptedCoding(header, both), coding, header);
  fc.assert(
    fc.property(fc.string(), (header) => {
      const coding = acceptedCoding(header, both);
      assert.ok(coding === null || header.toLowerCase().includes(coding) || header.includes('*'));
    }),
  );
});
