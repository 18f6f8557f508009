import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { callPeer } from './call-peer.ts';

/** A server that sends these bytes to each connection, and keeps what it received. */
async function startPeer(t: TestContext, bytes: string, isOpen = false) {
  const received: string[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      received.push(chunk.toString('latin1'));
      if (isOpen) socket.write(bytes);
      else socket.end(bytes);
    });
    t.after(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/a?b=c`, received };
}

test('informational answers that were not asked for are skipped', async (t) => {
  const interim = ['100 Continue', '102 Processing', '103 Early Hints']
    .map((line) => `HTTP/1.1 ${line}\r\n\r\n`)
    .join('');
  const { url } = await startPeer(t, `${interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`);
  const response = await callPeer(url, { method: 'POST', body: 'x' });
  assert.deepEqual([response.status, await response.text()], [200, 'ok']);
});

test('method, headers and body arrive, and names without a value of their own', async (t) => {
  const { url, received } = await startPeer(t, 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
  await callPeer(url, { method: 'PUT', headers: { 'X-One': '1', accept: 'text/csv' }, body: Buffer.from('body') });
  const text = received.join('');
  assert.match(text, /^PUT \/a\?b=c HTTP\/1\.1\r\n/);
  for (const line of ['accept: text/csv', 'user-agent: parhelion', 'x-one: 1', 'content-length: 4'])
    assert.ok(text.toLowerCase().includes(`\r\n${line}\r\n`), `${line}: ${text}`);
  assert.match(text, /\r\n\r\nbody$/);
});

test('a redirect is an answer, and answers without a body have none', async (t) => {
  for (const line of ['302 Found', '204 No Content', '304 Not Modified']) {
    const { url, received } = await startPeer(t, `HTTP/1.1 ${line}\r\nlocation: http://127.0.0.1:1/\r\n\r\n`);
    const response = await callPeer(url);
    assert.deepEqual(
      [response.status, response.headers.get('location'), await response.text(), received.length],
      [Number(line.slice(0, 3)), 'http://127.0.0.1:1/', '', 1],
    );
  }
});

test('what is no whole answer is an error', async (t) => {
  for (const bytes of [
    '',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    'nonsense\r\n\r\n',
    'HTTP/1.1 999 No\r\n\r\n',
  ]) {
    const { url } = await startPeer(t, bytes);
    await assert.rejects(callPeer(url), JSON.stringify(bytes));
  }
  const { url } = await startPeer(t, 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut');
  const response = await callPeer(url);
  await assert.rejects(response.text());
});

test('the signal ends the wait for an answer and its body', async (t) => {
  const reason = new Error('enough');
  for (const bytes of ['', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut']) {
    const { url } = await startPeer(t, bytes, true);
    const controller = new AbortController();
    const reading = callPeer(url, { signal: controller.signal }).then((response) => {
      setImmediate(() => controller.abort(reason));
      return response.text();
    });
    if (bytes === '') setImmediate(() => controller.abort(reason));
    await assert.rejects(reading);
  }
  await assert.rejects(callPeer('http://127.0.0.1:1/', { signal: AbortSignal.abort(reason) }), reason);
});

test('a peer that stops sending ends the call, before its answer and within it', async (t) => {
  const silent = await startPeer(t, '', true);
  await assert.rejects(callPeer(silent.url, { silenceMs: 50 }), /stopped sending/);
  const half = await startPeer(t, 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut', true);
  const response = await callPeer(half.url, { silenceMs: 50 });
  await assert.rejects(response.text());
});
