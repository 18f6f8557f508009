import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

const skip = (await chainMissing()) ?? false;
const WARM_CYCLES = 4;
const CYCLES = 12;
/** Twelve daemons that stay behind weigh six times as much: schemas, validators, metrics, prepared statements. */
const ROOM_BYTES = 10_000_000;
const ROOM_COUNT = 3;

interface Held {
  readonly heapBytes: number;
  readonly descriptors: number;
  readonly resources: number;
  readonly listeners: number;
}

/** One short but whole life: it follows, delivers, forwards, holds a websocket, refuses, and stops. */
async function liveOnce(chain: TestChain, receiver: Receiver): Promise<void> {
  const daemon = await startDaemon({
    chain,
    config: { webhooks: { allowCidrs: ['127.0.0.0/8'] }, log: { level: 'silent' } },
  });
  const headers = { connection: 'close' };
  const at = (path: string) => `${daemon.apiUrl}${path}?api-key=${daemon.key}`;
  const address = '11111111111111111111111111111112';
  const created = await fetch(at('/v0/webhooks'), {
    method: 'POST',
    headers,
    body: JSON.stringify({ webhookType: 'raw', webhookURL: receiver.url, accountAddresses: [address] }),
  });
  assert.equal(created.status, 200, await created.text());
  const call = await fetch(at('/'), {
    method: 'POST',
    headers,
    body: '{"jsonrpc":"2.0","id":1,"method":"getGenesisHash"}',
  });
  assert.equal(call.status, 200, await call.text());
  const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${daemon.key}`);
  await once(socket, 'open');
  socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}');
  await once(socket, 'message');
  const before = receiver.received.length;
  await chain.fund(address, 1_000_000);
  await receiver.waitFor(before + 1);
  const closed = once(socket, 'close');
  await daemon.stop();
  await closed;
}

async function look(): Promise<Held> {
  for (let round = 0; round < 5; round += 1) {
    await sleep(30);
    globalThis.gc?.();
  }
  return {
    heapBytes: process.memoryUsage().heapUsed,
    descriptors: readdirSync('/proc/self/fd').length,
    resources: process.getActiveResourcesInfo().length,
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
  };
}

const isBack = (before: Held, after: Held): boolean =>
  after.heapBytes - before.heapBytes < ROOM_BYTES &&
  after.descriptors <= before.descriptors + ROOM_COUNT &&
  after.resources <= before.resources + ROOM_COUNT;

test('daemons that start and stop in one process leave nothing behind', { skip }, async (t) => {
  if (globalThis.gc === undefined) return t.skip('needs --expose-gc');
  const chain = await startChain();
  const receiver = await startReceiver();
  t.after(async () => {
    await receiver.close();
    await chain.stop();
  });
  for (let cycle = 0; cycle < WARM_CYCLES; cycle += 1) await liveOnce(chain, receiver);
  const before = await look();
  for (let cycle = 0; cycle < CYCLES; cycle += 1) await liveOnce(chain, receiver);
  let after = await look();
  // Idle connections and timers of the last ones may hold them for a while; what is left behind stays.
  for (let tries = 0; tries < 60 && !isBack(before, after); tries += 1) {
    await sleep(500);
    after = await look();
  }
  t.diagnostic(JSON.stringify({ before, after }));
  assert.ok(after.heapBytes - before.heapBytes < ROOM_BYTES, `${before.heapBytes} -> ${after.heapBytes} bytes of heap`);
  assert.ok(
    after.descriptors <= before.descriptors + ROOM_COUNT,
    `${before.descriptors} -> ${after.descriptors} descriptors`,
  );
  assert.ok(after.resources <= before.resources + ROOM_COUNT, `${before.resources} -> ${after.resources} resources`);
  assert.equal(after.listeners, before.listeners, 'listeners on process');
});
