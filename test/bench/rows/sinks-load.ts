/**
 * What a daemon with sinks carries: all default plugins, with webhooks and wallets, and three sinks (PostgreSQL, Parquet and NDJSON) that catch
 * up with a chain; follower, deliveries and sinks in one process. Every table, without a filter.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { coreConfig } from '../../../src/config/core.ts';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { FIRST_SLOT, type IngestWorld, startIngestWorld, type WorldSizes } from '../samples/ingest-world.ts';
import { type RoleProcess, startRole } from '../samples/role-process.ts';

/** Slots of 400 ms, as the chain has them. */
const CHAIN_BLOCKS_PER_SECOND = 2.5;
const GOAL = 3;

const SIZES: Readonly<Record<RunOptions['size'], WorldSizes>> = {
  full: {
    blocks: 1_000,
    transactions: 1_500,
    templates: 8,
    webhooks: 100,
    addressesEach: 1_000,
    wallets: 200,
    hits: 20,
  },
  quick: {
    blocks: 120,
    transactions: 1_500,
    templates: 4,
    webhooks: 100,
    addressesEach: 1_000,
    wallets: 100,
    hits: 20,
  },
  smoke: {
    blocks: 8,
    transactions: 60,
    templates: 2,
    webhooks: 2,
    addressesEach: 20,
    wallets: 20,
    hits: 4,
  },
};

const SINKS = ['tables', 'lake', 'lines'] as const;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const sizes = SIZES[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-load-'));
  const postgres = await startPostgresServer();
  const config = {
    plugins: [...coreConfig.properties.plugins.default, 'sinks'],
    ledger: { retain: { hours: 24 } },
    sinks: {
      targets: [
        { name: 'tables', kind: 'postgres', target: postgres.url, from: FIRST_SLOT },
        { name: 'lake', kind: 'parquet', target: join(folder, 'lake'), from: FIRST_SLOT, batchSeconds: 5 },
        { name: 'lines', kind: 'ndjson', target: join(folder, 'lines'), from: FIRST_SLOT, batchSeconds: 5 },
      ],
    },
  };
  const world = await startIngestWorld({ sizes, seed, config });
  try {
    const daemon = await startRole('indexer,deliverer', world.bed);
    try {
      const seen = await caughtUp(world, daemon, sizes, say);
      const ratio = ratioOf(
        seen.quarters,
        seen.quarters.map(() => CHAIN_BLOCKS_PER_SECOND),
      );
      const result: RowResult = {
        row: 'sinks-load',
        name: 'all default plugins and three sinks, until the slowest sink has each block',
        unit: 'blocks/s, one figure per quarter',
        ours: seen.quarters,
        baseline: seen.quarters.map(() => CHAIN_BLOCKS_PER_SECOND),
        ratio,
        goal: `>= ${GOAL}x the chain's ${CHAIN_BLOCKS_PER_SECOND} blocks/s`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        sizes: { ...sizes },
        seed,
        notes: [
          `${seen.cpuMs.toFixed(1)} ms of CPU per block, all threads of the daemon; PostgreSQL has its own`,
          `${seen.rows} rows in the targets, ${(seen.rows / sizes.blocks / SINKS.length).toFixed(0)} per block and sink`,
          `RSS ${daemon.memory('VmRSS') / 1_024} MiB at the end, ${daemon.memory('VmHWM') / 1_024} MiB at most, with batches of 16 MiB`,
          'follower, deliveries and sinks in one process, blocks over HTTP from another one',
        ].map((note) => note.replace(/(\d+\.\d)\d+/g, '$1')),
      };
      return [result];
    } finally {
      await daemon.stop();
    }
  } finally {
    world.close();
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The slot up to which every target has all rows. */
const takenTo = async ({ count }: IngestWorld): Promise<number> => {
  if ((await count('select count(*) as n from sinks_state where last_slot is not null')) < SINKS.length) return -1;
  return await count('select min(last_slot) as n from sinks_state');
};

async function reaches(world: IngestWorld, daemon: RoleProcess, wanted: number): Promise<number> {
  for (;;) {
    const slot = await takenTo(world);
    if (slot >= wanted) return slot;
    if (daemon.child.exitCode !== null) throw new Error('the daemon ended');
    await sleep(100);
  }
}

async function caughtUp(world: IngestWorld, daemon: RoleProcess, sizes: WorldSizes, say: RunOptions['say']) {
  const quarters: number[] = [];
  const startCpuMs = daemon.cpuMs() ?? Number.NaN;
  let mark = { slot: FIRST_SLOT - 1, ms: performance.now() };
  while (quarters.length < 4) {
    const until = FIRST_SLOT - 1 + Math.floor((sizes.blocks * (quarters.length + 1)) / 4);
    const slot = await reaches(world, daemon, until);
    const ms = performance.now();
    // Large batches may take more than a quarter at once.
    const rate = (slot - mark.slot) / ((ms - mark.ms) / 1_000);
    for (let at = quarters.length; at < 4 && slot >= FIRST_SLOT - 1 + Math.floor((sizes.blocks * (at + 1)) / 4); at++)
      quarters.push(rate);
    mark = { slot, ms };
    say(`sinks: every target has slot ${slot} of ${FIRST_SLOT + sizes.blocks - 1}, ${rate.toFixed(1)} blocks/s`);
  }
  const cpuMs = ((daemon.cpuMs() ?? Number.NaN) - startCpuMs) / sizes.blocks;
  const written = (await daemon.metrics())
    .split('\n')
    .filter((line) => line.startsWith('parhelion_sinks_rows_total{'))
    .map((line) => Number(line.split(' ').at(-1)));
  assert.equal(written.length, SINKS.length);
  assert.ok(
    written.every((rows) => rows === written[0] && rows > sizes.blocks * 10),
    written.join(', '),
  );
  return { quarters, cpuMs, rows: written.reduce((sum, rows) => sum + rows, 0) };
}

export const sinksLoadRow: Row = { id: 'sinks-load', name: 'a daemon with three sinks', run };
