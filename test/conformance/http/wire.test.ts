import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GOOD_KEY, startFrontPair, type TestFront } from '../../helpers/http-front.ts';
import { rawConnect, rawRequest } from '../../helpers/raw-http.ts';
import { until } from '../../helpers/until.ts';
import { sampleRoutes } from './sample-routes.ts';

let front: TestFront;
before(async () => {
  front = await startFrontPair({
    routes: sampleRoutes(),
    http: { bodyLimitBytes: 4_096, headerTimeoutMs: 1_000, requestTimeoutMs: 1_500 },
  });
});
after(() => front.stop());

const get = (target: string, headers = '') => `GET ${target} HTTP/1.1\r\nHost: anything.example\r\n${headers}\r\n`;
const balances = (path: string) => `${path}?api-key=${GOOD_KEY}`;

describe('targets', () => {
  const fine = [
    balances('/v1/wallet/abc/balances'),
    balances('/v1/wallet/abc/balances/'),
    balances('http://evil.example/v1/wallet/abc/balances'),
    balances('HTTPS://evil.example:99/v1/wallet/abc/balances'),
    balances('/v1/%77allet/abc/balances'),
    `${balances('/v1/wallet/abc/balances')}&x=?y=/../&z`,
  ];
  for (const target of fine) {
    test(`${target.slice(0, 60)} reaches the route`, async () => {
      const answer = await rawRequest(front.port, get(target));
      assert.equal(answer.status, 200, answer.body);
      assert.equal(JSON.parse(answer.body).wallet, 'abc');
    });
  }
  test('a segment is decoded once', async () => {
    for (const [segment, wallet] of [
      ['toly%2Esol', 'toly.sol'],
      ['%2541', '%41'],
      ['a%3Fb%23c', 'a?b#c'],
      ['%C3%A9', 'é'],
      ['a+b', 'a+b'],
      ['a;b=1', 'a;b=1'],
    ]) {
      const answer = await rawRequest(front.port, get(balances(`/v1/wallet/${segment}/balances`)));
      assert.equal(answer.status, 200, answer.body);
      assert.equal(JSON.parse(answer.body).wallet, wallet);
    }
  });
  for (const segment of ['a%2Fb', '%', '%zz', '%c3', '%00', 'a%0Ab', '%7f']) {
    test(`the segment ${segment} is 400 in the shape of the group`, async () => {
      const wallet = await rawRequest(front.port, get(balances(`/v1/wallet/${segment}/balances`)));
      assert.equal(wallet.status, 400);
      assert.deepEqual(JSON.parse(wallet.body), { error: 'Invalid path', code: 400 });
      const admin = await rawRequest(front.port, get(balances(`/v0/admin/projects/${segment}/usage`)));
      assert.deepEqual(JSON.parse(admin.body), { statusCode: 400, message: 'Invalid path', error: 'Bad Request' });
    });
  }
  for (const path of [
    '//v1/wallet/abc/balances',
    '//evil.example/v1/wallet/abc/balances',
    '/v1//wallet/abc/balances',
    '/v1/wallet/abc/balances//',
    '/v1/wallet/abc/../abc/balances',
    '/nothing',
    '/v0',
    '/docs/x',
    '/V1/wallet/abc/balances',
    '/v1/wallet//balances',
  ]) {
    test(`${path} is an unknown path`, async () => {
      const answer = await rawRequest(front.port, get(balances(path)));
      assert.equal(answer.status, 404);
      assert.deepEqual(JSON.parse(answer.body), { error: 'invalid path', code: 404 });
    });
  }
  test('an unknown path below /v0/admin has the admin shape', async () => {
    for (const path of ['/v0/admin', '/v0/admin/', '/v0/admin/x?y']) {
      const answer = await rawRequest(front.port, get(path));
      assert.equal(answer.status, 404);
      assert.deepEqual(JSON.parse(answer.body), { statusCode: 404, message: 'Invalid path', error: 'Not Found' });
    }
  });
  test('over 8 KiB is 414 in the shape of the group, at any length', async () => {
    const at = (length: number, prefix: string) => prefix + 'x'.repeat(length - prefix.length);
    assert.equal((await rawRequest(front.port, get(at(8_192, '/a')))).status, 404);
    const admin = await rawRequest(front.port, get(at(8_193, '/v0/admin/')));
    assert.equal(admin.status, 414);
    assert.equal(JSON.parse(admin.body).message, 'Request target too long');
    for (const length of [8_193, 20_000, 60_000]) {
      const answer = await rawRequest(front.port, get(at(length, '/a')));
      assert.deepEqual(
        [answer.status, JSON.parse(answer.body)],
        [414, { error: 'Request target too long', code: 414 }],
      );
    }
  });
  test('headers that are too large are 431, nonsense is 400, both as JSON', async () => {
    const large = await rawRequest(front.port, get('/ping', `X-Filler: ${'y'.repeat(40_000)}\r\n`));
    assert.equal(large.status, 431);
    assert.equal(typeof JSON.parse(large.body).error, 'string');
    const nonsense = await rawRequest(front.port, 'hello there\r\n\r\n');
    assert.deepEqual([nonsense.status, JSON.parse(nonsense.body).code], [400, 400]);
  });
});

describe('methods', () => {
  test('HEAD is answered wherever GET is, with the length and without the body', async () => {
    const full = await rawRequest(front.port, get(balances('/v1/wallet/abc/balances')));
    const head = await rawRequest(front.port, get(balances('/v1/wallet/abc/balances')).replace('GET', 'HEAD'), true);
    assert.equal(head.status, 200);
    assert.equal(head.headers['content-length'], full.headers['content-length']);
    const missing = await rawRequest(front.port, get('/v0/token-metadata').replace('GET', 'HEAD'), true);
    assert.equal(missing.status, 405);
  });
  test('GET and HEAD on the JSON-RPC root are 405 with POST in Allow', async () => {
    const answer = await rawRequest(front.port, get('/'));
    assert.equal(answer.status, 405);
    assert.equal(answer.headers['allow'], 'POST, OPTIONS');
    assert.deepEqual(JSON.parse(answer.body), { error: 'Method not allowed', code: 405 });
    assert.equal((await rawRequest(front.port, get('/').replace('GET', 'HEAD'), true)).status, 405);
  });
  test('OPTIONS on any path is 200, also on unknown ones', async () => {
    for (const path of ['/', '/nothing', '/v0/admin/x', '/ping']) {
      const answer = await rawRequest(front.port, get(path).replace('GET', 'OPTIONS'));
      assert.deepEqual([answer.status, answer.body], [200, '']);
      assert.equal(answer.headers['access-control-max-age'], '86400');
    }
  });
  test('the probe answers text, also when it refuses', async () => {
    const answer = await rawRequest(front.port, get('/ping'));
    assert.deepEqual(
      [answer.status, answer.body, answer.headers['content-type']],
      [200, 'ok', 'text/plain; charset=utf-8'],
    );
    const refused = await rawRequest(front.port, get('/ping').replace('GET', 'PUT'));
    assert.deepEqual([refused.status, refused.body], [405, 'Method not allowed']);
    assert.equal(refused.headers['content-type'], 'text/plain; charset=utf-8');
  });
  test('DELETE works with a content type and without a body, and answers nothing', async () => {
    const answer = await rawRequest(
      front.port,
      `DELETE /v0/webhooks/w1?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n`,
    );
    assert.deepEqual([answer.status, answer.body, answer.headers['content-length']], [200, '', '0']);
  });
});

const post = (headers: string, body = '') =>
  `POST /v1/wallet/batch-identity?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`;

describe('connections', () => {
  test('pipelined requests are answered in order on one connection', async () => {
    const connection = rawConnect(front.port);
    connection.send(
      get(balances('/v1/wallet/faulty/slow')) +
        post('Content-Length: 7\r\n', '{"a":1}') +
        get('/ping') +
        get('/nothing'),
    );
    const answers = [];
    for (let i = 0; i < 4; i += 1) answers.push(await connection.answer());
    connection.destroy();
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [200, 200, 200, 404],
    );
    assert.deepEqual(JSON.parse(answers[1]?.body ?? ''), { body: { a: 1 } });
  });
  test('a chunked body is read, one above the limit is 413', async () => {
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const fine = await rawRequest(
      front.port,
      post('Transfer-Encoding: chunked\r\n', `${chunk('{"a"')}${chunk(':1}')}0\r\n\r\n`),
    );
    assert.deepEqual(JSON.parse(fine.body), { body: { a: 1 } });
    const large = await rawRequest(
      front.port,
      post('Transfer-Encoding: chunked\r\n', chunk('x'.repeat(3_000)).repeat(3)),
    );
    assert.equal(large.status, 413);
    assert.equal(large.headers['connection'], 'close');
  });
  test('an oversize body is refused before it is sent, and the client can read why', async () => {
    const declared = await rawRequest(front.port, post('Content-Length: 5000000\r\n'));
    assert.equal(declared.status, 413);
    const connection = rawConnect(front.port);
    connection.send(post('Content-Length: 3000000\r\n', 'x'.repeat(3_000_000)));
    assert.equal((await connection.answer()).status, 413);
    await connection.closed;
  });
  test('a client that waits for 100 Continue gets it, or its refusal', async () => {
    const connection = rawConnect(front.port);
    connection.send(post('Expect: 100-continue\r\nContent-Length: 2\r\n'));
    await until(() => connection.socket.bytesRead > 0, '100 Continue');
    connection.send('{}');
    assert.equal((await connection.answer()).status, 200);
    connection.destroy();
    const refused = await rawRequest(front.port, post('Expect: 100-continue\r\nContent-Length: 9999\r\n'));
    assert.equal(refused.status, 413);
  });
  test('a refused request with a small unread body keeps its connection', async () => {
    const connection = rawConnect(front.port);
    connection.send('POST /v0/token-metadata HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}');
    assert.equal((await connection.answer()).status, 401);
    connection.send(get('/ping'));
    assert.equal((await connection.answer()).body, 'ok');
    connection.destroy();
  });
  test('a body that does not arrive in time is 408 as JSON', async () => {
    const answer = await rawRequest(front.port, post('Content-Length: 10\r\n', '{"a"'));
    assert.equal(answer.status, 408);
    assert.equal(JSON.parse(answer.body).code, 408);
  });
  test('headers that do not arrive in time are 408 as JSON', async () => {
    const answer = await rawRequest(front.port, 'GET /ping HTTP/1.1\r\nHost: x\r\nX-');
    assert.equal(answer.status, 408);
  });
  test('a client that leaves in the middle of its body or of the handler leaves nothing behind', async () => {
    const connection = rawConnect(front.port);
    connection.send(post('Content-Length: 10\r\n', '{"a"'));
    await until(() => connection.socket.bytesWritten > 100, 'the request is sent');
    connection.destroy();
    const second = rawConnect(front.port);
    second.send(get(balances('/v1/wallet/faulty/slow')));
    await until(() => second.socket.bytesWritten > 40, 'the request is sent');
    second.destroy();
    const left = () => front.log.lines.filter((line) => line.fields['status'] === 499).length;
    await until(() => left() >= 1, 'a line for the client that left');
    await until(() => gaugeOf('parhelion_http_requests_in_flight') === 0, 'nothing in flight');
  });
  test('an offer of HTTP/2 is ignored and the request answered', async () => {
    const connection = rawConnect(front.port);
    const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n';
    connection.send(post(`${offer}Content-Length: 7\r\n`, '{"a":1}'));
    const answer = await connection.answer();
    assert.deepEqual(JSON.parse(answer.body), { body: { a: 1 } });
    connection.send(get('/ping'));
    assert.equal((await connection.answer()).body, 'ok');
    connection.destroy();
  });
  test('both listeners serve everything, whatever the Host', async () => {
    assert.equal(front.websocketPort, front.port + 1);
    const answer = await rawRequest(front.port + 1, get(balances('/v1/wallet/abc/balances')));
    assert.equal(answer.status, 200);
  });
});

let gauges = '';
function gaugeOf(name: string): number {
  void front.registry.text().then((text) => {
    gauges = text;
  });
  const line = gauges.split('\n').find((one) => one.startsWith(`${name} `));
  return line === undefined ? Number.NaN : Number(line.split(' ')[1]);
}
