import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startFront } from '../../test/helpers/http-front.ts';

const CLIENTS = 64;
/** Of the wait for the clients, during which nobody accepts. */
const MAX_BUSY_MS = 30_000;

/** Opens connections with a request each when it is told to, makes a file when all are open and sent, and tells how each of them ended. */
const PROGRAM = `
const { connect } = require('node:net');
process.on('message', () => {
  const ends = [];
  let open = 0;
  for (let i = 0; i < ${CLIENTS}; i += 1) {
    const socket = connect(Number(process.argv[1]), '127.0.0.1');
    let answer = '';
    let error = null;
    socket.on('connect', () => {
      open += 1;
      if (open === ${CLIENTS}) setImmediate(() => require('node:fs').writeFileSync(process.argv[2], ''));
    });
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
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-queue-'));
  const allSent = join(dir, 'all-sent');
  const clients = spawn(process.execPath, ['-e', PROGRAM, String(front.port), allSent], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  t.after(() => {
    clients.kill();
    rmSync(dir, { recursive: true, force: true });
  });
  await once(clients, 'message');
  const ended = once(clients, 'message');
  clients.send('go');
  // The message leaves in the turns before the busy one.
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  for (const endsAtMs = performance.now() + MAX_BUSY_MS; !existsSync(allSent) && performance.now() < endsAtMs; );
  assert.ok(existsSync(allSent), 'the kernel has all connections');
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
