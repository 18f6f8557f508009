import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { GOOD_KEY, startFront } from '../../helpers/http-front.ts';
import { until } from '../../helpers/until.ts';

const GATHER_MS = 50;

test('a websocket client that leaves while the gate is asked is settled, and no socket is opened for it', async (t) => {
  let open: (value?: unknown) => void = () => undefined;
  const gateOpens = new Promise((resolve) => {
    open = resolve;
  });
  let upgraded = 0;
  const front = await startFront({
    gateOpens,
    sockets: {
      connections: () => 0,
      upgrade: (_, socket) => {
        upgraded += 1;
        socket.destroy();
        return false;
      },
    },
  });
  t.after(() => front.stop());
  const key = 'dGhlIHNhbXBsZSBub25jZQ==';
  const ask = async (leaves: boolean) => {
    const socket = connect(front.port, '127.0.0.1');
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(
      `GET /?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
    );
    if (leaves) {
      await sleep(GATHER_MS);
      socket.resetAndDestroy();
    }
    return socket;
  };
  await ask(true);
  const stays = await ask(false);
  await sleep(GATHER_MS);
  open();
  // The one that stayed was let in after the other: what was to happen to that has happened.
  await once(stays.resume(), 'close');
  await until(() => front.gate.settled.length >= 2);
  assert.equal(upgraded, 1);
  assert.deepEqual(
    front.gate.settled.map(({ name, charged }) => [name, charged]),
    [
      ['websocket', false],
      ['websocket', false],
    ],
  );
});
