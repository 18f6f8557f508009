/** From a busy block that the indexer has read to the first attempt of its deliveries, beside a chain of 200 ms. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { FIRST_SLOT, RELEASED, startIngestWorld, type WorldSizes } from '../samples/ingest-world.ts';
import { startRole } from '../samples/role-process.ts';
import { percentile } from '../steady-load.ts';

const GOAL_MS = 50;
const BLOCK_MS = 200;
/** The lag at which what is read is the newest block. */
const AT_TIP_SLOTS = 3;

const shared = { transactions: 1_500, addressesEach: 1_000, hits: 20 };
const SIZES: Readonly<Record<RunOptions['size'], WorldSizes>> = {
  full: { ...shared, blocks: 1_500, templates: 8, webhooks: 100, wallets: 10_000 },
  quick: { ...shared, blocks: 200, templates: 4, webhooks: 100, wallets: 1_000 },
  smoke: { blocks: 8, transactions: 60, templates: 2, webhooks: 2, addressesEach: 20, wallets: 20, hits: 4 },
};

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { blocks, ...sizes } = SIZES[size];
  // The chain goes on while webhooks and wallets are created, and does not end within a run.
  const world = await startIngestWorld({ sizes: { ...sizes, blocks: 1_000_000 }, seed, blockMs: BLOCK_MS });
  try {
    const daemon = await startRole('api,indexer,deliverer', world.bed);
    const waits = async () => (await (await fetch(`${world.upstream.url}/waits`)).json()) as (number | null)[];
    try {
      while ((await daemon.metric('parhelion_follow_lag_slots')) > AT_TIP_SLOTS || (await daemon.metric(RELEASED)) < 2)
        await sleep(100);
      await sleep(5 * BLOCK_MS);
      await waits();
      const start = { released: await daemon.metric(RELEASED), cpuMs: daemon.cpuMs() ?? Number.NaN };
      await sleep(blocks * BLOCK_MS);
      const released = (await daemon.metric(RELEASED)) - start.released;
      const cpuMs = (daemon.cpuMs() ?? Number.NaN) - start.cpuMs;
      const seen = await waits();
      assert.ok(
        seen.length >= (released - AT_TIP_SLOTS) * sizes.hits,
        `${seen.length} deliveries of ${released} blocks`,
      );
      const sorted = seen.map((wait) => wait ?? Number.NaN).sort((a, b) => a - b);
      assert.ok(sorted.every(Number.isFinite), 'a delivery came before its block was read');
      const p99Ms = percentile(sorted, 0.99);
      const lag = await daemon.metric('parhelion_follow_lag_slots');
      say(`G2-attempt: p50 ${percentile(sorted, 0.5).toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`);
      return [
        {
          row: 'G2-attempt',
          name: 'from a block that was read to the first attempt, beside a chain of 200 ms',
          unit: 'ms, p99',
          ours: [p99Ms],
          baseline: [],
          ratio: null,
          goal: `p99 < ${GOAL_MS} ms`,
          verdict: size === 'smoke' ? 'not assessed' : p99Ms < GOAL_MS ? 'met' : 'missed',
          sizes: { ...sizes, blocks },
          seed,
          notes: [
            `p50 ${percentile(sorted, 0.5).toFixed(1)} ms, p90 ${percentile(sorted, 0.9).toFixed(1)} ms, ${seen.length} deliveries of ${released} blocks from slot ${FIRST_SLOT + start.released}, ${(cpuMs / released).toFixed(1)} ms of CPU per block, ${lag} slots behind at the end`,
            'from the last byte of the answer to getBlock, which the node has written, to the arrival of the request at the receiver; both in one process beside the daemon',
            'SQLite, WAL, synchronous=FULL; all roles in one process, all default plugins on, default settings',
          ],
        },
      ];
    } finally {
      await daemon.stop();
    }
  } finally {
    world.close();
  }
}

export const row: Row = {
  id: 'G2-attempt',
  name: 'from a block to the first attempt beside a busy chain',
  isLong: true,
  run,
};
