/**
 * A back-fill of many rows into Parquet files: its memory does not grow. SINK_ROWS is how many; the files of older batches are deleted meanwhile,
 * as a job that takes them away would.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSinkMeter } from '../../../plugins/sinks/meter.ts';
import { compileFilter } from '../../../plugins/sinks/rows/filter.ts';
import { ROWS_VERSION, SINK_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { SinkRunner } from '../../../plugins/sinks/runner.ts';
import type { BlockSource } from '../../../plugins/sinks/source.ts';
import { addTask, migrations, readTask } from '../../../plugins/sinks/store.ts';
import { parquetKind } from '../../../plugins/sinks/targets/parquet.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { nativeInterfaces } from '../../../src/solana/idl/native.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { syntheticBlock } from '../samples/synthetic-block.ts';

/** Of the memory in the second quarter. */
const GROWTH = 1.15;

const SIZES = {
  full: { rows: 100_000_000, transactions: 1_500 },
  quick: { rows: 2_000_000, transactions: 1_500 },
  smoke: { rows: 20_000, transactions: 60 },
} as const;

/** A few blocks in turns, each with the slot that is asked for, as links of one chain. */
function endlessChain(seed: number, transactions: number): BlockSource & { readonly end: number } {
  const end = 1_000_000_000;
  const hashOf = (slot: number): string => {
    const bytes = Buffer.alloc(32, 7);
    bytes.writeUInt32BE(slot, 4);
    return encode32(bytes);
  };
  const templates = Array.from({ length: 4 }, (_, at) => {
    const { body, slot } = syntheticBlock({ seed: seed + at, transactions, slot: 1 + at });
    return decodeBlock(slot, (JSON.parse(body.toString()) as { readonly result: object }).result);
  });
  const blockAt = (slot: number): ChainBlock => ({
    ...templates[slot % templates.length]!,
    slot,
    parentSlot: slot - 1,
    blockhash: hashOf(slot),
    previousBlockhash: hashOf(slot - 1),
  });
  return {
    end,
    finalSlot: async () => end,
    oldestSlot: async () => 1,
    headerAt: async () => null,
    next: async (from, to) => (from > to ? null : blockAt(from)),
  };
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const rows = Number(process.env['SINK_ROWS'] ?? SIZES[size].rows);
  const source = endlessChain(seed, SIZES[size].transactions);
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-backfill-'));
  const target = join(folder, 'lake');
  mkdirSync(target);
  const store = openSqliteStore({ path: join(folder, 'sinks.db'), busyTimeoutMs: 5_000 });
  await migrate(store, [{ scope: 'sinks', migrations }]);
  const registry = createMetricsRegistry();
  const filter = { addresses: [], programs: [], owners: [], mints: [], kinds: [], votes: false, failed: true };
  const runner = new SinkRunner({
    sink: { name: 'lake', tables: SINK_TABLES, version: ROWS_VERSION, target, options: {} },
    kind: parquetKind,
    settings: { from: source.end, batchSlots: 4_096, batchMs: 0, limitBytes: 16_777_216 },
    rows: {
      filter: compileFilter(filter),
      tables: new Set(SINK_TABLES.map(({ name }) => name)),
      find: (program) => nativeInterfaces().get(program) ?? null,
    },
    source,
    events: null,
    store: () => store,
    clock: createSystemClock(),
    log: createMemoryLog(),
    meter: createSinkMeter(registry.scope('sinks')),
    holder: 'bench',
    isGone: () => false,
  });
  const last = source.end - 1;
  await addTask(store, {
    id: 'a',
    sink: 'lake',
    kind: 'backfill',
    first_slot: 1,
    last_slot: last,
    next_slot: 1,
    state: 'open',
    detail: null,
    created_at: 0,
  });
  const written = async () =>
    Number(/^parhelion_sinks_rows_total\{sink="lake"\} (\d+)$/m.exec(await registry.text())?.[1] ?? 0);
  const seen: { readonly rows: number; readonly mib: number; readonly ms: number }[] = [];
  runner.start();
  try {
    const start = performance.now();
    const startCpu = process.cpuUsage();
    for (let count = 0; count < rows; ) {
      await sleep(100);
      count = await written();
      seen.push({ rows: count, mib: process.memoryUsage.rss() / 1_048_576, ms: performance.now() - start });
      thin(join(target, `1-${last}`));
      if (seen.length % 100 === 0) say(`backfill: ${count} of ${rows} rows, ${seen.at(-1)!.mib.toFixed(0)} MiB`);
    }
    const { user, system } = process.cpuUsage(startCpu);
    const task = await readTask(store.read, 'a');
    assert.ok(task!.state === 'open' && task!.next_slot > 1, task!.detail ?? '');
    // A part between two looks has the memory of the later one.
    const mostOf = (from: number, to: number) => {
      const within = seen.filter((one) => one.rows > rows * from && one.rows <= rows * to);
      const looks = within.length > 0 ? within : seen.filter((one) => one.rows > rows * from).slice(0, 1);
      return Math.max(...looks.map(({ mib }) => mib));
    };
    const [second, lastQuarter] = [mostOf(0.25, 0.5), Math.max(mostOf(0.75, 1), seen.at(-1)!.mib)];
    const ratio = ratioOf([lastQuarter], [second]);
    const { ms, rows: count } = seen.at(-1)!;
    const result: RowResult = {
      row: 'sinks-backfill',
      name: 'memory of a back-fill into Parquet files, most of the last quarter over the second',
      unit: 'MiB',
      ours: [lastQuarter],
      baseline: [second],
      ratio,
      goal: `<= ${GROWTH}x the memory`,
      verdict: size === 'smoke' ? 'not assessed' : ratio.median <= GROWTH ? 'met' : 'missed',
      sizes: { rows, transactions: SIZES[size].transactions },
      seed,
      notes: [
        `${count} rows, ${((count / ms) * 1_000).toFixed(0)} rows/s, ${((user + system) / count).toFixed(1)} us of CPU per row; from decoded blocks`,
        `RSS of the process by eighth: ${Array.from({ length: 8 }, (_, at) => mostOf(at / 8, (at + 1) / 8).toFixed(0)).join(', ')} MiB`,
      ],
    };
    return [result];
  } finally {
    await runner.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Older batches go; the newest ones have the position. */
function thin(folder: string): void {
  let batches: string[];
  try {
    batches = readdirSync(folder);
  } catch {
    return;
  }
  for (const name of batches.toSorted((a, b) => Number(a) - Number(b)).slice(0, -4))
    rmSync(join(folder, name), { recursive: true, force: true });
}

export const sinksBackfillRow: Row = { id: 'sinks-backfill', name: 'the memory of a back-fill', run };
