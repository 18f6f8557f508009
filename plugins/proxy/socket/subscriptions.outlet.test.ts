import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { until } from '../../../test/helpers/until.ts';
import { createOutlet } from './subscriptions.ts';

const WAIT = { timeout: 60_000 };

/** Both ends of a socket, over the network. */
async function connected(t: TestContext) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [socket] = (await once(server, 'connection')) as [WebSocket];
  await once(client, 'open');
  t.after(() => {
    client.terminate();
    socket.terminate();
    server.close();
  });
  const network = (client as unknown as { readonly _socket: Socket })._socket;
  let received = 0;
  client.on('message', () => {
    received += 1;
  });
  return { socket, client, network, received: () => received };
}

for (const [what, bytes, most] of [
  ['messages', 8_000, 2_048],
  ['bytes', 64_000, 256],
] as const)
  test(
    `a client that is too many ${what} behind reads 1008 and the reason when it reads again, half a minute later`,
    WAIT,
    async (t) => {
      const clock = createManualClock();
      const { socket, client, network, received } = await connected(t);
      const outlet = createOutlet(socket, clock, 16_777_216, OWN_WORK);
      outlet.limitBehind(2_048);
      network.pause();
      const message = Buffer.alloc(bytes, 'x');
      let sent = 0;
      while (outlet.send(message)) {
        sent += 1;
        assert.ok(sent < 100_000);
      }
      assert.ok(sent >= most, `${sent} messages`);
      await clock.advance(45_000);
      const closed = once(client, 'close');
      network.resume();
      const [code, reason] = (await closed) as [number, Buffer];
      assert.deepEqual([code, /behind$/.test(String(reason))], [1008, true]);
      // What was queued behind the socket was dropped.
      assert.ok(received() < sent, `${received()} of ${sent}`);
    },
  );

test('a client without such a limit gets what was queued before its close', WAIT, async (t) => {
  const clock = createManualClock();
  const { socket, client, network, received } = await connected(t);
  const outlet = createOutlet(socket, clock, 16_777_216, OWN_WORK);
  network.pause();
  for (let count = 0; count < 100; count++) assert.ok(outlet.send(Buffer.alloc(100_000)));
  outlet.close(1001, 'the service is going away');
  const closed = once(client, 'close');
  network.resume();
  assert.equal((await closed)[0], 1001);
  await until(() => received() === 100);
});

for (const [code, reason] of [
  [1008, 'max usage reached'],
  [1008, 'the plan of the project has changed'],
  [1000, 'no match for 600 s'],
  [1011, 'internal error'],
  [1012, 'the subscription was lost'],
  [1013, 'the account cannot be read, try again later'],
] as const)
  test(`a busy client reads what was queued, then ${code} and "${reason}", half a minute later`, WAIT, async (t) => {
    const clock = createManualClock();
    const { socket, client, network, received } = await connected(t);
    const outlet = createOutlet(socket, clock, 16_777_216, OWN_WORK);
    network.pause();
    for (let count = 0; count < 100; count++) assert.ok(outlet.send(Buffer.alloc(100_000)));
    outlet.close(code, reason);
    await clock.advance(45_000);
    const closed = once(client, 'close');
    network.resume();
    const [read, text] = (await closed) as [number, Buffer];
    assert.deepEqual([read, String(text), received()], [code, reason, 100]);
  });

test('a client that is too many bytes behind without such a limit reads 1013 half a minute later', WAIT, async (t) => {
  const clock = createManualClock();
  const { socket, client, network } = await connected(t);
  const outlet = createOutlet(socket, clock, 16_777_216, OWN_WORK);
  network.pause();
  while (outlet.send(Buffer.alloc(100_000)));
  await clock.advance(45_000);
  const closed = once(client, 'close');
  network.resume();
  const [code, reason] = (await closed) as [number, Buffer];
  assert.deepEqual([code, String(reason)], [1013, 'too slow']);
});

test('the start of a long reason is sent, in whole characters', WAIT, async (t) => {
  const { socket, client } = await connected(t);
  const closed = once(client, 'close');
  createOutlet(socket, createManualClock(), 1_000_000, OWN_WORK).close(1012, `x${'ü'.repeat(100)}`);
  const [code, reason] = (await closed) as [number, Buffer];
  assert.deepEqual([code, String(reason)], [1012, `x${'ü'.repeat(61)}`]);
});
