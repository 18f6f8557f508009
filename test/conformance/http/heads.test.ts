/** Headers that could be read in two ways: too many, or two hosts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { rawRequest } from '../../helpers/raw-http.ts';
import { type AccessDaemon, startAccessDaemon } from '../access/harness.ts';

const BODY = '{"jsonrpc":"2.0","id":1,"method":"getBalance","params":["x"]}';
let bed: AccessDaemon;
let api: number;
let admin: number;

before(async () => {
  bed = await startAccessDaemon({ plugins: ['access', 'proxy'], http: { trustedProxies: ['127.0.0.0/8'] } });
  api = Number(new URL(bed.daemon.apiUrl).port);
  admin = Number(new URL(bed.daemon.adminUrl).port);
});
after(() => bed?.stop());

const post = (key: string, headers: readonly string[]) =>
  rawRequest(
    api,
    ['POST / HTTP/1.1', 'Host: x', `X-Api-Key: ${key}`, `Content-Length: ${BODY.length}`, ...headers, '', BODY].join(
      '\r\n',
    ),
  );
const many = (count: number) => Array.from({ length: count }, (_, n) => `a${n}: 1`);

test('no number of headers hides X-Forwarded-For', async () => {
  const { key } = await bed.makeKey({ flags: ['--ips', '127.0.0.0/8'] });
  const forwarded = 'X-Forwarded-For: 8.8.8.8';
  assert.equal((await post(key, [])).status, 200);
  assert.equal((await post(key, many(250))).status, 200);
  for (const count of [0, 100, 250])
    assert.equal((await post(key, [...many(count), forwarded])).status, 403, `${count}`);
  for (const count of [301, 1_000, 1_990, 2_000, 2_100]) {
    const { status, body } = await post(key, [...many(count), forwarded]);
    assert.equal(status, 431, `${count}: ${body}`);
    assert.match(body, /Too many request headers|headers/);
  }
  const upgrade = [
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  ];
  const open = (count: number) =>
    rawRequest(
      api,
      ['GET / HTTP/1.1', 'Host: x', `X-Api-Key: ${key}`, ...upgrade, ...many(count), forwarded, '', ''].join('\r\n'),
    );
  assert.equal((await open(10)).status, 403);
  assert.equal((await open(2_000)).status, 431);
});

test('a request with two hosts is refused on every listener', async () => {
  for (const second of ['Host: y', 'host: x', 'HOST:'])
    for (const [port, path] of [
      [api, '/openapi.json'],
      [admin, '/healthz'],
    ] as const) {
      const head = (hosts: readonly string[]) =>
        [`GET ${path} HTTP/1.1`, ...hosts, 'Connection: close', '', ''].join('\r\n');
      assert.equal((await rawRequest(port, head(['Host: localhost']))).status, 200);
      assert.equal((await rawRequest(port, head(['Host: localhost', second]))).status, 400, `${path} ${second}`);
    }
});

test('the admin listener takes only what is a host for one', async () => {
  const ask = async (host: string) =>
    (await rawRequest(admin, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).status;
  for (const good of ['localhost', 'localhost:8790', '127.0.0.1:1', '[::1]', '[::1]:99', 'LOCALHOST'])
    assert.equal(await ask(good), 200, good);
  for (const bad of [
    '127.0.0.1:@evil.com',
    '127.0.0.1@evil.com',
    '127.0.0.1:x',
    '[::1',
    '[::1]x',
    'localhost/',
    'evil.com:80',
  ])
    assert.ok([400, 403].includes(await ask(bad)), bad);
});
