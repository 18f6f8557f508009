/** One upstream over HTTP: what it may take, how long, and when it is let go. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { createTransport, type Transport } from '../../../src/adapters/chain/rpc/transport.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const WAIT = { timeout: 20_000 };
const LONG_MS = 3_600_000;
const HUGE_BYTES = 20_000_000;
let upstream: TestUpstream;
let transport: Transport;
before(async () => {
  upstream = await startUpstream();
  upstream.on('hang', { fault: 'hang' });
  upstream.on('half', { chunks: ['{"jsonrpc":'], end: false });
  upstream.on('refusal', { status: 500, chunks: ['x'.repeat(200_000)] });
  upstream.on('big', { result: `"${'x'.repeat(200_000)}"` });
  upstream.on('huge', { result: `"${'x'.repeat(HUGE_BYTES)}"` });
  transport = createTransport(makeUpstream(upstream.url), 'test', createSystemClock());
});
// The timers of the clock keep nothing alive: the tests wait for them.
const hold = setInterval(() => undefined, 1_000);
after(async () => {
  clearInterval(hold);
  await transport.close();
  await upstream.stop();
});

const makeUpstream = (url: string): Upstream => ({
  label: 'main-0',
  url,
  headers: {},
  archive: false,
  maxConcurrent: 2,
});
const ask = (method: string, more: Partial<Parameters<Transport['send']>[0]> = {}) =>
  transport.send({
    tenant: OWN_WORK,
    body: `{"jsonrpc":"2.0","id":1,"method":"${method}"}`,
    timeoutMs: LONG_MS,
    maxBytes: 1_000_000,
    ...more,
  });
async function whole(body: Readable): Promise<number> {
  let size = 0;
  for await (const chunk of body) size += (chunk as Buffer).length;
  return size;
}

test('an upstream that never answers is given up in time, also in the middle of its answer', WAIT, async () => {
  await assert.rejects(ask('hang', { timeoutMs: 100 }), { code: 'UPSTREAM_TIMEOUT' });
  const { body } = await ask('half', { timeoutMs: 400 });
  await assert.rejects(whole(body), { code: 'UPSTREAM_TIMEOUT' });
  await until(() => upstream.calls.every(({ aborted, method }) => aborted() || method === 'getSlot'), 'it is told');
});

test('a caller that leaves ends its call, before and in the answer', WAIT, async () => {
  for (const method of ['hang', 'half']) {
    const controller = new AbortController();
    const before = upstream.callsOf(method).length;
    const asking = ask(method, { signal: controller.signal }).then(({ body }) => whole(body));
    await until(() => upstream.callsOf(method).length > before, 'it has come');
    controller.abort(new Error('the caller left'));
    await assert.rejects(asking, /the caller left/);
    await until(() => upstream.callsOf(method).every(({ aborted }) => aborted()), 'the upstream is told');
  }
  await assert.rejects(ask('hang', { signal: AbortSignal.abort(new Error('before')) }), /before/);
});

test('an answer beyond its limit is cut off', WAIT, async () => {
  for (const method of ['big', 'refusal']) {
    const { body } = await ask(method, { maxBytes: 100_000 });
    await assert.rejects(whole(body), { code: 'UPSTREAM_TOO_LARGE' });
  }
  assert.ok((await whole((await ask('big')).body)) > 200_000);
});

test(
  'an answer of any size in any pieces arrives unchanged, without a stream up to the size that was asked for',
  WAIT,
  async () => {
    const random = createSfc32(7);
    for (let call = 0; call < 60; call += 1) {
      const wholeBytes = 1 + random.below(100_000);
      const size = call % 3 === 0 ? wholeBytes + random.below(3) - 1 : random.below(200_000);
      const text = Buffer.from(Array.from({ length: size }, () => 97 + random.below(26)));
      const cuts = Array.from({ length: random.below(4) }, () => random.below(size + 1)).sort((a, b) => a - b);
      const status = random.below(4) === 0 ? 500 : 200;
      const chunks = [0, ...cuts]
        .map((from, index) => text.subarray(from, cuts[index] ?? size))
        .filter((one) => one.length);
      upstream.on('pieces', { status, chunks });
      const { whole: bytes, body } = await ask('pieces', { wholeBytes });
      assert.equal(bytes !== null, status === 200 && size <= wholeBytes, `${size} of ${wholeBytes} bytes, ${status}`);
      const read: Buffer[] = [];
      for await (const chunk of body) read.push(chunk as Buffer);
      assert.ok(Buffer.concat(read).equals(text));
      assert.ok(bytes === null || bytes.equals(text));
    }
    // Two may be in flight: none of them kept its place.
    const running = [1, 2].map(() => ask('big', { wholeBytes: 1_000_000 }));
    for (const { whole: bytes } of await Promise.all(running)) assert.ok(bytes!.length > 200_000);
  },
);

test('an answer that was asked for as a whole and does not end is an error of the call', WAIT, async () => {
  const wholeBytes = 100_000;
  upstream.on('cut', { fault: 'cut', body: '{"jsonrpc":' });
  await assert.rejects(ask('cut', { wholeBytes }), { code: 'UPSTREAM_FAILED' });
  await assert.rejects(ask('half', { wholeBytes, timeoutMs: 100 }), { code: 'UPSTREAM_TIMEOUT' });
  await assert.rejects(ask('big', { wholeBytes: 500_000, maxBytes: 50_000 }), { code: 'UPSTREAM_TOO_LARGE' });
  const controller = new AbortController();
  const asking = ask('half', { wholeBytes, signal: controller.signal });
  await until(() => upstream.callsOf('half').some(({ aborted }) => !aborted()), 'it has come');
  controller.abort(new Error('the caller left'));
  await assert.rejects(asking, /the caller left/);
  await until(() => upstream.callsOf('half').every(({ aborted }) => aborted()), 'the upstream is told');
});

test('an upstream has so many calls at once and no more; those that wait lose their time', WAIT, async () => {
  const controller = new AbortController();
  const before = upstream.callsOf('hang').length;
  const running = [1, 2].map(() => ask('hang', { signal: controller.signal }).catch(() => 'ended'));
  await until(() => upstream.callsOf('hang').length === before + 2, 'two are there');
  await assert.rejects(ask('hang', { timeoutMs: 150 }), { code: 'UPSTREAM_TIMEOUT' });
  assert.equal(upstream.callsOf('hang').length, before + 2);
  controller.abort(new Error('enough'));
  await Promise.all(running);
});

test('an upstream that offers HTTP/2 is asked over HTTP/1.1, with no more connections than calls at once', {
  ...WAIT,
  skip: opensslMissing() ?? false,
}, async (t) => {
  const certificate = makeCertificate();
  const versions = new Set<string>();
  const held: ServerResponse[] = [];
  const server = createSecureServer({ ...certificate, allowHTTP1: true }, (request, response) => {
    versions.add(request.httpVersion);
    held.push(response as unknown as ServerResponse);
  });
  let connections = 0;
  server.on('secureConnection', () => (connections += 1));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  // The client reads it when it connects.
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  const own = createTransport(makeUpstream(`https://127.0.0.1:${port}`), 'test', createSystemClock());
  t.after(async () => {
    delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    await own.close();
    server.close();
  });
  const call = { tenant: OWN_WORK, body: '{}', timeoutMs: LONG_MS, maxBytes: 1_000 };
  const asked = Array.from({ length: 6 }, async () => await whole((await own.send(call)).body));
  for (let answered = 0; answered < asked.length; answered += 1) {
    await until(() => held.length > 0, 'a call has come');
    assert.ok(held.length <= 2, `${held.length} at once`);
    held.shift()!.end('{}');
  }
  assert.deepEqual(await Promise.all(asked), Array(6).fill(2));
  assert.deepEqual([...versions], ['1.1']);
  assert.ok(connections <= 2, `${connections} connections`);
});

test('an answer that nobody reads is held back, not kept in memory, and is whole when it is read', WAIT, async () => {
  const { body } = await ask('huge', { maxBytes: 2 * HUGE_BYTES });
  for (let call = 0; call < 20; call += 1) await whole((await ask('big')).body);
  assert.ok(body.readableLength < 500_000, `${body.readableLength} bytes`);
  assert.ok((await whole(body)) > HUGE_BYTES);
});

test('dropping an answer frees its place; a connection that we close is no failure of the upstream', WAIT, async () => {
  let breaks = 0;
  const own = createTransport(makeUpstream(upstream.url), 'test', createSystemClock(), () => {
    breaks += 1;
  });
  const send = (method: string) =>
    own.send({
      tenant: OWN_WORK,
      body: `{"jsonrpc":"2.0","id":1,"method":"${method}"}`,
      timeoutMs: LONG_MS,
      maxBytes: 1_000_000,
    });
  for (let call = 0; call < 6; call += 1) (await send('half')).body.destroy();
  assert.ok((await whole((await send('big')).body)) > 200_000);
  assert.equal(breaks, 0);
  await own.close();
});

test('no error names the address, which may hold a key', WAIT, async () => {
  const secret = 'secret-key-in-the-path';
  const gone = createTransport(makeUpstream(`http://127.0.0.1:9/${secret}`), 'test', createSystemClock());
  const error = await gone
    .send({ tenant: OWN_WORK, body: '{}', timeoutMs: 5_000, maxBytes: 10 })
    .catch((one: unknown) => one);
  assert.equal((error as { code: string }).code, 'UPSTREAM_CONNECT');
  assert.doesNotMatch(String((error as Error).message), /127\.0\.0\.1|secret/);
  await gone.close();
});
