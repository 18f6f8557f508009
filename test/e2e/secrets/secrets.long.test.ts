import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import WebSocket from 'ws';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';

/** Each in a place of its own, so that a finding tells where it came from. */
const SECRETS = {
  upstreamPath: 'hush-upstream-path',
  upstreamQuery: 'hush-upstream-query',
  upstreamHeader: 'hush-upstream-header',
  upstreamSocket: 'hush-upstream-socket',
  deadPath: 'hush-dead-path',
  deadQuery: 'hush-dead-query',
  senderQuery: 'hush-sender-query',
  bootstrapKey: 'hush-bootstrap-key',
  wrongKeyInQuery: 'hush-wrong-key-query',
  wrongKeyInHeader: 'hush-wrong-key-header',
  wrongBearer: 'hush-wrong-bearer',
  authHeader: 'hush-auth-header',
  hookPath: 'hush-hook-path',
  hookQuery: 'hush-hook-query',
} as const;
const ROOT = '/v0/webhooks';

interface Bed {
  readonly daemon: DaemonProcess;
  readonly receiver: Receiver;
  readonly fund: (address: string) => Promise<unknown>;
  readonly chainStop: () => Promise<void>;
  /** What anybody but the owner of the secret may read. */
  readonly seen: Map<string, string>;
}

async function setUp(t: TestContext): Promise<Bed> {
  const chain = await startChain();
  t.after(() => chain.stop());
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  const url = `${chain.rpcUrl}/${SECRETS.upstreamPath}?api-key=${SECRETS.upstreamQuery}`;
  const headers = { 'x-token': SECRETS.upstreamHeader };
  const websocketUrl = `${chain.wsUrl}/?token=${SECRETS.upstreamSocket}`;
  const dead = `http://127.0.0.1:9/${SECRETS.deadPath}?token=${SECRETS.deadQuery}`;
  const daemon = await startDaemonProcess({
    key: SECRETS.bootstrapKey,
    chain: { rpcUrl: chain.rpcUrl },
    config: {
      log: { level: 'trace', format: 'json' },
      upstream: { urls: [{ url, headers, websocketUrl }, dead] },
      sender: { urls: [`http://127.0.0.1:9/?api-key=${SECRETS.senderQuery}`] },
      webhooks: { allowCidrs: ['127.0.0.1/32'] },
    },
  });
  t.after(() => daemon.stop());
  return { daemon, receiver, fund: (to) => chain.fund(to, 1_000_000_000), chainStop: chain.stop, seen: new Map() };
}

async function ask({ daemon, seen }: Bed, what: string, path: string, init: RequestInit = {}, record = true) {
  const response = await fetch(daemon.apiUrl + path, init);
  const text = await response.text();
  if (record) seen.set(what, `${JSON.stringify([...response.headers])}\n${text}`);
  return { status: response.status, text };
}

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body: typeof body === 'string' ? body : JSON.stringify(body),
  headers,
});
const call = (method: string, params: unknown[] = []) => ({ jsonrpc: '2.0', id: 1, method, params });

/** Requests of all kinds, good and bad. */
async function useRpc(bed: Bed): Promise<void> {
  const withKey = `/?api-key=${SECRETS.bootstrapKey}`;
  assert.equal((await ask(bed, 'rpc', withKey, post(call('getSlot')))).status, 200);
  assert.equal((await ask(bed, 'cached', withKey, post(call('getGenesisHash')))).status, 200);
  await ask(bed, 'batch', withKey, post([call('getSlot'), call('nothingLikeThis'), 7]));
  await ask(bed, 'bad JSON', withKey, post('{'));
  await ask(bed, 'bad escape', `/v0/webhooks/%zz?api-key=${SECRETS.bootstrapKey}`);
  await ask(bed, 'unknown path', `/nothing?api-key=${SECRETS.bootstrapKey}`);
  const key = SECRETS.wrongKeyInQuery;
  assert.equal((await ask(bed, 'wrong query', `/?api-key=${key}`, post(call('getSlot')))).status, 401);
  assert.equal((await ask(bed, 'escaped name', `${ROOT}?api%2Dkey=${key}`)).status, 401);
  const header = { 'x-api-key': SECRETS.wrongKeyInHeader };
  assert.equal((await ask(bed, 'wrong header', ROOT, { headers: header })).status, 401);
  const bearer = { authorization: `Bearer ${SECRETS.wrongBearer}` };
  assert.equal((await ask(bed, 'wrong bearer', ROOT, { headers: bearer })).status, 401);
  await ask(bed, 'fast', `/fast?api-key=${SECRETS.bootstrapKey}`, post(call('sendTransaction', ['AAAA'])));
  await useSocket(bed);
}

async function useSocket({ daemon, seen }: Bed): Promise<void> {
  const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${SECRETS.bootstrapKey}`);
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send(JSON.stringify(call('slotSubscribe')));
  const first = await new Promise<string>((resolve) => socket.once('message', (data) => resolve(String(data))));
  seen.set('socket', first);
  socket.terminate();
  const refused = new WebSocket(`${daemon.wsUrl}/?api-key=${SECRETS.wrongKeyInQuery}`);
  const [error] = await new Promise<[Error]>((resolve) => refused.once('error', (e) => resolve([e])));
  assert.match(error.message, /401/);
}

/** A webhook whose first delivery fails and whose second is taken. Returns its signing secrets. */
async function useWebhook(bed: Bed): Promise<readonly string[]> {
  const { receiver } = bed;
  const watched = Keypair.generate().publicKey.toBase58();
  const auth = { 'x-api-key': SECRETS.bootstrapKey };
  const body = {
    webhookURL: `${receiver.url}/${SECRETS.hookPath}?token=${SECRETS.hookQuery}`,
    webhookType: 'raw',
    accountAddresses: [watched],
    authHeader: `Bearer ${SECRETS.authHeader}`,
  };
  const made = JSON.parse((await ask(bed, 'create', ROOT, post(body, auth), false)).text) as Record<string, string>;
  const one = `${ROOT}/${made['webhookID']}`;
  const rotated = JSON.parse((await ask(bed, 'rotate', `${one}/secret/rotate`, post({}, auth), false)).text) as Record<
    string,
    string
  >;
  assert.match(made['signingSecret']!, /^whsec_/);
  assert.match(rotated['signingSecret']!, /^whsec_/);
  receiver.script({ kind: 'reset', at: 'headers' }, answer(500, {}, 'no'));
  await ask(bed, 'test event', `${one}/test`, post({}, auth));
  await bed.fund(watched);
  const all = await receiver.waitFor(2);
  assert.ok(all.every(({ headers }) => headers.authorization === `Bearer ${SECRETS.authHeader}`));
  for (let tries = 0; tries < 100 && !/"attempts"?/.test(bed.seen.get('deliveries') ?? ''); tries++) {
    await sleep(50);
    await ask(bed, 'deliveries', `${one}/deliveries`, { headers: auth });
  }
  await ask(bed, 'bad target', ROOT, post({ ...body, webhookURL: `http://10.0.0.1/${SECRETS.hookPath}` }, auth));
  await ask(bed, 'bad field', one, { ...post({ ...body, webhookType: 'nope' }, auth), method: 'PUT' });
  assert.equal((await ask(bed, 'delete', one, { method: 'DELETE', headers: auth })).status, 200);
  return [made['signingSecret']!, rotated['signingSecret']!].map((secret) => secret.slice('whsec_'.length));
}

/** Pages, commands and a refused reload. */
async function lookAround({ daemon, seen }: Bed): Promise<void> {
  for (const path of ['/healthz', '/readyz', '/metrics'])
    seen.set(path, await (await fetch(daemon.adminUrl + path)).text());
  for (const path of ['/openapi.json', '/docs']) seen.set(path, await (await fetch(daemon.apiUrl + path)).text());
  seen.set('run file', readFileSync(join(daemon.dataDir, 'run.json'), 'utf8'));
  const run = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--config', daemon.configFile]);
    seen.set(args.join(' '), `${code}\n${out}\n${err}`);
  };
  for (const command of ['dump-config', 'check-config', 'list-plugins', 'openapi', 'status']) await run(command);
  for (const command of ['keys', 'projects']) await run(command, 'list', '--json');
  await run('dump-config', '--format', 'json');
  await run('status', '--json');
  const config = JSON.parse(readFileSync(daemon.configFile, 'utf8')) as { upstream: { urls: unknown[] } };
  const broken = { ...config, upstream: { urls: [...config.upstream.urls, { uri: SECRETS.deadQuery }], colour: 1 } };
  writeFileSync(daemon.configFile, JSON.stringify(broken));
  daemon.child.kill('SIGHUP');
  for (let tries = 0; tries < 100 && !daemon.output().includes('not reloaded'); tries++) await sleep(50);
  await run('check-config');
  writeFileSync(daemon.configFile, `{"upstream": {"urls": ["http://x/${SECRETS.deadPath}", ]], "log": }`);
  await run('check-config');
  writeFileSync(daemon.configFile, JSON.stringify(config));
}

const missing = await chainMissing();

test('no secret in logs at trace, metrics, errors, dumps, documents and files', {
  skip: missing ?? false,
}, async (t) => {
  const bed = await setUp(t);
  const { daemon, seen } = bed;
  await useRpc(bed);
  const signing = await useWebhook(bed);
  await lookAround(bed);
  await bed.chainStop();
  const gone = await ask(bed, 'no upstream', `/?api-key=${SECRETS.bootstrapKey}`, post(call('getSlot')));
  assert.equal(gone.status, 503, gone.text);
  seen.set('/readyz, not ready', await (await fetch(`${daemon.adminUrl}/readyz`)).text());
  assert.equal(await daemon.stop(), 0);
  seen.set('log', daemon.output());

  // The search is worth something only if there is something to search.
  assert.ok(daemon.output().split('\n').length > 30, daemon.output());
  assert.match(daemon.output(), /api-key=\*\*\*/);
  assert.match(daemon.output(), /webhook deleted/);
  assert.match(seen.get('/metrics')!, /parhelion_webhooks_/);
  const secrets: [string, string][] = [...Object.entries(SECRETS), ...signing.entries()].map(([name, value]) => [
    `signing ${name}`.replace(/^signing (?!\d)/, ''),
    value,
  ]);
  const found = [...seen].flatMap(([place, text]) =>
    secrets.filter(([, value]) => text.includes(value)).map(([name]) => `${name} in ${place}`),
  );
  assert.deepEqual(found, []);
});
