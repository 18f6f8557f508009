/** How fast the indexer reads blocks that are full of compressed accounts, on both engines, with all default plugins on. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Store } from '../../../src/ports/store.ts';
import { openPostgresStore } from '../../../src/store/postgres.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { startBenchServer } from '../http.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { COMPRESSION, LEAVES_PER_BLOCK } from '../samples/compression-blocks.ts';
import { startRole } from '../samples/role-process.ts';
import { siblingModule } from '../sibling.ts';

const BLOCKS = { full: 1_500, quick: 300, smoke: 8 } as const;
export const FIRST_SLOT = 1_000;
const RELEASED = 'parhelion_follow_blocks_released_total';

interface Sample {
  readonly leavesPerSecond: number;
  readonly cpuMsPerBlock: number;
  readonly rssMib: number;
  readonly bytesPerAccount: number;
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const results = [await onEngine('sqlite', options, null)];
  // The tests of the indexer run on both engines.
  if (options.size === 'smoke') return results;
  const server = await startPostgresServer();
  try {
    return [...results, await onEngine('postgres', options, server.url)];
  } finally {
    await server.stop();
  }
}

async function onEngine(engine: string, options: RunOptions, url: string | null): Promise<RowResult> {
  const { size, seed, say } = options;
  const blocks = BLOCKS[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-catch-up-'));
  const args = [seed, 0, 0, FIRST_SLOT, blocks].map(String);
  const upstream = await startBenchServer(siblingModule(import.meta.url, '../samples/block-upstream.ts'), args);
  try {
    const sample = await catchUp(folder, upstream.url, url, blocks);
    say(
      `catch-up/${engine}: ${Math.round(sample.leavesPerSecond)} leaves/s, ${sample.cpuMsPerBlock.toFixed(1)} ms of CPU per block`,
    );
    return {
      row: `catch-up/${engine}`,
      name: 'blocks of compressed accounts, far behind the tip',
      unit: 'leaves/s',
      ours: [sample.leavesPerSecond],
      baseline: [],
      ratio: null,
      goal: 'a report',
      verdict: 'not assessed',
      sizes: { blocks, ...COMPRESSION },
      seed,
      notes: [
        `${sample.cpuMsPerBlock.toFixed(1)} ms of CPU per block, RSS ${sample.rssMib.toFixed(0)} MiB at the end`,
        `${sample.bytesPerAccount.toFixed(0)} bytes of database per account: row, leaf, history, indexes and what reverts the newest blocks`,
        `role indexer in a process of its own, all default plugins on, blocks over HTTP from another one; ${url === null ? 'synchronous=FULL' : 'PostgreSQL without fsync'}`,
      ],
    };
  } finally {
    upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Leaves its data in `folder`/data. */
export async function catchUp(folder: string, upstream: string, url: string | null, blocks: number): Promise<Sample> {
  const bed = { dataDir: join(folder, 'data'), file: join(folder, 'bench.yaml') };
  mkdirSync(bed.dataDir);
  const config = {
    dataDir: bed.dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    upstream: { urls: [upstream] },
    follow: { startSlot: FIRST_SLOT },
    // The stand-in of a node has no accounts of trees.
    log: { level: 'fatal', format: 'json' },
    ...(url === null ? {} : { store: { url } }),
  };
  writeFileSync(bed.file, JSON.stringify(config));
  const indexer = await startRole('indexer', bed);
  let measured: Pick<Sample, 'leavesPerSecond' | 'cpuMsPerBlock' | 'rssMib'>;
  try {
    const released = async () => await indexer.metric(RELEASED);
    const reached = async (wanted: number): Promise<number> => {
      for (;;) {
        const now = await released();
        if (now >= wanted) return now;
        if (indexer.child.exitCode !== null) throw new Error('the indexer ended');
        await sleep(20);
      }
    };
    // The first blocks compile, and spend nothing.
    const first = Math.min(await reached(Math.floor(blocks / 8)), blocks - 1);
    const start = { ms: performance.now(), cpuMs: indexer.cpuMs() ?? Number.NaN };
    await reached(blocks);
    const seconds = (performance.now() - start.ms) / 1_000;
    measured = {
      leavesPerSecond: ((blocks - first) * LEAVES_PER_BLOCK) / seconds,
      cpuMsPerBlock: ((indexer.cpuMs() ?? Number.NaN) - start.cpuMs) / (blocks - first),
      rssMib: indexer.memory('VmRSS') / 1_024,
    };
  } finally {
    await indexer.stop();
  }
  const store = await openStore(bed.dataDir, url);
  try {
    const accounts = blocks * COMPRESSION.transactions * COMPRESSION.outputs;
    assert.equal(await one(store, 'select count(*) as n from compression_accounts'), accounts);
    assert.equal(
      await one(store, "select count(*) as n from compression_trees where status not in ('ok', 'unverified')"),
      0,
    );
    return { ...measured, bytesPerAccount: (await one(store, sizeQuery(store))) / accounts };
  } finally {
    await store.close();
  }
}

const openStore = (dataDir: string, url: string | null): Promise<Store> | Store =>
  url === null
    ? openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 })
    : openPostgresStore({ url, poolSize: 2, statementTimeoutMs: 60_000 });

const sizeQuery = ({ dialect }: Store): string =>
  dialect === 'sqlite'
    ? 'select page_count * page_size as n from pragma_page_count(), pragma_page_size()'
    : 'select pg_database_size(current_database()) as n';

async function one({ read }: Store, text: string): Promise<number> {
  const { rows } = await sql.raw<{ n: number }>(text).execute(read);
  return Number(rows[0]?.n);
}

export const row: Row = { id: 'catch-up', name: 'catch-up of compressed accounts', run };
