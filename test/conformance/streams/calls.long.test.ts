/** Calls: who may make them, what ends them, and how they are carried. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { Keypair } from '@solana/web3.js';
import { zstdDecompress, zstdFrame } from '../../../src/lib/zstd.ts';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { geyserMissing, loadClient } from '../../helpers/geyser.ts';
import { GEYSER_DIR } from '../../helpers/packages.ts';
import {
  type Json,
  type RawCall,
  type RawOptions,
  readUpdates,
  requestOf,
  type StreamBed,
  startBed,
} from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const address = () => Keypair.generate().publicKey.toBase58();
const ALL = { transactions: { all: {} }, slots: { s: {} }, commitment: 1 };

async function command({ daemon }: StreamBed, ...args: string[]): Promise<Json> {
  const { code, out, err } = await runCommand([...args, '--json', '--config', daemon.configFile]);
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

const WAIT_MS = 60_000;

async function until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < WAIT_MS; await sleep(10))
    if (await check()) return;
  throw new Error(`waited in vain: ${what}`);
}

/** Opens a subscription and waits until the daemon has it. */
async function open(bed: StreamBed, options: RawOptions = {}): Promise<RawCall> {
  const call = bed.raw('Subscribe', [ALL, { ping: { id: 1 } }], options);
  await until('a pong', () => call.messages.some((one) => updateOf(one).pong !== undefined));
  return call;
}

/** An update of protobuf bytes. */
const updateOf = (bytes: Buffer): Json =>
  (loadClient('@triton-one/yellowstone-grpc') as Json).SubscribeUpdate.decode(bytes);

async function metric({ daemon }: StreamBed, name: string): Promise<number> {
  const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  return Number(new RegExp(`^parhelion_streams_${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

/** The whole frames of gRPC among these bytes. */
function framesOf(bytes: Buffer): { readonly mark: number; readonly body: Buffer }[] {
  const frames = [];
  for (let at = 0, end = 0; at + 5 <= bytes.length; at = end) {
    end = at + 5 + bytes.readUInt32BE(at + 1);
    if (end <= bytes.length) frames.push({ mark: bytes[at]!, body: bytes.subarray(at + 5, end) });
  }
  return frames;
}

describe('calls', { skip, timeout: 240_000 }, () => {
  test('the unary methods answer like the node', async (t) => {
    const bed = await startBed(t);
    await bed.chain.seal(40);
    const client = await bed.connect();
    const { version } = await client.getVersion();
    assert.equal(JSON.parse(version).version.package, 'parhelion');
    assert.deepEqual(await client.ping(41), { count: 41 });
    assert.deepEqual(await client.subscribeReplayInfo(), { firstAvailable: undefined });
    for (const [number, commitment] of (['processed', 'confirmed', 'finalized'] as const).entries()) {
      const { connection } = bed.chain;
      assert.equal(Number((await client.getSlot(number)).slot), await connection.getSlot(commitment));
      assert.equal(
        Number((await client.getBlockHeight(number)).blockHeight),
        await connection.getBlockHeight(commitment),
      );
      const theirs = await connection.getLatestBlockhash(commitment);
      const ours = await client.getLatestBlockhash(number);
      assert.deepEqual({ blockhash: ours.blockhash, lastValidBlockHeight: Number(ours.lastValidBlockHeight) }, theirs);
      assert.equal((await client.isBlockhashValid(theirs.blockhash, number)).valid, true);
    }
    assert.equal((await client.isBlockhashValid(address(), 1)).valid, false);
    await assert.rejects(client.isBlockhashValid('no hash', 1));
    const unknown = await bed.raw('SubscribeDeshred', [Buffer.alloc(0)]).status;
    assert.deepEqual(
      [unknown.code, unknown.details],
      [12, 'SubscribeDeshred: transactions before their execution are not available from this server'],
    );
  });

  test('unary methods can be switched off', async (t) => {
    const bed = await startBed(t, { grpc: { unary: false } });
    const { code, details } = await bed.raw('GetSlot', [Buffer.alloc(0)]).status;
    assert.deepEqual([code, details], [12, 'method disabled']);
  });

  test('a key is needed, with the permission; one that is revoked ends its streams', async (t) => {
    const bed = await startBed(t);
    for (const token of [null, 'wrong', 'test-00000000-0000-0000-0000-000000000000']) {
      for (const method of ['Subscribe', 'GetSlot']) {
        const { code, details } = await bed.raw(method, [Buffer.alloc(0)], { token }).status;
        assert.deepEqual([code, details], [16, 'No valid auth token']);
      }
    }
    const make = async (...more: string[]) =>
      await command(bed, 'keys', 'create', '--project', bed.daemon.projectId, '--name', 'a', ...more);
    const limited = await make('--permissions', 'rpc');
    const { code, details } = await bed.raw('Subscribe', [ALL], { token: limited.key }).status;
    assert.deepEqual([code, details], [7, 'the key has no permission for streams']);
    const { key, id } = await make('--permissions', 'laserstreamGrpc');
    const bearer = bed.raw('GetVersion', [Buffer.alloc(0)], {
      token: null,
      metadata: { authorization: `Bearer ${key}` },
    });
    assert.equal((await bearer.status).code, 0);
    const call = await open(bed, { token: key });
    const updates = await bed.subscribe(ALL, key);
    await command(bed, 'keys', 'revoke', '--id', id);
    const end = await call.status;
    assert.deepEqual([end.code, end.details], [16, 'No valid auth token']);
    assert.match((await updates.ended()).message, /stream receive failed/);
  });

  test('updates cost credits by their bytes, and their end ends the stream', async (t) => {
    const bed = await startBed(t, { credits: { data: 100_000 } });
    const usage = async () => {
      const url = `${bed.daemon.apiUrl}/v0/admin/projects/${bed.daemon.projectId}/usage`;
      const response = await fetch(url, { headers: { 'X-Api-Key': bed.daemon.key } });
      assert.equal(response.status, 200);
      return (await response.json()) as Json;
    };
    const call = await open(bed);
    for (let i = 0; i < 3; i++) await bed.chain.fund(address(), 1_000_000);
    const sent = () =>
      call.messages
        .filter((one) => updateOf(one).pong === undefined && updateOf(one).ping === undefined)
        .reduce((sum, one) => sum + one.length + 5, 0);
    const transactions = () => call.messages.filter((one) => updateOf(one).transaction !== undefined).length;
    let first: Json;
    // Statuses of finality may still be on their way.
    await until('three transactions, and the bytes of all updates', async () => {
      if (transactions() < 3) return false;
      // The endpoint takes five calls a second.
      await sleep(250);
      first = await usage();
      return first.dataTransfer.laserstreamGrpc === sent();
    });
    const bytes = sent();
    assert.equal(first.credits.laserstreamGrpc, bytes);
    const limit = ['--override', JSON.stringify({ creditsLimit: Math.ceil(first.creditsUsed) + 1_500 })];
    await command(bed, 'projects', 'set-plan', '--id', bed.daemon.projectId, ...limit);
    // The daemon notices the new limit within a second.
    await until('the end', async () => {
      await bed.chain.fund(address(), 1_000_000);
      return (await Promise.race([call.status, sleep(50)])) !== undefined;
    });
    const { code, details } = await call.status;
    assert.deepEqual([code, details], [8, 'max usage reached']);
    const end = await usage();
    assert.equal(end.credits.laserstreamGrpc, end.dataTransfer.laserstreamGrpc);
  });

  test('an ended subscription frees its place; a request that is too large is refused', async (t) => {
    const bed = await startBed(t, { grpc: { maxRequestBytes: 10_000 } });
    const budget = ['--override', JSON.stringify({ budgets: { streams: 1 } })];
    await command(bed, 'projects', 'set-plan', '--id', bed.daemon.projectId, ...budget);
    const list = { transactions: { a: { accountInclude: Array.from({ length: 400 }, address) } } };
    const large = await bed.raw('Subscribe', [list]).status;
    assert.equal(large.code, 8);
    assert.match(large.details, /^a message of \d+ bytes is larger than 10000$/);
    for (let round = 0; round < 2; round += 1) {
      const held = await open(bed);
      held.stream.cancel();
      await until('it has gone', async () => (await metric(bed, 'readers')) === 0);
    }
  });

  test('a reader that stops is cut with its status, and the others get everything', async (t) => {
    const bed = await startBed(t, { grpc: { maxQueuedBytes: 100_000 } });
    const session = connectHttp2(bed.url, { settings: { initialWindowSize: 1_000 } });
    t.after(() => session.destroy());
    const headers = {
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
    };
    const stalled = session.request({ ...headers, 'x-token': bed.daemon.key });
    const { SubscribeRequest } = loadClient('@triton-one/yellowstone-grpc') as Json;
    const request = Buffer.from(SubscribeRequest.encode(SubscribeRequest.fromPartial(requestOf(ALL))).finish());
    const head = Buffer.alloc(5);
    head.writeUInt32BE(request.length, 1);
    stalled.write(Buffer.concat([head, request]));
    stalled.pause();
    const trailers = new Promise<Json>((resolve) => stalled.once('trailers', resolve));
    const other = await bed.subscribe(ALL);
    let sent = 0;
    await until('it is cut', async () => {
      for (let i = 0; i < 10; i++) await bed.chain.fund(address(), 1_000_000);
      sent += 10;
      return (await metric(bed, 'sent_bytes_total')) > 250_000;
    });
    stalled.resume();
    const { 'grpc-status': status, 'grpc-message': message } = await Promise.race([trailers, sleep(20_000, {})]);
    assert.deepEqual([status, message], ['13', 'lagged to send an update']);
    await other.of('transaction', sent);
    assert.equal(other.error, null);
    other.close();
  });

  test('a drain ends streams with a status and tells clients to go elsewhere', async (t) => {
    const bed = await startBed(t);
    const call = await open(bed);
    const session = connectHttp2(bed.url);
    t.after(() => session.destroy());
    const goaway = new Promise<number>((resolve) => session.once('goaway', resolve));
    await bed.subscribe(ALL);
    const stopped = bed.daemon.stop();
    const { code, details } = await call.status;
    assert.deepEqual([code, details], [14, 'server is shutting down try again later']);
    assert.equal(await goaway, 0);
    await stopped;
    await assert.rejects(bed.connect());
  });

  test('gzip in both directions', async (t) => {
    const bed = await startBed(t);
    const call = await open(bed, { compression: 'gzip' });
    const plain = await bed.subscribe(ALL);
    await bed.chain.fund(address(), 1_000_000);
    const [theirs] = await plain.of('transaction', 1);
    await until('a transaction', () => call.messages.some((one) => updateOf(one).transaction !== undefined));
    const ours = call.messages.map(updateOf).find(({ transaction }) => transaction !== undefined);
    assert.deepEqual(ours.transaction, theirs.transaction);
    call.stream.cancel();
    plain.close();
    // The bytes on the wire: frames with the mark of compression.
    const session = connectHttp2(bed.url);
    t.after(() => session.destroy());
    const headers = { ':method': 'POST', ':path': '/geyser.Geyser/Subscribe', 'content-type': 'application/grpc' };
    const stream = session.request({ ...headers, 'x-token': bed.daemon.key, 'grpc-accept-encoding': 'identity,gzip' });
    const { SubscribeRequest } = loadClient('@triton-one/yellowstone-grpc') as Json;
    const request = Buffer.from(SubscribeRequest.encode(SubscribeRequest.fromPartial(requestOf(ALL))).finish());
    stream.write(Buffer.concat([Buffer.of(0, 0, 0, 0, request.length), request]));
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    const response = await new Promise<Json>((resolve) => stream.once('response', resolve));
    assert.equal(response['grpc-encoding'], 'gzip');
    await until('it is open', async () => (await metric(bed, 'subscriptions_total')) === 3);
    await bed.chain.fund(address(), 1_000_000);
    // Small updates, such as pings, are sent as they are.
    const frames = () => framesOf(Buffer.concat(chunks));
    await until('a compressed update', () => frames().some(({ mark }) => mark === 1));
    const { body } = frames().find(({ mark }) => mark === 1)!;
    assert.ok(updateOf(gunzipSync(body)).transaction !== undefined);
  });

  test('zstd in both directions, with the client of Yellowstone', async (t) => {
    const bed = await startBed(t);
    const zstd = 1;
    const packed = await bed.connect(bed.daemon.key, { grpcDefaultCompressionAlgorithm: zstd });
    // Its request is large enough to be worth it, and its updates too.
    const accounts = Array.from({ length: 500 }, address);
    const many = { ...ALL, transactions: { all: {}, some: { accountInclude: accounts } } };
    const ours = await readUpdates(await packed.subscribe(), requestOf(many));
    await ours.settled();
    const plain = await bed.subscribe(many);
    for (let count = 0; count < 5; count += 1) await bed.chain.fund(accounts[count]!, 1_000_000);
    const [received, wanted] = [await ours.of('transaction', 5), await plain.of('transaction', 5)];
    // The client sends its filters in any order.
    const contentOf = ({ transaction, filters }: Json) => [transaction, [...filters].sort()];
    assert.deepEqual(received.map(contentOf), wanted.map(contentOf));
    assert.equal((await packed.getVersion()).version, (await (await bed.connect()).getVersion()).version);
    ours.close();
    plain.close();
    // The bytes on the wire.
    const session = connectHttp2(bed.url);
    t.after(() => session.destroy());
    const headers = { ':method': 'POST', ':path': '/geyser.Geyser/Subscribe', 'content-type': 'application/grpc' };
    const stream = session.request({
      ...headers,
      'x-token': bed.daemon.key,
      'grpc-accept-encoding': 'identity,zstd',
      'grpc-encoding': 'zstd',
    });
    const { SubscribeRequest } = loadClient('@triton-one/yellowstone-grpc') as Json;
    const request = zstdFrame(SubscribeRequest.encode(SubscribeRequest.fromPartial(requestOf(many))).finish());
    const head = Buffer.of(1, 0, 0, 0, 0);
    head.writeUInt32BE(request.length, 1);
    stream.write(Buffer.concat([head, request]));
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    const response = await new Promise<Json>((resolve) => stream.once('response', resolve));
    assert.equal(response['grpc-encoding'], 'zstd');
    assert.equal(response['grpc-accept-encoding'], 'identity,zstd,gzip');
    await until('it is open', async () => (await metric(bed, 'subscriptions_total')) === 3);
    await bed.chain.fund(accounts[7]!, 1_000_000);
    const frames = () => framesOf(Buffer.concat(chunks));
    await until('a compressed update', () => frames().some(({ mark }) => mark === 1));
    const { body } = frames().find(({ mark }) => mark === 1)!;
    const update = updateOf(zstdDecompress(body, 1_000_000));
    assert.deepEqual([update.transaction !== undefined, update.filters], [true, ['all', 'some']]);
  });

  test('TLS', { skip: opensslMissing() ?? false }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-streams-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const { cert, key } = makeCertificate();
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key);
    const bed = await startBed(t, { grpc: { tls: { certFile, keyFile } } });
    const { code } = await bed.raw('GetVersion', [Buffer.alloc(0)], { ca: Buffer.from(cert) }).status;
    assert.equal(code, 0);
    writeFileSync(keyFile, makeCertificate().key);
    const check = await runCommand(['check-config', '--config', bed.daemon.configFile]);
    assert.equal(check.code, 78);
    assert.match(check.err, /streams\.grpc\.tls/);
  });

  function startExample(t: TestContext, bed: StreamBed, words: Readonly<Record<string, string>>) {
    let text = readFileSync(join(GEYSER_DIR, 'watch.mjs'), 'utf8');
    for (const [word, value] of Object.entries({ 'http://127.0.0.1:10000': bed.url, ...words }))
      text = text.replace(`'${word}'`, `'${value}'`);
    const file = join(GEYSER_DIR, `watch-${bed.port}-${words['ADDRESS']}.mjs`);
    writeFileSync(file, text);
    t.after(() => rmSync(file, { force: true }));
    const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => child.kill());
    const seen = { out: '', err: '', code: null as number | null };
    child.stdout.on('data', (chunk: Buffer) => {
      seen.out += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      seen.err += chunk.toString();
    });
    child.on('exit', (code) => {
      seen.code = code;
    });
    return seen;
  }

  test('the example of the page runs, and says why its subscription has ended', async (t) => {
    const bed = await startBed(t);
    const wallet = address();
    const allowed = startExample(t, bed, { KEY: bed.daemon.key, ADDRESS: wallet });
    await until('a line', async () => {
      await bed.chain.fund(wallet, 1_000_000);
      return /^\d+ /m.test(allowed.out);
    });
    const refused = startExample(t, bed, { KEY: bed.daemon.key, ADDRESS: 'nobody' });
    await until('the end', async () => refused.code !== null);
    assert.match(refused.err, /^the subscription has ended: .*not 32 bytes in base58/m);
    assert.doesNotMatch(refused.err, /\n {4}at /, 'no stack of an error that nobody listens to');
    assert.equal(refused.code, 1);
  });

  test('the LaserStream client reads the same updates, from a daemon with threads', async (t) => {
    const chain = await startChain();
    const port = await freePort();
    const daemon = await startDaemonProcess({
      chain: { rpcUrl: chain.rpcUrl },
      config: { plugins: ['access', 'streams'], streams: { grpc: { port } } },
    });
    t.after(async () => {
      await daemon.stop();
      await chain.stop();
    });
    const { subscribe } = loadClient('helius-laserstream') as Json;
    const updates: Json[] = [];
    const errors: Error[] = [];
    const config = { apiKey: daemon.key, endpoint: `http://127.0.0.1:${port}`, replay: false };
    const wallet = address();
    const request = {
      transactions: { mine: { accountInclude: [wallet], accountExclude: [], accountRequired: [] } },
      commitment: 1,
    };
    const handle = await subscribe(
      config,
      { ...request, accounts: {}, slots: { s: {} } },
      (one: Json) => updates.push(one),
      (error: Error) => errors.push(error),
    );
    await until('a slot', async () => {
      await chain.seal();
      return updates.some(({ slot }) => slot);
    });
    // Only the thread with the follower knows that something listens to blocks.
    await until('the place of the follower in the readiness', async () => {
      const { chain: chains } = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as Json;
      return chains[0].cursorSlot !== null && chains[0].lagSlots !== null;
    });
    await chain.fund(wallet, 1_000_000);
    await until('the transaction', () => updates.some(({ transaction }) => transaction));
    const found = updates.find(({ transaction }) => transaction);
    assert.deepEqual(found.filters, ['mine']);
    assert.deepEqual(errors, []);
    handle.cancel();
  });

  test('the LaserStream client, which does not come back after an orderly end, comes back after a stop of the daemon', async (t) => {
    const chain = await startChain();
    const place = {
      chain: { rpcUrl: chain.rpcUrl },
      config: { plugins: ['access', 'streams'], streams: { grpc: { port: await freePort() } } },
      dataDir: mkdtempSync(join(tmpdir(), 'parhelion-laserstream-')),
    };
    let daemon = await startDaemonProcess(place);
    const { subscribe } = loadClient('helius-laserstream') as Json;
    const slots: number[] = [];
    const errors: string[] = [];
    const handle = await subscribe(
      { apiKey: daemon.key, endpoint: `http://127.0.0.1:${place.config.streams.grpc.port}`, replay: false },
      { slots: { s: {} }, transactions: {}, accounts: {}, commitment: 1 },
      ({ slot }: Json) => void (slot && slots.push(Number(slot.slot))),
      (error: Error) => errors.push(error.message),
    );
    t.after(async () => {
      handle.cancel();
      await daemon.stop();
      await chain.stop();
      rmSync(place.dataDir, { recursive: true, force: true });
    });
    const newSlot = async (what: string) => {
      const from = await chain.connection.getSlot('processed');
      await until(what, async () => {
        await chain.seal();
        return slots.some((slot) => slot > from);
      });
    };
    await newSlot('a slot');
    assert.equal(await daemon.stop(), 0);
    daemon = await startDaemonProcess({ ...place, key: daemon.key });
    await newSlot(`a slot after the stop; the client said: ${errors.join('; ')}`);
  });
});
