import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { OWN_WORK } from '../ports/access.ts';
import { createTransport } from './chain/rpc/transport.ts';
import { createSystemClock } from './clock.ts';
import { createOutbound } from './outbound/index.ts';

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
/** Informational answers before the answer, in the pieces in which they arrive. */
const BEFORE: Readonly<Record<string, readonly string[]>> = {
  'one, with the answer': [CONTINUE + ANSWER],
  'one, before the answer': [CONTINUE, ANSWER],
  several: [CONTINUE, CONTINUE + CONTINUE, ANSWER],
  'of all kinds': [
    'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n',
    'HTTP/1.1 102 Processing\r\n\r\n',
    CONTINUE,
    ANSWER,
  ],
  'with headers': ['HTTP/1.1 100 Continue\r\nserver: x\r\ndate: y\r\n\r\n', ANSWER],
  'in single bytes': [...CONTINUE, ...CONTINUE, ...ANSWER],
  'cut in the line': [
    'HTTP',
    '/1.1 1',
    '00 Con',
    'tinue\r\n\r',
    '\nHTTP/1.1 200 OK\r\nconte',
    'nt-length: 2\r\n\r\nok',
  ],
};

test('informational answers that were not asked for are skipped', async (t) => {
  const clock = createSystemClock();
  let pieces: readonly string[] = [];
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.on('data', async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const upstream = { label: 'main-0', url, headers: {}, archive: false, maxConcurrent: 1 };
  const transport = createTransport(upstream, 'test', clock);
  const client = createOutbound({ clock, log: createMemoryLog() }).open({
    allowHttp: true,
    allowCidrs: ['127.0.0.0/8'],
    allowPorts: null,
    caFile: null,
    maxConnections: 1,
  });
  t.after(async () => {
    await transport.close();
    await client.close();
    server.close();
  });
  // Twice, over the same connection.
  for (const [name, given] of Object.entries(BEFORE))
    for (const round of [1, 2]) {
      pieces = given;
      const reply = await transport.send({ tenant: OWN_WORK, body: '{}', timeoutMs: 10_000, maxBytes: 100 });
      const chunks: Buffer[] = [];
      for await (const chunk of reply.body) chunks.push(chunk as Buffer);
      assert.deepEqual([reply.status, Buffer.concat(chunks).toString()], [200, 'ok'], `${name}, upstream ${round}`);
      const response = await client.request({ url, method: 'POST', timeoutMs: 10_000, keepBytes: 100, maxBytes: 100 });
      assert.equal(response.status, 200, `${name}, outbound ${round}`);
    }
});
