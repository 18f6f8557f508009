import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createOutbound } from '../../../src/adapters/outbound/index.ts';
import type { LookupAll, ResolvedAddress } from '../../../src/adapters/outbound/resolver.ts';
import type { OutboundClient, OutboundPolicy, OutboundRequest } from '../../../src/ports/outbound.ts';
import type { Log } from '../../../src/ports/telemetry.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';

const lines: object[] = [];
const note = (fields: object) => void lines.push(fields);
const log: Log = { trace: note, debug: note, info: note, warn: note, error: note, fatal: note, child: () => log };
const LOOPBACK: OutboundPolicy = {
  allowCidrs: ['127.0.0.0/8'],
  allowHttp: true,
  allowPorts: null,
  caFile: null,
  maxConnections: 4,
};
const v4 = (...all: string[]): ResolvedAddress[] => all.map((address) => ({ address, family: 4 }));
const open = (lookup?: LookupAll, policy: Partial<OutboundPolicy> = {}): OutboundClient =>
  createOutbound({ clock: createSystemClock(), log, ...(lookup === undefined ? {} : { lookup }) }).open({
    ...LOOPBACK,
    ...policy,
  });
const post = (url: string, patch: Partial<OutboundRequest> = {}): OutboundRequest => ({
  method: 'POST',
  url,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from('{"a":1}'),
  timeoutMs: 2_000,
  keepBytes: 16,
  maxBytes: 64,
  ...patch,
});

describe('guarded client', () => {
  let receiver: Receiver;
  let client: OutboundClient;
  before(async () => {
    receiver = await startReceiver();
    client = open();
  });
  after(async () => {
    await client.close();
    await receiver.close();
  });
  const last = () => receiver.received.at(-1);

  test('sends the bytes unchanged and returns status, headers and the kept part of the body', async () => {
    receiver.script(answer(202, { 'X-Reply': 'yes' }, 'a body of more than sixteen bytes'));
    const response = await client.request(post(`${receiver.url}/hook?token=a%20b`));
    assert.equal(response.status, 202);
    assert.equal(response.headers['x-reply'], 'yes');
    assert.equal(response.body.toString(), 'a body of more t');
    assert.equal(response.truncated, true);
    assert.equal(last()?.url, '/hook?token=a%20b');
    assert.equal(last()?.body.toString(), '{"a":1}');
    assert.equal(last()?.headers['content-length'], '7');
    assert.equal(last()?.headers['transfer-encoding'], undefined);
  });

  test('an answer that fits is complete', async () => {
    receiver.script(answer(200, {}, 'short'));
    const response = await client.request(post(receiver.url));
    assert.deepEqual([response.body.toString(), response.truncated], ['short', false]);
  });

  test('redirects are returned like other responses', async () => {
    const elsewhere = await startReceiver();
    for (const status of [301, 302, 307, 308]) {
      receiver.script(answer(status, { location: `${elsewhere.url}/stolen` }));
      assert.equal((await client.request(post(receiver.url))).status, status);
    }
    assert.equal(elsewhere.received.length, 0);
    assert.equal(elsewhere.connections(), 0);
    await elsewhere.close();
  });

  test('connections are kept and reused', async () => {
    const before = receiver.connections();
    const own = open();
    for (let i = 0; i < 5; i += 1) await own.request(post(receiver.url));
    // The client may open a second one while the first settles its last answer.
    assert.ok(receiver.connections() - before <= 2);
    await own.close();
  });

  test('never more sockets to one target than allowed', async () => {
    const before = receiver.connections();
    const own = open(undefined, { maxConnections: 3 });
    receiver.setFallback({ ...answer(200), delayMs: 10 } as never);
    await Promise.all(Array.from({ length: 30 }, () => own.request(post(receiver.url))));
    assert.equal(receiver.connections() - before, 3);
    receiver.setFallback(answer(200));
    await own.close();
  });

  test('one deadline covers silence, slow headers and a full pool', async () => {
    const own = open(undefined, { maxConnections: 1 });
    receiver.script({ kind: 'silent' });
    const first = own.request(post(receiver.url, { timeoutMs: 300 }));
    const queued = own.request(post(`${receiver.url}/queued`, { timeoutMs: 100 }));
    await assert.rejects(queued, { code: 'OUTBOUND_TIMEOUT' });
    await assert.rejects(first, { code: 'OUTBOUND_TIMEOUT' });
    // The one socket is free again, and the aborted request is never sent.
    assert.equal((await own.request(post(`${receiver.url}/after`))).status, 200);
    assert.equal(
      receiver.received.some(({ url }) => url === '/queued'),
      false,
    );
    await own.close();
  });

  test('a body without end: no failure when the status decides, a timeout otherwise', async () => {
    receiver.script({ kind: 'endless', status: 200, everyMs: 50 }, { kind: 'endless', status: 200, everyMs: 50 });
    const response = await client.request(post(receiver.url, { timeoutMs: 250, bodyOptional: true, maxBytes: 1e6 }));
    assert.deepEqual([response.status, response.truncated], [200, true]);
    const strict = client.request(post(receiver.url, { timeoutMs: 250, maxBytes: 1e6 }));
    await assert.rejects(strict, { code: 'OUTBOUND_TIMEOUT' });
  });

  test('a body beyond the limit is cut off', async () => {
    receiver.script(answer(200, {}, 'x'.repeat(1_000)), { kind: 'endless', status: 204 + 1, everyMs: 1 });
    await assert.rejects(client.request(post(receiver.url)), { code: 'OUTBOUND_TOO_LARGE' });
    const response = await client.request(post(receiver.url, { bodyOptional: true }));
    assert.deepEqual([response.status, response.truncated, response.body.length], [205, true, 16]);
  });

  test('resets before and in the headers fail; in the body only when the body matters', async () => {
    receiver.script({ kind: 'reset', at: 'start' }, { kind: 'reset', at: 'headers' }, { kind: 'reset', at: 'body' });
    await assert.rejects(client.request(post(receiver.url)), { code: 'OUTBOUND_RESET' });
    await assert.rejects(client.request(post(receiver.url)), { code: 'OUTBOUND_RESET' });
    const response = await client.request(post(receiver.url, { bodyOptional: true }));
    assert.deepEqual([response.status, response.body.toString(), response.truncated], [200, 'half', true]);
  });

  test('a response that arrives before the body was read is used', async () => {
    receiver.script({ kind: 'early', status: 413 });
    const response = await client.request(post(receiver.url, { body: Buffer.alloc(64) }));
    assert.equal(response.status, 413);
  });

  test('a response that is not HTTP fails as such', async () => {
    const server = await listen((socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'));
    await assert.rejects(client.request(post(`http://127.0.0.1:${server.port}`)), { code: 'OUTBOUND_BAD_RESPONSE' });
    await server.close();
    const big = await listen((socket) =>
      socket.write(`HTTP/1.1 200 OK\r\n${`x: ${'y'.repeat(4_000)}\r\n`.repeat(8)}\r\n`),
    );
    await assert.rejects(client.request(post(`http://127.0.0.1:${big.port}`)), { code: 'OUTBOUND_BAD_RESPONSE' });
    await big.close();
  });

  test('a closed port, an unresolved name, plain text on the TLS port', async () => {
    const server = await listen((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    await assert.rejects(client.request(post(`https://127.0.0.1:${server.port}`)), { code: 'OUTBOUND_TLS' });
    await server.close();
    await assert.rejects(client.request(post(`http://127.0.0.1:${server.port}`)), { code: 'OUTBOUND_CONNECT' });
    const own = open(() => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })));
    await assert.rejects(own.request(post('http://nowhere.example')), { code: 'OUTBOUND_DNS' });
    await own.close();
  });

  test('an abort ends the request at once', async () => {
    receiver.script({ kind: 'silent' });
    const controller = new AbortController();
    const running = client.request(post(receiver.url, { signal: controller.signal }));
    setTimeout(() => controller.abort(), 30);
    await assert.rejects(running, { code: 'OUTBOUND_TIMEOUT' });
    await assert.rejects(client.request(post(receiver.url, { signal: AbortSignal.abort() })), {
      code: 'OUTBOUND_TIMEOUT',
    });
  });

  test('neither path nor query reaches the log', () => {
    assert.equal(JSON.stringify(lines).includes('token'), false);
  });
});

describe('names', () => {
  let receiver: Receiver;
  before(async () => {
    receiver = await startReceiver();
  });
  after(() => receiver.close());
  const urlOf = (host: string) => `http://${host}:${receiver.port}/`;

  test('a name is resolved once, and the connection goes to the resolved address', async () => {
    let asked = 0;
    // The second answer would be the cloud's metadata service.
    const client = open(async () => v4(asked++ === 0 ? '127.0.0.1' : '169.254.169.254'));
    for (let i = 0; i < 3; i += 1) assert.equal((await client.request(post(urlOf('rebind.example')))).status, 200);
    assert.equal(asked, 1);
    assert.equal(receiver.received.at(-1)?.headers.host, `rebind.example:${receiver.port}`);
    await client.close();
  });

  test('one forbidden address among permitted ones blocks the request', async () => {
    const answers: ResolvedAddress[][] = [
      v4('127.0.0.1', '10.0.0.1'),
      v4('10.0.0.1', '127.0.0.1'),
      [...v4('127.0.0.1'), { address: '::1', family: 6 }],
      [{ address: '::ffff:10.0.0.1', family: 6 }],
      [{ address: 'fd00:ec2::254', family: 6 }],
      v4('169.254.169.254'),
      v4('not-an-address'),
    ];
    const before = receiver.connections();
    for (const all of answers) {
      const client = open(async () => all);
      await assert.rejects(client.request(post(urlOf('mixed.example'))), { code: 'OUTBOUND_BLOCKED_ADDRESS' });
      await client.close();
    }
    assert.equal(receiver.connections(), before);
  });

  test('the second address is tried when the first refuses', async () => {
    const client = open(async () => v4('127.0.0.2', '127.0.0.1'));
    assert.equal((await client.request(post(urlOf('two.example')))).status, 200);
    await client.close();
  });

  test('plain http needs allowHttp or allowed networks', async () => {
    const listed = open(async () => v4('127.0.0.1'), { allowHttp: false });
    assert.equal((await listed.request(post(urlOf('inside.example')))).status, 200);
    await listed.close();
    const outside = open(async () => v4('8.8.8.8'), { allowHttp: false });
    await assert.rejects(outside.request(post(urlOf('outside.example'))), { code: 'OUTBOUND_BLOCKED_ADDRESS' });
    await outside.close();
  });

  test('look-ups are shared, failures cached, and the deadline covers them', async () => {
    let asked = 0;
    let finish: (all: ResolvedAddress[]) => void = () => {};
    const client = open(() => {
      asked += 1;
      return new Promise((resolve) => {
        finish = resolve;
      });
    });
    const slow = client.request(post(urlOf('slow.example'), { timeoutMs: 50 }));
    const patient = client.request(post(urlOf('slow.example')));
    await assert.rejects(slow, { code: 'OUTBOUND_TIMEOUT' });
    finish(v4('127.0.0.1'));
    assert.equal((await patient).status, 200);
    assert.equal(asked, 1);
    await client.close();

    let failed = 0;
    const broken = open(async () => {
      failed += 1;
      throw Object.assign(new Error('x'), { code: 'ENOTFOUND' });
    });
    for (let i = 0; i < 4; i += 1) {
      await assert.rejects(broken.request(post(urlOf('gone.example'))), { code: 'OUTBOUND_DNS' });
    }
    assert.equal(failed, 1);
    await broken.close();
  });

  test('literal addresses are vetted although no look-up happens', async () => {
    let asked = 0;
    const client = open(async () => {
      asked += 1;
      return v4('127.0.0.1');
    });
    for (const host of ['169.254.169.254', '10.0.0.1', '[::1]', '0xa000001']) {
      await assert.rejects(client.request(post(`http://${host}:${receiver.port}/`)), {
        code: 'OUTBOUND_BLOCKED_ADDRESS',
      });
    }
    assert.equal(asked, 0);
    await client.close();
  });
});

async function listen(onSocket: (socket: import('node:net').Socket) => void) {
  const sockets = new Set<import('node:net').Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => onSocket(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
