/** Prices of websockets: opening one, and each byte of notifications. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { runCommand, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { onEngine } from '../../helpers/run-part.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { startBed, until } from './rpc-client.ts';
import { connect, type SocketClient } from './socket-client.ts';

const CREDITS_PER_BYTE = 2 / 100_000;
/** Opening a socket and subscribing cost one credit each. */
const OPENED = 1;

interface Usage {
  readonly creditsUsed: number;
  readonly credits: { readonly rpc: number; readonly laserstreamWebsocket: number };
  readonly dataTransfer: { readonly laserstreamWebsocket: number };
  readonly usage: { readonly websocket: number };
}

/** For the endpoint, which allows five calls a second. */
async function usageOf({ apiUrl, key, projectId }: TestDaemon): Promise<Usage> {
  for (;;) {
    const response = await fetch(`${apiUrl}/v0/admin/projects/${projectId}/usage`, { headers: { 'X-Api-Key': key } });
    if (response.status === 200) return (await response.json()) as Usage;
    assert.equal(response.status, 429, await response.text());
    await sleep(300);
  }
}

async function setCredits({ projectId, configFile }: TestDaemon, creditsLimit: number): Promise<void> {
  const override = JSON.stringify({ creditsLimit });
  const { code, err } = await runCommand(
    ['projects', 'set-plan', '--id', projectId, '--override', override].concat('--config', configFile),
  );
  assert.equal(code, 0, err);
}

const bytesOf = (clients: readonly SocketClient[]) =>
  clients.reduce(
    (sum, client) => sum + client.notifications().reduce((all, text) => all + Buffer.byteLength(text), 0),
    0,
  );

const account = (length: number) => JSON.stringify({ context: { slot: 7 }, value: { data: 'é'.repeat(length) } });

function notifyAll(upstream: TestUpstream, length: number): void {
  for (const held of upstream.held('accountSubscribe')) upstream.notify(held, account(length));
}

/** The status of a refused upgrade. */
function refusal({ apiUrl, key }: TestDaemon): Promise<number> {
  const socket = new WebSocket(`${apiUrl.replace('http', 'ws')}/?api-key=${key}`);
  return new Promise((resolve, reject) => {
    socket.on('unexpected-response', (request, response) => {
      request.destroy();
      resolve(response.statusCode ?? 0);
    });
    socket.on('open', () => reject(new Error('the socket opened')));
    socket.on('error', () => undefined);
  });
}

test('a websocket costs 1 credit, and its notifications 2 credits per 100,000 bytes, to the byte', async (t) => {
  const bed = await startBed(t);
  const clients = [await connect(t, bed), await connect(t, bed)];
  for (const client of clients) await client.subscribe('accountSubscribe', ['x']);
  const lengths = [10, 1_000, 70_000, 33];
  for (const length of lengths) notifyAll(bed.first, length);
  await until('both have all', () => clients.every((client) => client.notifications().length === lengths.length));
  const bytes = bytesOf(clients);
  const usage = await usageOf(bed.daemon);
  assert.equal(usage.dataTransfer.laserstreamWebsocket, bytes);
  const credits = Math.round(2 * OPENED + bytes * CREDITS_PER_BYTE);
  assert.deepEqual([usage.credits.laserstreamWebsocket, usage.usage.websocket], [credits, credits]);
  assert.deepEqual([usage.credits.rpc, usage.creditsUsed], [2, credits + 2]);

  // The upstream's socket breaks: notifications of the next one are counted too, and none twice.
  bed.first.dropSockets();
  const made = () => bed.first.subscriptions.filter(({ method }) => method === 'accountSubscribe').length;
  await until('subscribed again', () => made() === 2);
  notifyAll(bed.first, 500);
  await until('both have it', () => clients.every((client) => client.notifications().length === lengths.length + 1));
  // A client disconnects: later notifications count only for the other one.
  clients[0]!.socket.terminate();
  const metrics = async () => (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  await until('it has gone', async () => /parhelion_proxy_client_sockets(\{[^}]*\})? 1$/m.test(await metrics()));
  notifyAll(bed.first, 900);
  await until('the other has it', () => clients[1]!.notifications().length === lengths.length + 2);
  const after = await usageOf(bed.daemon);
  assert.equal(after.dataTransfer.laserstreamWebsocket, bytesOf(clients));
  assert.equal(after.credits.laserstreamWebsocket, Math.round(2 * OPENED + bytesOf(clients) * CREDITS_PER_BYTE));
});

test('used up: the next notification closes the socket with 1008, a new one is refused with 429, and more credits are noticed', async (t) => {
  const bed = await startBed(t, { config: { access: { keyCacheMs: 0 } } });
  const client = await connect(t, bed);
  let reason = '';
  client.socket.on('close', (_, text) => {
    reason = String(text);
  });
  await client.subscribe('accountSubscribe', ['x']);
  // Opening and subscribing took 2; each notification costs a little more than 1.
  await setCredits(bed.daemon, 4);
  for (let sent = 0; sent < 4; sent += 1) notifyAll(bed.first, 26_000);
  assert.equal(await client.closed, 1008);
  assert.equal(reason, 'max usage reached');
  assert.equal(client.notifications().length, 1);
  assert.equal((await usageOf(bed.daemon)).dataTransfer.laserstreamWebsocket, bytesOf([client]));
  assert.equal(await refusal(bed.daemon), 429);

  await setCredits(bed.daemon, 8);
  const next = await connect(t, bed);
  await next.subscribe('accountSubscribe', ['x']);
  notifyAll(bed.first, 26_000);
  await until('it is notified', () => next.notifications().length === 1);
  // The rest (below 2) is not enough for two more; with more credits the same socket continues.
  await setCredits(bed.daemon, 1_000);
  for (let sent = 0; sent < 4; sent += 1) notifyAll(bed.first, 26_000);
  await until('all are notified', () => next.notifications().length === 5);
  assert.equal((await usageOf(bed.daemon)).dataTransfer.laserstreamWebsocket, bytesOf([client, next]));
});

test('a key limited to some products opens a websocket: its calls are checked', async (t) => {
  const bed = await startBed(t);
  const { configFile, projectId } = bed.daemon;
  const create = ['keys', 'create', '--project', projectId, '--permissions', 'das', '--json', '--config', configFile];
  const { code, out, err } = await runCommand(create);
  assert.equal(code, 0, err);
  const { key } = JSON.parse(out) as { key: string };
  const client = await connect(t, { daemon: { ...bed.daemon, key } });
  assert.equal(JSON.parse(await client.call('accountSubscribe', ['x'])).error.code, -32403);
});

async function twoDaemons(t: TestContext) {
  const database = await postgresDatabase(t);
  const upstream = await startUpstream();
  const options = {
    chain: { rpcUrl: upstream.url },
    store: database.url,
    config: { plugins: ['access', 'proxy'], follow: { enabled: false }, access: { usageFlushMs: 100 } },
  };
  const one = await startDaemon(options);
  const two = await startDaemon({ ...options, key: one.key });
  t.after(async () => {
    await one.stop();
    await two.stop();
    await upstream.stop();
  });
  return { upstream, daemons: [one, two] as const };
}

onEngine('postgres', () => {
  test('two processes on PostgreSQL count together, and exhausted credits end the sockets of both', async (t) => {
    const { upstream, daemons } = await twoDaemons(t);
    const clients = await Promise.all(daemons.map((daemon) => connect(t, { daemon })));
    for (const client of clients) await client.subscribe('accountSubscribe', ['x']);
    for (let sent = 0; sent < 5; sent += 1) notifyAll(upstream, 20_000);
    await until('both have all', () => clients.every((client) => client.notifications().length === 5));
    const written = async () => (await usageOf(daemons[0])).dataTransfer.laserstreamWebsocket;
    await until('both have written', async () => (await written()) === bytesOf(clients));
    const { creditsUsed } = await usageOf(daemons[0]);
    assert.equal(creditsUsed, Math.round(4 + bytesOf(clients) * CREDITS_PER_BYTE));

    await setCredits(daemons[0], creditsUsed + 4);
    const open = new Set(clients);
    for (const client of clients) void client.closed.then(() => open.delete(client));
    await until('both are closed', async () => {
      notifyAll(upstream, 5_000);
      await sleep(120);
      return open.size === 0;
    });
    assert.deepEqual(await Promise.all(clients.map((client) => client.closed)), [1008, 1008]);
    assert.equal((await written()) >= bytesOf(clients), true);
  });
});
