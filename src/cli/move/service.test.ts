import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createService } from './service.ts';

test('an answer that breaks off is asked for again, unless the call creates something', async (t) => {
  let asked = 0;
  const server = createServer((request, response) => {
    asked += 1;
    response.writeHead(200, { 'content-length': '9' });
    if (request.method === 'GET' && asked > 1) response.end('{"is": 1}');
    else response.write('{"is"', () => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const service = createService({ option: '--from', url, key: 'the-key', keyHeader: null });
  assert.deepEqual(await service.ask('GET', '/v0/webhooks'), { is: 1 });
  assert.equal(asked, 2);
  await assert.rejects(service.ask('POST', '/v0/webhooks', {}), {
    code: 'MOVE_SERVICE',
    message: `${new URL(url).host} does not answer: ECONNRESET`,
  });
  assert.equal(asked, 3);
});
