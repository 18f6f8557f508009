/** What one client can take from the others over gRPC: each test has one that takes all it can get, and one that goes on. */
import assert from 'node:assert/strict';
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Keypair } from '@solana/web3.js';
import { ProtobufWriter } from '../../../src/lib/protobuf.ts';
import { zstdFrame } from '../../../src/lib/zstd.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { geyserMissing } from '../../helpers/geyser.ts';
import { type Json, type StreamBed, startBed } from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const ROOMS = { streams: 12, streamFilters: 200, streamFilterBytes: 4_000_000 };
const CONNECTIONS = 16;
const PER_ADDRESS = 12;
const WAIT_MS = 60_000;
/** Of all transactions and slots, at `confirmed`. */
const ALL = request((to) => {
  entry(to, 3, 'all');
  entry(to, 2, 's');
  to.uint(6, 1);
});

const ends: (() => void)[] = [];
let bed: StreamBed;
let stop: () => Promise<void>;

before(async () => {
  if (skip !== false) return;
  bed = await startBed(
    {
      after(end) {
        stop = end as () => Promise<void>;
      },
    },
    {
      grpc: { maxConnections: CONNECTIONS },
      config: {
        budgets: ROOMS,
        http: {
          maxConnectionsPerAddress: PER_ADDRESS,
          trustedProxies: ['127.0.0.9/32'],
          requestTimeoutMs: 1_000,
          readWindowMs: 1_500,
          minReadBytesPerSecond: 16_384,
        },
      },
    },
  );
});
after(async () => {
  for (const end of ends) end();
  await stop?.();
});

function request(write: (to: ProtobufWriter) => void): Buffer {
  const writer = new ProtobufWriter();
  write(writer);
  return writer.take();
}

/** An entry of a map of filters, with members of its filter. */
function entry(
  to: ProtobufWriter,
  field: number,
  label: string,
  filter: (to: ProtobufWriter) => void = () => {},
): void {
  const of = to.begin(field);
  to.text(1, label);
  const value = to.begin(2);
  filter(to);
  to.end(value);
  to.end(of);
}

const framed = (message: Buffer, isPacked = false): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = isPacked ? 1 : 0;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

interface Call {
  readonly stream: ClientHttp2Stream;
  readonly session: ClientHttp2Session;
  /** Number of its answers so far, and bytes. */
  readonly bytes: () => number;
  readonly status: Promise<readonly [number, string]>;
}

interface CallOptions {
  readonly token?: string | null;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The address that it comes from. */
  readonly from?: string;
  readonly session?: ClientHttp2Session;
  readonly settings?: object;
}

function openSession(from = '127.0.0.1', settings: object = {}): ClientHttp2Session {
  const session = connectHttp2(bed.url, {
    settings,
    createConnection: () => connectTcp({ host: '127.0.0.1', port: bed.port, localAddress: from }),
  });
  session.on('error', () => undefined);
  ends.push(() => session.destroy());
  return session;
}

function call(messages: readonly Buffer[], options: CallOptions = {}): Call {
  const session = options.session ?? openSession(options.from, options.settings);
  const { token = bed.daemon.key, method = 'Subscribe', headers = {} } = options;
  const stream = session.request({
    ':method': 'POST',
    ':path': `/geyser.Geyser/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...(token === null ? {} : { 'x-token': token }),
    ...headers,
  });
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  const status = new Promise<readonly [number, string]>((resolve) => {
    const tell = (given: Json) =>
      given['grpc-status'] === undefined
        ? undefined
        : resolve([Number(given['grpc-status']), decodeURIComponent(String(given['grpc-message'] ?? ''))]);
    stream.on('response', tell);
    stream.on('trailers', tell);
    stream.on('error', () => resolve([-1, 'broken']));
    stream.on('close', () => resolve([-2, 'closed']));
  });
  for (const message of messages) stream.write(message);
  if (method !== 'Subscribe') stream.end();
  return { stream, session, bytes: () => bytes, status };
}

async function until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < WAIT_MS; await sleep(10))
    if (await check()) return;
  throw new Error(`waited in vain: ${what}`);
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`parhelion_${name} `));
  return Number(line?.split(' ').at(-1));
}
const used = (budget: string) => metric(`budget_used{budget="${budget}"}`);

async function command(...args: string[]): Promise<Json> {
  const { code, out, err } = await runCommand([...args, '--json', '--config', bed.daemon.configFile]);
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

async function makeKey(override: object = {}, ...flags: string[]): Promise<string> {
  const { id } = await command('projects', 'create', '--name', 'p', '--plan', 'unlimited');
  await command('projects', 'set-plan', '--id', id, '--override', JSON.stringify(override));
  return (await command('keys', 'create', '--project', id, '--name', 'k', ...flags)).key;
}

/** The victim subscribes and gets the next transaction. */
async function demandServed(token: string, from?: string): Promise<void> {
  const victim = call([framed(ALL)], { token, ...(from === undefined ? {} : { from }) });
  let ended: readonly [number, string] | null = null;
  void victim.status.then((status) => {
    ended = status;
  });
  await until('the victim is served', async () => {
    assert.equal(ended, null, `the victim was refused: ${String(ended)}`);
    await bed.chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000);
    return victim.bytes() > 500;
  });
  victim.session.destroy();
}

/** All calls of the attacker end, and what they held is free. */
async function endAll(calls: readonly Call[]): Promise<void> {
  for (const { session } of calls) session.destroy();
  for (const budget of ['streams', 'streamFilters', 'streamFilterBytes', 'answerBytes'])
    await until(`${budget} are given back`, async () => (await used(budget)) === 0);
}

describe('attackers and victims', { skip, timeout: 300_000 }, () => {
  test('streams: the plan limits a project; a full room leaves room for others', async () => {
    const limited = await makeKey({ budgets: { streams: 2 } });
    const session = openSession();
    const own = { token: limited, session };
    const few = [call([framed(ALL)], own), call([framed(ALL)], own)];
    await until('two are open', async () => (await used('streams')) === 2);
    assert.deepEqual(await call([framed(ALL)], own).status, [8, 'The plan allows at most 2 open gRPC streams']);
    await endAll(few);
    const [attacker, victim] = [await makeKey(), await makeKey()];
    const taking = openSession();
    const taken = Array.from({ length: 20 }, () => call([framed(ALL)], { token: attacker, session: taking }));
    await until('the room is full', async () => (await used('streams')) >= ROOMS.streams);
    await demandServed(victim);
    await endAll(taken);
  });

  test('filters: requests that never end, and many filters, leave room for others', async () => {
    const [attacker, victim] = [await makeKey(), await makeKey()];
    const session = openSession();
    const begun = Buffer.alloc(5);
    begun.writeUInt32BE(900_000, 1);
    const slow = Array.from({ length: 8 }, () => call([begun], { token: attacker, session }));
    await until('some are refused', async () => (await used('streamFilterBytes')) >= 3_000_000);
    await demandServed(victim);
    await endAll(slow);
    const many = request((to) => {
      for (let i = 0; i < 60; i += 1) entry(to, 3, String(i));
    });
    const next = openSession();
    const taken = Array.from({ length: 6 }, () => call([framed(many)], { token: attacker, session: next }));
    await until('filters are held', async () => (await used('streamFilters')) >= 180);
    await demandServed(victim);
    await endAll(taken);
    const few = await makeKey({ budgets: { streamFilters: 10, streamFilterBytes: 2_000 } });
    const [code, details] = await call([framed(many)], { token: few }).status;
    assert.equal(code, 8);
    assert.match(details, /^The plan allows at most 10 filters of gRPC streams/);
    const cuckoo = request((to) =>
      entry(to, 3, 'c', (filter) => {
        const table = filter.begin(7);
        filter.raw(1, Buffer.alloc(8));
        filter.uint(2, 1);
        filter.uint(3, 4);
        filter.uint(4, 16);
        filter.end(table);
      }),
    );
    assert.equal((await call([framed(cuckoo)], { token: few }).status)[0], 8, 'a cuckoo filter counts as 16');
  });

  test('a request that unpacks to much more counts with all of it', async () => {
    const few = await makeKey({ budgets: { streamFilterBytes: 1_000_000 } });
    const large = Buffer.concat([ALL, request((to) => to.raw(999, Buffer.alloc(30_000_000)))]);
    for (const [encoding, packed] of [
      ['gzip', gzipSync(large)],
      ['zstd', zstdFrame(large)],
      // Zeros in a frame that does not say how many they are.
      ['zstd', Buffer.from(`28b52ffd0058${'02001000'.repeat(240)}010000`, 'hex')],
    ] as const) {
      const bomb = framed(packed, true);
      const [code, details] = await call([bomb], { token: few, headers: { 'grpc-encoding': encoding } }).status;
      assert.equal(code, 8, encoding);
      assert.match(details, /^The plan allows at most 1000000 bytes of requests and filters/);
    }
  });

  test('labels are short, and a request of a million filters is refused as one of a hundred', async () => {
    const label = request((to) => entry(to, 3, 'x'.repeat(200)));
    assert.deepEqual(await call([framed(label)]).status, [
      3,
      'oversized filter name (max allowed size 128), found 200',
    ]);
    const many = request((to) => {
      for (let i = 0; i < 100_000; i += 1) entry(to, 2, String(i));
    });
    assert.deepEqual(await call([framed(many)]).status, [
      3,
      'Max amount of filters/data_slices reached, only 64 allowed',
    ]);
  });

  test('requests on an open stream take tokens by their size; answers to pings do not', async () => {
    const rated = await makeKey({ ratePerSecond: { rpc: 5 } });
    const stubborn = call([framed(ALL)], { token: rated });
    const large = request((to) => {
      entry(to, 2, 's');
      to.raw(999, Buffer.alloc(300_000));
    });
    for (let i = 0; i < 20; i += 1) stubborn.stream.write(framed(large));
    assert.equal((await stubborn.status)[0], 8);
    await sleep(2_500);
    const polite = call([framed(ALL)], { token: rated });
    const ping = request((to) => {
      const id = to.begin(9);
      to.uint(1, 1);
      to.end(id);
    });
    for (let i = 0; i < 8; i += 1) polite.stream.write(framed(ping));
    await until('pongs', () => polite.bytes() > 100);
    await bed.chain.seal();
    assert.equal(await Promise.race([polite.status, sleep(300, 'open')]), 'open');
    await endAll([polite]);
  });

  test('a refused call costs a token; callers without a key are told to use one', async () => {
    const rated = await makeKey({ ratePerSecond: { rpc: 2 } });
    const session = openSession();
    const codes = [];
    for (let i = 0; i < 8; i += 1)
      codes.push((await call([framed(Buffer.alloc(0))], { token: rated, method: 'Nothing', session }).status)[0]);
    assert.equal(codes[0], 12);
    assert.equal(codes.at(-1), 8);
    const stranger = await call([framed(Buffer.alloc(0))], { token: null, method: 'Nothing', session }).status;
    assert.deepEqual(stranger, [16, 'No valid auth token']);
  });

  test('a unary call that does not send its request ends', async () => {
    const session = openSession();
    const open = call([], { method: 'GetVersion', session });
    const silent = session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/GetVersion',
      'content-type': 'application/grpc',
      'x-token': bed.daemon.key,
    });
    const response = new Promise<Json>((resolve) => silent.once('response', resolve));
    assert.equal((await open.status)[0], 3);
    assert.equal((await response)['grpc-status'], '4');
  });

  test('a reader that takes nothing is cut after a while, however little waits for it', async () => {
    const [attacker, victim] = [await makeKey(), await makeKey()];
    const stalled = call([framed(ALL)], { token: attacker, settings: { initialWindowSize: 500 } });
    stalled.stream.pause();
    await until('it is cut', async () => {
      await bed.chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000);
      return (await metric('streams_slow_readers_total')) >= 1;
    });
    await demandServed(victim);
    await endAll([stalled]);
  });

  test('updates that wait for finality count for one who waits; who has no room is cut, others with the same filters go on', async () => {
    const [attacker, victim] = [await makeKey({ budgets: { answerBytes: 3_000 } }), await makeKey()];
    const final = request((to) => {
      entry(to, 3, 'all');
      to.uint(6, 2);
    });
    const theirs = call([framed(final)], { token: attacker });
    await until('it is open', async () => (await used('streams')) === 1);
    const mine = call([framed(final)], { token: victim });
    await until('both are open', async () => (await used('streams')) === 2);
    for (let i = 0; i < 12; i += 1) await bed.chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000);
    assert.deepEqual(await theirs.status, [13, 'lagged to receive geyser messages']);
    assert.ok((await used('answerBytes')) > 3_000, 'the other one holds them now');
    await bed.chain.seal(40);
    await until('all twelve', () => mine.bytes() > 12 * 250);
    await endAll([theirs, mine]);
  });

  test('connections without calls give way, and those of one address are limited', async () => {
    const victim = await makeKey();
    const silent: Socket[] = [];
    let refused = 0;
    const connect = async (from: string) => {
      const socket = connectTcp({ host: '127.0.0.1', port: bed.port, localAddress: from });
      socket.on('error', () => undefined);
      socket.once('close', () => {
        refused += 1;
      });
      ends.push(() => socket.destroy());
      silent.push(socket);
      await new Promise((resolve) => socket.once('connect', resolve));
    };
    for (let i = 0; i < PER_ADDRESS + 5; i += 1) await connect('127.0.0.3');
    await until('five are refused', () => refused === 5);
    for (let i = 0; i < PER_ADDRESS; i += 1) await connect('127.0.0.4');
    await until('as many are open as may be', async () => (await metric('streams_connections')) === CONNECTIONS);
    await demandServed(victim);
    for (const socket of silent) socket.destroy();
    await until('they are gone', async () => (await metric('streams_connections')) < PER_ADDRESS);
  });

  test('behind a trusted proxy the address of the client counts, elsewhere the header is ignored', async () => {
    const limited = await makeKey({}, '--ips', '10.0.0.0/8');
    const ask = async (from: string, forwarded: string) => {
      const headers = { 'x-forwarded-for': forwarded };
      return (await call([framed(Buffer.alloc(0))], { token: limited, method: 'GetVersion', from, headers }).status)[0];
    };
    assert.equal(await ask('127.0.0.9', '10.1.1.1'), 0);
    assert.equal(await ask('127.0.0.9', '8.8.8.8'), 7);
    assert.equal(await ask('127.0.0.9', '10.1.1.1, 8.8.8.8'), 7, 'the client wrote the first one');
    assert.equal(await ask('127.0.0.8', '10.1.1.1'), 7, 'no trusted proxy');
  });
});
