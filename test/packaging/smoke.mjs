/**
 * Uses an installed program as somebody would: `node smoke.mjs COMMAND`, such as PREFIX/bin/parhelion. Configuration, start on the local
 * chain, an airdrop, one delivery of a webhook, the wallet, health, stop; a stream that is compressed with zstd. Plain JavaScript: it runs under any Node that the program is for,
 * with nothing beside it.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Asks until `found` takes the answer; the daemon may still have to hear of a block. */
export async function until(what, ask, found) {
  for (let tries = 0; tries < 1_500; tries += 1) {
    const answer = await ask();
    if (found(answer)) return answer;
    await sleep(100);
  }
  throw new Error(`${what} did not come`);
}

function commands(run) {
  const version = run(['--version']);
  assert.equal(version.status, 0, version.stderr);
  assert.equal(run(['init']).status, 0);
  const refused = run(['check-config', '--config', 'parhelion.yaml']);
  assert.equal(refused.status, 78, refused.stderr);
  assert.match(refused.stderr, /upstream\.urls/);
  const checked = run(['check-config', '--config', 'parhelion.yaml'], { SOLANA_RPC_URL: 'http://127.0.0.1:9' });
  assert.equal(checked.status, 0, checked.stderr);
}

/** A plugin in TypeScript beside the configuration, where no package.json says what its modules are. */
function ownPlugin(run, dir) {
  const source = `import { API_VERSION, definePlugin, Type } from 'parhelion/plugin';
    const summary: string = 'one of our own';
    const config = Type.Object({}, { additionalProperties: false, default: {} });
    export default definePlugin({ id: 'own', apiVersion: API_VERSION, summary, config, provision() {} });`;
  writeFileSync(join(dir, 'own.ts'), source);
  // A plugin in JavaScript may import TypeScript too.
  writeFileSync(join(dir, 'words.ts'), `export const summary: string = 'another of our own';`);
  const other = source.replace("const summary: string = 'one of our own';", `import { summary } from './words.ts';`);
  writeFileSync(join(dir, 'other.js'), other.replace(`id: 'own'`, `id: 'other'`));
  const plugins = process.features.typescript ? '[access, ./own.ts, ./other.js]' : '[access, ./own.ts]';
  writeFileSync(join(dir, 'own.yaml'), `plugins: ${plugins}\nupstream: { urls: [http://127.0.0.1:9] }\n`);
  const listed = run(['list-plugins', '--config', 'own.yaml']);
  // Node reads TypeScript by itself from 22.18 on; before that the package tsx does, which is not installed here.
  if (process.features.typescript)
    for (const line of [/own +one of our own/, /other +another of our own/])
      assert.match(listed.stdout, line, listed.stderr);
  else assert.match(listed.stderr, /PLUGIN_NOT_FOUND.*TypeScript needs Node 22\.18 or newer, or the package tsx/);
}

async function startDaemon(parhelion, dir, env) {
  const child = spawn(parhelion, ['serve', '--data-dir', dir], {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...env,
      PARHELION_BOOTSTRAP_KEY: KEY,
      PARHELION_HTTP__PORT: '0',
      PARHELION_ADMIN__PORT: '0',
      PARHELION_UPSTREAM__LOCAL__PORT: '0',
      PARHELION_UPSTREAM__LOCAL__DEMO: 'false',
      PARHELION_WEBHOOKS__ALLOW_CIDRS: '[127.0.0.1/32]',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const gone = once(child, 'exit');
  const readRun = () => {
    assert.deepEqual([child.exitCode, child.signalCode], [null, null], 'the daemon ended');
    try {
      return JSON.parse(readFileSync(join(dir, 'run.json'), 'utf8'));
    } catch {
      return null;
    }
  };
  const { api, admin } = await until('the daemon', readRun, (found) => found !== null).catch((error) => {
    child.kill('SIGKILL');
    console.error(output);
    throw error;
  });
  const stop = async () => {
    child.kill('SIGTERM');
    const [code] = await gone;
    return { code, output };
  };
  return { api, admin, stop, kill: () => child.kill('SIGKILL') };
}

export async function startReceiver() {
  const received = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { received, url: `http://127.0.0.1:${server.address().port}/hook`, close: () => server.close() };
}

function isSigned({ headers, body }, secret) {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return headers['webhook-signature'].includes(`v1,${createHmac('sha256', key).update(text).digest('base64')}`);
}

/** 32 random bytes in base58. */
function newAddress() {
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  let text = '';
  for (let rest = BigInt(`0x01${randomBytes(31).toString('hex')}`); rest > 0n; rest /= 58n)
    text = alphabet[Number(rest % 58n)] + text;
  return text;
}

/** A webhook, an airdrop, its delivery and the wallet that got it. */
export async function use({ api, admin }, key, receiver) {
  const ask = async (path, init) => {
    const response = await fetch(api + path, { ...init, headers: { 'x-api-key': key } });
    return { status: response.status, body: await response.json() };
  };
  assert.equal(await (await fetch(`${api}/ping`)).text(), 'ok');
  assert.equal((await fetch(`${api}/docs`)).status, 200);
  assert.equal((await fetch(`${admin}/dashboard`)).status, 200);

  const address = newAddress();
  const webhook = { webhookURL: receiver.url, webhookType: 'raw', accountAddresses: [address] };
  const made = await ask('/v0/webhooks', { method: 'POST', body: JSON.stringify(webhook) });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const call = { jsonrpc: '2.0', id: 1, method: 'requestAirdrop', params: [address, 250_000_000] };
  const { result: signature } = (await ask('/', { method: 'POST', body: JSON.stringify(call) })).body;

  const delivery = await until(
    'the delivery',
    () => receiver.received[0],
    (found) => found !== undefined,
  );
  assert.ok(isSigned(delivery, made.body.signingSecret), 'the signature is wrong');
  assert.deepEqual(JSON.parse(delivery.body)[0].transaction.signatures, [signature]);
  const path = `/v1/wallet/${address}`;
  const history = await until(
    'the history',
    () => ask(`${path}/history`),
    ({ body }) => body.data?.length === 1,
  );
  assert.equal(history.body.data[0].signature, signature);
  const balances = await until(
    'the balance',
    () => ask(`${path}/balances`),
    ({ body }) => body.balances?.[0].balance > 0,
  );
  assert.equal(balances.body.balances[0].balance, 0.25);
}

const KEY = 'smoke-key';

/** A free port, for a moment. */
async function freePort() {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

/** A message as a frame of zstd with one block that is not compressed. */
function zstdFrame(message) {
  const block = message.length * 8 + 1;
  return Buffer.concat([Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0x20, message.length, block & 255, block >> 8, 0), message]);
}

/** `{ transactions: { a: {} }, commitment: CONFIRMED }` of Yellowstone. */
const SUBSCRIBE = Buffer.from('1a050a016112003001', 'hex');
const ZSTD_MAGIC = Buffer.of(0x28, 0xb5, 0x2f, 0xfd);

/** A subscription over gRPC whose messages are compressed with zstd, in both directions. */
async function subscribe({ api }, port) {
  const session = connect(`http://127.0.0.1:${port}`);
  const stream = session.request({
    ':method': 'POST',
    ':path': '/geyser.Geyser/Subscribe',
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-token': KEY,
    'grpc-encoding': 'zstd',
    'grpc-accept-encoding': 'identity,zstd',
  });
  let bytes = Buffer.alloc(0);
  stream.on('data', (chunk) => (bytes = Buffer.concat([bytes, chunk])));
  const request = zstdFrame(SUBSCRIBE);
  const head = Buffer.of(1, 0, 0, 0, request.length);
  stream.write(Buffer.concat([head, request]));
  const [headers] = await once(stream, 'response');
  assert.equal(headers['grpc-encoding'], 'zstd', JSON.stringify(headers));
  await until(
    'a compressed update',
    async () => {
      const call = { jsonrpc: '2.0', id: 1, method: 'requestAirdrop', params: [newAddress(), 250_000_000] };
      await fetch(api, { method: 'POST', headers: { 'x-api-key': KEY }, body: JSON.stringify(call) });
      return bytes;
    },
    (found) => found[0] === 1 && found.subarray(5, 9).equals(ZSTD_MAGIC),
  );
  session.destroy();
}

/** Streams need a plugin that is not loaded by default. */
async function streams(parhelion, dir, env) {
  const port = await freePort();
  const more = { PARHELION_PLUGINS: '[access, proxy, streams]', PARHELION_STREAMS__GRPC__PORT: String(port) };
  const folder = join(dir, 'streams');
  mkdirSync(folder);
  const daemon = await startDaemon(parhelion, folder, { ...env, ...more });
  try {
    await subscribe(daemon, port);
    const { code, output } = await daemon.stop();
    assert.equal(code, 0, output);
  } catch (error) {
    const { output } = await daemon.stop();
    console.error(output);
    throw error;
  } finally {
    daemon.kill();
  }
}

async function main(parhelion) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-smoke-'));
  // Without a configuration file, also where `init` wrote one.
  const env = { PATH: process.env.PATH, HOME: dir, PARHELION_CONFIG: '' };
  const run = (args, more = {}) => spawnSync(parhelion, args, { cwd: dir, env: { ...env, ...more }, encoding: 'utf8' });
  commands(run);
  ownPlugin(run, dir);
  const receiver = await startReceiver();
  const daemon = await startDaemon(parhelion, dir, env);
  try {
    assert.equal(run(['healthcheck', '--data-dir', dir]).status, 0);
    await use(daemon, KEY, receiver);
    const { code, output } = await daemon.stop();
    assert.equal(code, 0, output);
    await streams(parhelion, dir, env);
  } catch (error) {
    const { output } = await daemon.stop();
    console.error(output);
    throw error;
  } finally {
    daemon.kill();
    receiver.close();
    rmSync(dir, { recursive: true, force: true });
  }
  console.log(`Node ${process.version}: start, delivery, wallet, stop and a stream with zstd are fine`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2]);
