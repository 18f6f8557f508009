import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { startFront } from '../../test/helpers/http-front.ts';

const CLIENTS = 64;
/** Long enough for the clients to connect and send while nobody accepts. */
const BUSY_MS = 500;

/** Opens connections with a request each when it is told to, and tells how each of them ended. */
const PROGRAM = `
const { connect } = require('node:net');
process.on('message', () => {
  const ends = [];
  for (let i = 0; i < ${CLIENTS}; i += 1) {
    const socket = connect(Number(process.argv[1]), '127.0.0.1');
    let answer = '';
    let error = null;
    socket.on('data', (bytes) => (answer += bytes));
    socket.on('error', ({ code }) => (error = code));
    socket.on('close', () => {
      const head = answer.split('\\r\\n\\r\\n')[0].toLowerCase();
      ends.push(error ?? answer.slice(9, 12) + (head.includes('connection: close') ? ' closed' : ''));
      if (ends.length === ${CLIENTS}) process.send([...new Set(ends)]);
    });
    socket.write('GET /ping HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n');
  }
});
process.send('ready');`;

test('connections that wait in the kernel when the listener stops are answered, and none later', async (t) => {
  const front = await startFront();
  const clients = spawn(process.execPath, ['-e', PROGRAM, String(front.port)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  t.after(() => clients.kill());
  await once(clients, 'message');
  const ended = once(clients, 'message');
  clients.send('go');
  // The message leaves in the turns before the busy one.
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  for (const endsAtMs = performance.now() + BUSY_MS; performance.now() < endsAtMs; );
  await front.stop();
  assert.deepEqual(await ended, [['503 closed'], undefined]);
});

test('a listener stops although connections come without end', async (t) => {
  const front = await startFront();
  const flood = spawn(
    process.execPath,
    [
      '-e',
      `
const { connect } = require('node:net');
const open = () => {
  const socket = connect(Number(process.argv[1]), '127.0.0.1');
  socket.on('error', () => {});
  socket.on('close', () => setImmediate(open));
  socket.write('GET /ping HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n');
};
for (let i = 0; i < 32; i += 1) open();
process.send('ready');`,
      String(front.port),
    ],
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
  );
  t.after(() => flood.kill());
  await once(flood, 'message');
  await front.stop();
  await assert.rejects(fetch(`${front.url}/ping`), 'nothing listens any more');
});
