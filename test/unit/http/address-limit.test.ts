import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { createAddressLimit } from '../../../src/kernel/http/address-limit.ts';
import { until } from '../../helpers/raw-http.ts';

test('every address has its own connections, and is forgotten with its last one', { timeout: 20_000 }, async (t) => {
  const open = new Map<string, number>();
  let refused = 0;
  const counter = {
    add() {
      refused += 1;
    },
  };
  const limit = createAddressLimit(2, (address) => address === '127.0.0.9', counter as never, open);
  const server = createServer();
  limit.attach(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  for (const localAddress of ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.9'])
    for (let n = 0; n < 3; n += 1) {
      const socket = connect({ host: '127.0.0.1', port, localAddress });
      socket.on('error', () => {});
      sockets.push(socket);
      await once(socket, 'connect');
    }
  await until(() => refused === 3, 'one of each address is too many, where there is a limit');
  assert.deepEqual([...open].sort(), [
    ['127.0.0.1', 2],
    ['127.0.0.2', 2],
    ['127.0.0.3', 2],
  ]);
  for (const socket of sockets) socket.destroy();
  await until(() => open.size === 0, 'nobody is remembered');
});
