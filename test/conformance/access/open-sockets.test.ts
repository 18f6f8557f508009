/** What a key loses reaches the websockets that it opened, by commands of another process that can send no hint. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { until } from '../proxy/rpc-client.ts';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const ORIGIN = 'https://app.example';
let bed: AccessDaemon;

before(async () => {
  bed = await startAccessDaemon({ plugins: ['access', 'proxy'], rpc: { batchConcurrency: 30 } });
});
after(() => bed?.stop());

/** A websocket with a subscription that is notified all the time. */
async function open(key: string, headers: Record<string, string> = {}) {
  const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/`, {
    headers: { 'X-Api-Key': key, ...headers },
  });
  const received: string[] = [];
  socket.on('message', (data) => received.push(String(data)));
  socket.on('error', () => undefined);
  const closed = once(socket, 'close') as Promise<[number, Buffer]>;
  await once(socket, 'open');
  socket.send(JSON.stringify(rpcCall('accountSubscribe', 1, [key])));
  await until('the subscription is accepted', () => received.length >= 1);
  const subscription = bed.upstream.held('accountSubscribe').find(({ paramsText }) => paramsText.includes(key));
  assert.ok(subscription, 'the upstream holds it');
  const notified = () => received.filter((text) => text.includes('Notification')).length;
  const notifier = setInterval(() => !subscription.ended && bed.upstream.notify(subscription, '1'), 10);
  void closed.then(() => clearInterval(notifier));
  await until('it is notified', () => notified() > 0);
  return { socket, closed, notified, received, subscription };
}

const inSeconds = (count: number) => `${new Date(Date.now() + count * 1_000).toISOString().slice(0, 19)}Z`;

const endings: [string, string, (id: string) => Promise<unknown>, (readonly string[])?][] = [
  ['a revoked key', 'Invalid API key', (id) => bed.cli('keys', 'revoke', '--id', id)],
  ['a rotated key', 'Invalid API key', (id) => bed.cli('keys', 'rotate', '--id', id, '--overlap', '0')],
  [
    'a key for other addresses',
    'IP address not allowed for this API key',
    (id) => bed.cli('keys', 'allow-ip', '--id', id, '--ips', '10.0.0.0/8'),
  ],
  [
    'a key for pages of another origin',
    'Origin not allowed for this API key',
    (id) => bed.cli('keys', 'allow-origin', '--id', id, '--origins', 'https://other.example'),
  ],
];

for (const [what, reason, end] of endings)
  test(`${what} ends its websockets with 1008 and the reason; nothing comes any more`, {
    timeout: 30_000,
  }, async () => {
    const { key, id } = await bed.makeKey();
    const other = await bed.makeKey();
    const [one, two, bystander] = [await open(key, { Origin: ORIGIN }), await open(key), await open(other.key)];
    await end(id);
    for (const { closed, notified } of [one, two]) {
      const [code, text] = await closed;
      assert.deepEqual([code, String(text)], [1008, reason]);
      const before = notified();
      await sleep(50);
      assert.equal(notified(), before);
    }
    await until('the upstream is left', () => one.subscription.ended && two.subscription.ended);
    const before = bystander.notified();
    await until('others go on', () => bystander.notified() > before);
    bystander.socket.terminate();
  });

test('an expired key ends its websockets', { timeout: 30_000 }, async () => {
  const { key } = await bed.makeKey({ flags: ['--expires', inSeconds(10)] });
  const [code, text] = await (await open(key)).closed;
  assert.deepEqual([code, String(text)], [1008, 'Invalid API key']);
});

test('limits that the client keeps to end nothing; a call on the socket is held to those of now', async () => {
  const { key, id } = await bed.makeKey();
  const client = await open(key, { Origin: ORIGIN });
  await bed.cli('keys', 'allow-ip', '--id', id, '--ips', '127.0.0.0/8');
  await bed.cli('keys', 'allow-origin', '--id', id, '--origins', ORIGIN);
  await sleep(1_200);
  const before = client.notified();
  await until('it goes on', () => client.notified() > before);
  client.socket.send(JSON.stringify(rpcCall('getBalance', 'asked', ['x'])));
  const answer = () => client.received.find((text) => text.includes('"asked"'));
  await until('answered', () => answer() !== undefined);
  assert.ok(answer()?.includes('"result"'), answer());
  client.socket.terminate();
});

test('too few credits for a call end no websocket: the call gets the error, and what is left pays for notifications', async () => {
  // One for the socket, one for the subscription; a notification costs a small part of one.
  const { key } = await bed.makeKey({ override: { creditsLimit: 4 } });
  const client = await open(key);
  const ask = async (id: string) => {
    client.socket.send(JSON.stringify(rpcCall('getBalance', id, ['x'])));
    await until('answered', () => client.received.some((text) => text.includes(id)));
    return client.received.find((text) => text.includes(id)) ?? '';
  };
  const answers = [await ask('first'), await ask('second'), await ask('third')];
  assert.match(answers.at(-1) ?? '', /"code":-32005,"message":"max usage reached"/);
  const before = client.notified();
  await sleep(1_200);
  assert.ok(client.notified() > before);
  client.socket.terminate();
});

test('many calls at once on a websocket leave no warning of too many listeners', async () => {
  const { key } = await bed.makeKey();
  const warnings: string[] = [];
  const note = (warning: Error) => warnings.push(`${warning.name}: ${warning.message}`);
  process.on('warning', note);
  const client = await open(key);
  let letGo = () => {};
  const waits = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  bed.upstream.on('getWaiting', () => waits.then(() => ({ result: '1' })));
  for (let id = 100; id < 130; id += 1) client.socket.send(JSON.stringify(rpcCall('getWaiting', id, [id])));
  const batch = Array.from({ length: 30 }, (_, id) => rpcCall('getWaiting', 200 + id, [id]));
  const posted = bed.rpc(key, batch);
  await until('the calls run', () => bed.upstream.callsOf('getWaiting').length >= 20);
  letGo();
  await (await posted).text();
  await until('all are answered', () => client.received.filter((text) => text.includes('"result":1,')).length >= 30);
  process.off('warning', note);
  assert.deepEqual(warnings, []);
  client.socket.terminate();
});
