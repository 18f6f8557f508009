import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { startFront } from '../../test/helpers/http-front.ts';
import { until } from '../../test/helpers/until.ts';
import { defineRoute, json } from '../plugin/plugin.ts';

const LOAD = 16;
const BURST = 64;

/** Keeps 16 connections busy, and opens 64 more when it is told to; then it tells how many were answered. */
const CLIENTS = `
const { connect } = require('node:net');
const open = (path, answered) => {
  const socket = connect(Number(process.argv[1]), '127.0.0.1');
  const ask = () => socket.write('GET ' + path + ' HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n');
  socket.on('data', (bytes) => answered(ask, bytes.includes('200 OK')));
  socket.on('error', () => process.exit(1));
  ask();
};
for (let i = 0; i < ${LOAD}; i += 1) open('/load', (ask) => ask());
process.on('message', () => {
  let answers = 0;
  for (let i = 0; i < ${BURST}; i += 1) open('/first', (_ask, ok) => ok && (answers += 1) === ${BURST} && process.send(answers));
});`;

test('once connections have queued, a turn of the event loop accepts several', async (t) => {
  let turn = 0;
  let firsts = new Map<number, number>();
  const get = { method: 'GET', summary: '', tag: '', auth: 'none', errors: 'wallet' } as const;
  const replies = { 200: Type.Unknown() };
  const load = defineRoute({
    ...get,
    path: '/load',
    replies,
    handler: async () => {
      const end = performance.now() + 1;
      while (performance.now() < end);
      return json({});
    },
  });
  const first = defineRoute({
    ...get,
    path: '/first',
    replies,
    handler: async () => {
      firsts.set(turn, (firsts.get(turn) ?? 0) + 1);
      return json({});
    },
  });
  const front = await startFront({ routes: [load, first] });
  const clients = spawn(process.execPath, ['-e', CLIENTS, String(front.port)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  t.after(async () => {
    clients.kill();
    await front.stop();
  });
  let isOver = false;
  const nextTurn = () => {
    turn += 1;
    if (!isOver) setImmediate(nextTurn);
  };
  nextTurn();
  t.after(() => {
    isOver = true;
  });
  const burst = async (): Promise<number> => {
    firsts = new Map();
    clients.send('burst');
    assert.deepEqual(await once(clients, 'message'), [BURST, undefined]);
    return Math.max(...firsts.values());
  };

  // A client that gets little of the processor opens its connections one by one: then nothing queues, and it tries again.
  await until(async () => {
    await burst();
    return front.log.lines.some(({ fields }) => fields['handles'] === 32);
  }, 'copies of the listener');
  await until(async () => (await burst()) >= 8, 'eight of the new connections served in one turn');

  clients.kill();
  await front.stop();
  const [error] = await once(connect({ host: '127.0.0.1', port: front.port }), 'error');
  assert.equal((error as NodeJS.ErrnoException).code, 'ECONNREFUSED', 'no copy listens on');
});
