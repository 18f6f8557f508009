/** G8: webhooks from a decoded block to the receiver, with everything that makes a delivery durable. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { Webhook } from 'standardwebhooks';
import { Pool } from 'undici';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { addressOf, makeBlock } from '../../conformance/webhooks/blocks.ts';
import { type Harness, startHarness } from '../../conformance/webhooks/harness.ts';
import { startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { siblingModule } from '../sibling.ts';

export const CONNECTIONS = 64;
const BODY_BYTES = 1_500;
export const BLOCK_DELIVERIES = 250;
const GOAL_POOL = 0.6;
const GOAL_FETCH = 5;

interface Samples {
  readonly ours: Sample[];
  readonly pool: Sample[];
  readonly fetch: Sample[];
}

interface Sample {
  /** Per second. */
  readonly rate: number;
  /** Of this process, per delivery: what others do on the machine shows less in it. */
  readonly cpuUs: number;
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const rounds = options.size === 'full' ? 10 : options.size === 'quick' ? 5 : 1;
  const blocks = options.size === 'smoke' ? 1 : 16;
  return await withDeliveries(async (bed) => {
    const samples = await measure(bed, rounds, blocks, options);
    return results(samples, bed.body.length, blocks * BLOCK_DELIVERIES, options);
  });
}

/** A daemon with one webhook, warmed up. */
interface DeliveryBed {
  /** Of the receiver, whose counts are read and reset at `receivedBy`. */
  readonly url: string;
  /** Bytes of one delivery. */
  readonly body: Buffer;
  /** Delivers the transactions of so many blocks, `BLOCK_DELIVERIES` of each. */
  deliver(blocks: number): Promise<Sample>;
}

export async function withDeliveries<T>(work: (bed: DeliveryBed) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-'));
  const receiver = await startBenchServer(siblingModule(import.meta.url, '../samples/delivery-receiver.ts'));
  const ends: (() => unknown)[] = [];
  const store = openSqliteStore({ path: join(folder, 'bench.db'), busyTimeoutMs: 5_000 });
  const after = (fn?: unknown) => void ends.push(fn as () => unknown);
  try {
    const harness = await startHarness({ after } as never, { store, webhooks: openLimits });
    const { body: hook } = await harness.call('POST', '/v0/webhooks', {
      webhookURL: `${receiver.url}/hook`,
      webhookType: 'raw',
      accountAddresses: [addressOf(1)],
    });
    const body = await warmUp(harness, receiver.url, hook);
    return await work({ url: receiver.url, body, deliver: (blocks) => deliver(harness, nextBlocks(blocks)) });
  } finally {
    for (const end of ends) await end();
    await store.close();
    receiver.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The machinery is measured and not its limits. */
const openLimits = {
  ratePerSecond: 0,
  concurrency: { global: CONNECTIONS, perWebhook: CONNECTIONS },
};

let slot = 1_000;
function nextBlocks(count: number): ChainBlock[] {
  return Array.from({ length: count }, () => {
    slot += 1;
    const own = slot;
    const transactions = Array.from({ length: BLOCK_DELIVERIES }, (_, at) => ({
      name: `${own}/${at}`,
      keys: [1],
      padBytes: PAD_BYTES,
    }));
    return makeBlock({ slot, transactions });
  });
}
/** What a small transaction lacks to the size of the goal. */
const PAD_BYTES = 640;

export async function receivedBy(url: string, path = '/'): Promise<{ count: number; samples: Received[] }> {
  return (await (await fetch(url + path)).json()) as { count: number; samples: Received[] };
}
interface Received {
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** Resolves when nothing waits any more. The conditions are written so that they cost nothing beside what is measured. */
async function drained({ store }: Harness): Promise<void> {
  const exists = async (state: 'pending' | 'running'): Promise<boolean> => {
    const rows = await sql`select 1 from outbox where state = ${sql.lit(state)} and ${
      state === 'pending' ? sql`kind = 'webhooks.deliver'` : sql`lease_until > 0`
    } limit 1`.execute(store.read);
    return rows.rows.length > 0;
  };
  while ((await exists('pending')) || (await exists('running'))) await new Promise((resolve) => setTimeout(resolve, 5));
}

function deliver(harness: Harness, blocks: readonly ChainBlock[]): Promise<Sample> {
  return timed(blocks.length * BLOCK_DELIVERIES, async () => {
    for (const block of blocks) await harness.apply(block);
    await drained(harness);
  });
}

async function timed(count: number, work: () => Promise<unknown>): Promise<Sample> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await work();
  const rate = count / ((performance.now() - start) / 1_000);
  const { user, system } = process.cpuUsage(cpu);
  return { rate, cpuUs: (user + system) / count };
}

/** Also the check: everything arrives once, signed, in the size of the goal. Returns the bytes of one body. */
async function warmUp(harness: Harness, url: string, hook: { signingSecret: string }): Promise<Buffer> {
  await receivedBy(url, '/reset');
  await deliver(harness, nextBlocks(4));
  const { count, samples } = await receivedBy(url, '/reset');
  assert.equal(count, 4 * BLOCK_DELIVERIES);
  for (const { headers, body } of samples) new Webhook(hook.signingSecret).verify(body, headers);
  const body = Buffer.from(samples[0]?.body ?? '');
  assert.ok(Math.abs(body.length - BODY_BYTES) < 100, `the body has ${body.length} bytes`);
  return body;
}

async function measure(
  { url, body, deliver }: DeliveryBed,
  rounds: number,
  blocks: number,
  { say }: RunOptions,
): Promise<Samples> {
  const samples: Samples = { ours: [], pool: [], fetch: [] };
  const pool = new Pool(url, { connections: CONNECTIONS, pipelining: 1 });
  const count = blocks * BLOCK_DELIVERIES;
  const viaPool = () =>
    inParallel(count, async () => {
      const reply = await pool.request({
        method: 'POST',
        path: '/hook',
        body,
        headers: { 'content-type': 'application/json' },
      });
      await reply.body.dump();
    });
  const viaFetch = () =>
    inParallel(count, async () => {
      const reply = await fetch(`${url}/hook`, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      await reply.arrayBuffer();
    });
  const runs = [
    async () => void samples.ours.push(await deliver(blocks)),
    async () => void samples.pool.push(await viaPool()),
    async () => void samples.fetch.push(await viaFetch()),
  ];
  await viaPool();
  for (let round = 0; round < rounds; round += 1) {
    for (const run of round % 2 === 0 ? runs : [...runs].reverse()) await run();
    say(
      `G8 round ${round + 1}: ours ${shown(samples.ours)}, pool ${shown(samples.pool)}, fetch ${shown(samples.fetch)}`,
    );
  }
  await pool.close();
  const { count: total } = await receivedBy(url);
  assert.equal(total, (3 * rounds + 1) * count);
  return samples;
}

function shown(samples: readonly Sample[]): string {
  const last = samples.at(-1);
  return last === undefined ? '' : `${Math.round(last.rate)}/s (${Math.round(last.cpuUs)} us of CPU)`;
}

/** Makes requests with a fixed number under way. */
export async function inParallel(count: number, one: () => Promise<void>): Promise<Sample> {
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      await one();
    }
  };
  return await timed(count, () => Promise.all(Array.from({ length: CONNECTIONS }, worker)));
}

function results(samples: Samples, bodyBytes: number, deliveries: number, { size, seed }: RunOptions): RowResult[] {
  const result = (row: string, name: string, baseline: readonly Sample[], goal: number, text: string): RowResult => {
    const rates = (list: readonly Sample[]) => list.map((sample) => sample.rate);
    const cpu = (list: readonly Sample[]) => list.map((sample) => sample.cpuUs);
    const ratio = ratioOf(rates(samples.ours), rates(baseline));
    return {
      row,
      name,
      unit: 'deliveries/s',
      ours: rates(samples.ours),
      baseline: rates(baseline),
      ratio,
      goal: text,
      seed,
      verdict: size === 'smoke' ? 'not assessed' : ratio.median >= goal ? 'met' : 'missed',
      sizes: { bodyBytes, connections: CONNECTIONS, deliveries },
      notes: [
        'match, body, signature, send and durable bookkeeping; SQLite, synchronous=FULL; receiver in its own process',
        `the same ratio in CPU time of this process ${ratioOf(cpu(baseline), cpu(samples.ours)).median.toFixed(2)}`,
      ],
    };
  };
  return [
    result('G8a', 'delivery vs undici Pool', samples.pool, GOAL_POOL, `>= ${GOAL_POOL}x a bare undici Pool`),
    result('G8b', 'delivery vs fetch', samples.fetch, GOAL_FETCH, `>= ${GOAL_FETCH}x global fetch`),
  ];
}

export const row: Row = { id: 'G8', name: 'webhook delivery', run };
