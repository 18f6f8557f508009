import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { until } from '../../test/helpers/until.ts';
import { createAddressLimit } from './connections.ts';

test('every address has its own connections, and is forgotten with its last one', { timeout: 20_000 }, async (t) => {
  const open = new Map<string, number>();
  let refused = 0;
  const counter = {
    add() {
      refused += 1;
    },
  };
  const limit = createAddressLimit(
    () => 2,
    (address) => address === '127.0.0.9',
    counter as never,
    open,
  );
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

test('a /64 of IPv6 is one client', () => {
  let refused = 0;
  const counter = { add: () => (refused += 1) };
  const open = new Map<string, number>();
  const server = new EventEmitter();
  createAddressLimit(
    () => 2,
    () => false,
    counter as never,
    open,
  ).attach(server as Server);
  const connections = ['2001:db8::1', '2001:db8::2', '2001:db8::3', '2001:db8:0:1::1'].map((remoteAddress) => {
    const socket = Object.assign(new EventEmitter(), { remoteAddress, destroy: () => undefined });
    server.emit('connection', socket);
    return socket;
  });
  assert.equal(refused, 1);
  for (const socket of connections) socket.emit('close');
  assert.equal(open.size, 0);
});
