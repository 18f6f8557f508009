/**
 * S1: one thread fans a stream out to 20 readers, against bare node:http2. S2: look-ups in a cuckoo filter, and its memory. S3: blocks that
 * 1,000 equal replays read. S4: what a reader that stops holds before it is cut.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { Value } from '@sinclair/typebox/value';
import { type StreamsConfig, streamsConfig } from '../../../plugins/streams/config.ts';
import { createCuckooFilter } from '../../../plugins/streams/cuckoo.ts';
import { createGeyser } from '../../../plugins/streams/geyser.ts';
import { createGrpcServer } from '../../../plugins/streams/grpc-server.ts';
import { createStreamHub } from '../../../plugins/streams/hub/index.ts';
import { createBlockUpdates, encodeLabels } from '../../../plugins/streams/wire/updates.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createBudgets } from '../../../src/budgets.ts';
import { createLedgerMeter, openLedger } from '../../../src/ledger/index.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { syntheticBlock } from '../samples/synthetic-block.ts';
import { siblingModule } from '../sibling.ts';

const READERS = 20;
/** Of all transactions: `transactions: {all: {}}`, confirmed. */
const REQUEST = Buffer.from([0, 0, 0, 0, 11, 0x1a, 7, 0x0a, 3, 0x61, 0x6c, 0x6c, 0x12, 0, 0x30, 1]);
const FRAMES_PER_WRITE = 50;
const REPLAYS = {
  full: { readers: 1_000, streams: 10, blocks: 40, transactions: 60 },
  quick: { readers: 1_000, streams: 10, blocks: 20, transactions: 10 },
  smoke: { readers: 20, streams: 5, blocks: 5, transactions: 10 },
} as const;

interface Fan {
  readonly url: string;
  /** Sends all updates of the blocks to all readers. */
  send(blocks: readonly ChainBlock[]): void;
  stop(): Promise<void>;
}

/** The time of all updates: the length of the time in one depends on it, and readers are done after a number of bytes. */
const NOW_MS = 1_764_500_000_999;

async function startOurs(
  blocks: () => LedgerReader | null = () => null,
  limits: Partial<StreamsConfig['grpc']> = { maxQueuedBytes: 1_073_741_824 },
): Promise<Fan> {
  const clock = { ...createSystemClock(), now: () => NOW_MS };
  const metrics = createMetricsRegistry().scope('streams');
  const config = Value.Default(streamsConfig, { grpc: limits }) as StreamsConfig;
  const hub = createStreamHub({ metrics, log: createMemoryLog(), limits: config.grpc, blocks });
  const caller = { projectId: 'bench', keyId: null, plan: 'none', wallet: null };
  const geyser = createGeyser({
    config,
    version: 'bench',
    hub,
    clock,
    metrics,
    log: createMemoryLog(),
    charges: null,
    passOn: null,
    tenants: createBudgets(),
    http: { minReadBytesPerSecond: 0, readWindowMs: 30_000, requestTimeoutMs: 30_000 },
    seed: () => new Uint32Array(randomBytes(16).buffer.slice(0, 16)),
    gate: { authenticate: () => caller, admit: () => ({ headers: {}, charge: () => 0 }) },
    // No unary method is called.
    chain: null as unknown as ChainReader,
  });
  const server = createGrpcServer({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    maxConnections: 100,
    clock,
    handle: geyser.handle,
    maxConnectionsPerAddress: () => 0,
    isTrusted: () => false,
    handshakeTimeoutMs: 30_000,
    remoteAddress: () => '127.0.0.1',
    pingIntervalMs: 600_000,
  });
  const port = await server.start();
  return {
    url: `http://127.0.0.1:${port}`,
    send(blocks) {
      for (const block of blocks) hub.released(block);
      hub.finalized(blocks.at(-1)!.slot);
    },
    stop: () => server.stop(),
  };
}

/** The same frames, ready and joined, to all streams. */
async function startBare(blocks: readonly ChainBlock[]): Promise<Fan> {
  const streams = new Set<ServerHttp2Stream>();
  const server = createServer({ maxSessionMemory: 1_000 });
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.resume();
    streams.add(stream);
  });
  const joined = blocks.map((block) => joinedFrames(block));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    send() {
      for (const writes of joined) for (const bytes of writes) for (const stream of streams) stream.write(bytes);
    },
    async stop() {
      for (const stream of streams) stream.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function joinedFrames(block: ChainBlock): Buffer[] {
  const updates = createBlockUpdates(block, NOW_MS);
  const labels = encodeLabels(['all']);
  const frames = block.transactions.map(({ index }) => {
    const body = Buffer.concat([labels, updates.transaction(index)]);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(body.length, 1);
    return Buffer.concat([head, body]);
  });
  const writes: Buffer[] = [];
  for (let at = 0; at < frames.length; at += FRAMES_PER_WRITE)
    writes.push(Buffer.concat(frames.slice(at, at + FRAMES_PER_WRITE)));
  return writes;
}

/** Readers of a fan, in another thread. */
async function startReaders(
  url: string,
  task: { readonly readers: number; readonly streams?: number; readonly request: Buffer },
) {
  const { path, execArgv } = siblingModule(import.meta.url, '../samples/stream-readers-thread.ts');
  const workerData = { url, key: 'bench', ...task };
  const worker = new Worker(path, { execArgv: [...execArgv], workerData });
  let bytes = 0;
  worker.on('message', (count: number) => {
    bytes = count;
  });
  return {
    received: () => bytes,
    async stop() {
      worker.postMessage('stop');
      await worker.terminate();
    },
  };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 1));

async function fanOut({ size, seed, say }: RunOptions): Promise<RowResult> {
  const [transactions, rounds, pairs] = size === 'smoke' ? [50, 1, 1] : [1_000, 6, 5];
  const decode = (slot: number) => {
    const made = syntheticBlock({ seed: seed + slot, transactions, slot });
    return decodeBlock(made.slot, scanBlockAnswer(made.body));
  };
  const bare = await startBare(Array.from({ length: rounds }, (_, at) => decode(at + 1)));
  const mine = await startOurs();
  const task = { readers: READERS, request: REQUEST };
  const readers = [await startReaders(mine.url, task), await startReaders(bare.url, task)] as const;
  const expected = Array.from({ length: rounds }, (_, at) => decode(at + 1))
    .flatMap(joinedFrames)
    .reduce((sum, { length }) => sum + length, 0);
  /** Updates a second. Blocks are new each time, so that ours has to encode them. */
  const measure = async (fan: Fan, reader: (typeof readers)[number], blocks: readonly ChainBlock[]) => {
    const before = reader.received();
    const startedMs = performance.now();
    fan.send(blocks);
    const goal = expected * READERS;
    while (reader.received() - before < goal * 0.99) await turn();
    const spentMs = performance.now() - startedMs;
    while (reader.received() - before < goal * 0.999) await turn();
    return (transactions * rounds * READERS * 1_000) / spentMs;
  };
  // All readers have subscribed.
  let slot = 0;
  const fresh = () => Array.from({ length: rounds }, (_, at) => ({ ...decode(at + 1), slot: ++slot }));
  await new Promise((resolve) => setTimeout(resolve, 500));
  say(`${READERS} readers, ${transactions * rounds} updates a round`);
  const ours: number[] = [];
  const baseline: number[] = [];
  try {
    for (let pair = 0; pair < pairs + 1; pair++) {
      const one = await measure(mine, readers[0], fresh());
      const other = await measure(bare, readers[1], []);
      // The first pair warms up.
      if (pair === 0 && size !== 'smoke') continue;
      ours.push(one);
      baseline.push(other);
    }
  } finally {
    for (const reader of readers) await reader.stop();
    await mine.stop();
    await bare.stop();
  }
  const ratio = ratioOf(ours, baseline);
  return {
    row: 'S1',
    name: 'stream fan-out vs node:http2 with ready frames',
    unit: 'updates/s',
    ours,
    baseline,
    ratio,
    goal: '>= 0.5x',
    seed,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= 0.5 ? 'met' : 'missed',
    sizes: { readers: READERS, transactions, blocks: rounds, bytes: expected },
    notes: ['equal subscriptions to all transactions; ours includes matching and encoding each block once'],
  };
}

function cuckoo({ size, seed, say }: RunOptions): RowResult {
  const buckets = size === 'smoke' ? 1_024 : 4_194_304;
  say(`a cuckoo filter of ${buckets} buckets`);
  const random = createSfc32(seed);
  // Nearly all entries are used: nothing depends on which addresses they stand for.
  const data = Buffer.from(random.fill(new Uint8Array(buckets * 8)));
  const table = {
    data,
    bucketCount: buckets,
    entriesPerBucket: 4,
    fingerprintBits: 16,
    hashSeed: 7n,
    hashAlgorithm: 0,
  };
  const filter = createCuckooFilter(table);
  assert.ok('has' in filter);
  const count = size === 'smoke' ? 1_000 : 200_000;
  const words = new Uint32Array(random.fill(new Uint8Array(count * 32)).buffer);
  const us: number[] = [];
  for (let round = 0; round < 4; round++) {
    const before = process.cpuUsage();
    let hits = 0;
    for (let at = 0; at < count; at++) if (filter.has(words, at * 8)) hits += 1;
    const { user, system } = process.cpuUsage(before);
    assert.ok(hits < count * 0.01 + 5);
    if (round > 0) us.push((user + system) / count);
  }
  const best = Math.min(...us);
  return {
    row: 'S2',
    name: 'look-up in a cuckoo filter of 10,000,000 addresses',
    unit: 'us of CPU',
    ours: us,
    baseline: [],
    ratio: null,
    goal: '< 1 us, <= 64 MB',
    seed,
    verdict: size === 'smoke' ? 'not assessed' : best < 1 && filter.bytes <= 64_000_000 ? 'met' : 'missed',
    sizes: { buckets, bytes: filter.bytes },
    notes: [],
  };
}

/** Each reader gets every block of the ledger from the first on. */
async function replays({ size, seed, say }: RunOptions): Promise<RowResult> {
  const { readers, streams, blocks, transactions } = REPLAYS[size];
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-replays-'));
  try {
    const ledger = await openLedger({
      dir,
      chain: 'main',
      retainHours: 24,
      retainBytes: 10_737_418_240,
      index: 'none',
      clock: createSystemClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
    let bytes = 0;
    for (let slot = 1; slot <= blocks; slot += 1) {
      const { body } = syntheticBlock({ seed: seed + slot, transactions, slot });
      const block = decodeBlock(slot, scanBlockAnswer(body));
      await ledger.append(block);
      for (const frames of joinedFrames(block)) bytes += frames.length;
    }
    await ledger.finalize(blocks);
    say(`${readers} readers of ${blocks} blocks, ${bytes} bytes each`);
    const run = async (task: { readonly readers: number; readonly streams: number }) => {
      let reads = 0;
      const counted: LedgerReader = {
        ...ledger,
        get finalSlot() {
          return ledger.finalSlot;
        },
        block(slot) {
          reads += 1;
          return ledger.block(slot);
        },
      };
      const fan = await startOurs(() => counted);
      const startedMs = performance.now();
      const request = Buffer.concat([REQUEST, Buffer.of(0x58, 1)]);
      request.writeUInt32BE(request.length - 5, 1);
      const reader = await startReaders(fan.url, { ...task, request });
      // Frames of transactions; pings come too.
      while (reader.received() < bytes * task.readers) await turn();
      const spentMs = performance.now() - startedMs;
      await reader.stop();
      await fan.stop();
      return { reads, updates: (blocks * transactions * task.readers * 1_000) / spentMs };
    };
    const [many, one] = [await run({ readers, streams }), await run({ readers: 1, streams: 1 })];
    await ledger.close();
    assert.equal(one.reads, blocks);
    return {
      row: 'S3',
      name: `reads of a block for ${readers.toLocaleString('en')} equal replays`,
      unit: 'reads a block',
      ours: [many.reads / blocks],
      baseline: [one.reads / blocks],
      ratio: null,
      goal: '1',
      seed,
      verdict: size === 'smoke' ? 'not assessed' : many.reads === blocks ? 'met' : 'missed',
      sizes: { readers, blocks, transactions, bytes },
      notes: [`${Math.round(many.updates)} updates/s to all, ${Math.round(one.updates)} to one reader alone`],
    };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** As the daemon has it when nothing is configured. */
const QUEUED_BYTES = 16_777_216;

/** Readers that read nothing, each of another subscription, so that they share no bytes: what each of them adds to the process. */
async function stopped({ size, seed, say }: RunOptions): Promise<RowResult> {
  const [readers, transactions] = size === 'smoke' ? [2, 1_000] : [6, 1_000];
  const blocks: ChainBlock[] = [];
  // More than waits for a reader at most.
  for (let bytes = 0; bytes < 1.3 * QUEUED_BYTES; ) {
    const slot = blocks.length + 1;
    const block = decodeBlock(slot, scanBlockAnswer(syntheticBlock({ seed: seed + slot, transactions, slot }).body));
    bytes += joinedFrames(block).reduce((sum, { length }) => sum + length, 0);
    blocks.push(block);
  }
  const peaks = [await peakOf(1), await peakOf(readers)] as const;
  const each = (peaks[1] - peaks[0]) / (readers - 1);
  say(`${readers} readers, ${Math.round(each)} bytes each`);
  return {
    row: 'S4',
    name: 'memory of a reader that stops, until it is cut',
    unit: 'bytes',
    ours: [each],
    baseline: [],
    ratio: null,
    goal: '<= 16 MiB',
    seed,
    verdict: size === 'smoke' ? 'not assessed' : each <= QUEUED_BYTES ? 'met' : 'missed',
    sizes: { readers, transactions },
    notes: ['heap and buffers after a collection, at the peak; each is cut with INTERNAL, lagged to send an update'],
  };

  async function peakOf(count: number): Promise<number> {
    const fan = await startOurs(() => null, {});
    const sessions = Array.from({ length: count }, () => connect(fan.url, { settings: { initialWindowSize: 1_000 } }));
    const ends = sessions.map((session, at) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/geyser.Geyser/Subscribe',
        'content-type': 'application/grpc',
        te: 'trailers',
        'x-token': 'bench',
      });
      const request = Buffer.from(REQUEST);
      // The label.
      request[9] = 0x61 + at;
      stream.write(request);
      stream.pause();
      const trailers = new Promise<unknown>((resolve) =>
        stream.once('trailers', (headers) => resolve([headers['grpc-status'], headers['grpc-message']])),
      );
      return {
        trailers,
        resume: () => stream.resume(),
        opened: new Promise((resolve) => stream.once('response', resolve)),
      };
    });
    await Promise.all(ends.map(({ opened }) => opened));
    // Their requests have been read.
    await new Promise((resolve) => setTimeout(resolve, 200));
    const before = usedBytes();
    let peak = 0;
    for (const block of blocks) {
      fan.send([{ ...block }]);
      await turn();
      peak = Math.max(peak, usedBytes() - before);
    }
    // Those that were cut are told so only while they read within some seconds.
    for (const { resume } of ends) resume();
    for (const { trailers } of ends) assert.deepEqual(await trailers, ['13', 'lagged to send an update']);
    for (const session of sessions) session.destroy();
    await fan.stop();
    return peak;
  }
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function usedBytes(): number {
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  // `external` contains the array buffers.
  return heapUsed + external;
}

export const streamsRow: Row = {
  id: 'S',
  name: 'streams',
  run: async (options) => [await fanOut(options), cuckoo(options), await replays(options), await stopped(options)],
};
