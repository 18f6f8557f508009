/**
 * G2: from a node's answers to committed blocks, in the one thread that indexes, with all default plugins, many webhooks and many wallets:
 * on SQLite, the same with the ledger, and on PostgreSQL.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import {
  type Bed,
  FIRST_SLOT,
  type IngestWorld,
  ingest,
  RELEASED,
  reached,
  type Seen,
  startIngestWorld,
  type WorldSizes,
} from '../samples/ingest-world.ts';
import { startRole } from '../samples/role-process.ts';
import { syntheticBlock, VERSION_1_SHARE } from '../samples/synthetic-block.ts';

/** Slots of 200 ms. */
const CHAIN_BLOCKS_PER_SECOND = 5;
const GOAL = 4;
const STEADY = 0.8;
const TRACED_BLOCKS = 20;
/** With the ledger and on PostgreSQL, where a full run of all would take an hour. */
const OTHERS_BLOCKS = 2_000;
const HOUR_BLOCKS = 3_600 * CHAIN_BLOCKS_PER_SECOND;

interface Kind {
  readonly row: string;
  readonly name: string;
  readonly note: string;
  readonly config?: object;
  readonly onPostgres?: true;
}

const KINDS: readonly Kind[] = [
  { row: 'G2', name: 'durable ingest', note: 'SQLite, WAL, synchronous=FULL' },
  {
    row: 'G2/ledger',
    name: 'durable ingest, with the ledger and its index of all addresses',
    note: 'SQLite, WAL, synchronous=FULL',
    config: { ledger: { retain: { hours: 24 } } },
  },
  { row: 'G2/postgres', name: 'durable ingest on PostgreSQL', note: 'PostgreSQL without fsync', onPostgres: true },
];

const SIZES: Readonly<Record<RunOptions['size'], WorldSizes>> = {
  full: {
    blocks: 20_000,
    transactions: 1_500,
    templates: 8,
    webhooks: 1_000,
    addressesEach: 1_000,
    wallets: 10_000,
    hits: 20,
  },
  quick: {
    blocks: 120,
    transactions: 1_500,
    templates: 4,
    webhooks: 100,
    addressesEach: 1_000,
    wallets: 1_000,
    hits: 20,
  },
  smoke: { blocks: 8, transactions: 60, templates: 2, webhooks: 2, addressesEach: 20, wallets: 20, hits: 4 },
};

async function run(options: RunOptions): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const kind of KINDS) {
    // Tests have the others.
    if (options.size === 'smoke' && kind !== KINDS[0]) continue;
    const server = kind.onPostgres === true ? await startPostgresServer({ flags: ['-c', 'autovacuum=on'] }) : null;
    try {
      results.push(await ofKind(kind, options, server?.url ?? null));
    } finally {
      await server?.stop();
    }
  }
  return results;
}

async function ofKind(kind: Kind, { size, seed, say }: RunOptions, database: string | null): Promise<RowResult> {
  const isFirst = kind === KINDS[0];
  const sizes = isFirst ? SIZES[size] : { ...SIZES[size], blocks: Math.min(SIZES[size].blocks, OTHERS_BLOCKS) };
  say(`${kind.row}: ${sizes.webhooks} webhooks with ${sizes.addressesEach} addresses each, ${sizes.wallets} wallets`);
  const world = await startIngestWorld({ sizes, seed, config: kind.config ?? {}, database });
  try {
    const before = await world.storeBytes();
    const seen = await ingest(world.bed, sizes, say);
    const rows = await checkRows(world, sizes);
    const parse = parseCost(seed, sizes);
    const traced = isFirst ? [`fsyncs per block: ${await fsyncsPerBlock(world.emptyBed(), size)}`] : [];
    return result(kind, seen, sizes, seed, size, [
      `block ${seen.p50Ms} ms at p50, ${seen.p99Ms} ms at p99 (upper bounds of the histogram's buckets), commit included; ${seen.cpuMs} ms of CPU per block`,
      `last quarter ${seen.quarters.at(-1)!.toFixed(1)} blocks/s, first ${seen.quarters[0]!.toFixed(1)}`,
      `${rows} deliveries, ${(((await world.storeBytes()) - before) / rows).toFixed(0)} bytes of database per delivery, rows of wallets included`,
      `an hour of outage, ${HOUR_BLOCKS.toLocaleString('en')} blocks, ${catchUp(seen.quarters)}`,
      `RSS ${seen.rssMib.toFixed(0)} MiB at the end, ${seen.peakMib.toFixed(0)} MiB at most`,
      ...traced,
      `parse of such a block alone: ${parse.ms.toFixed(1)} ms, ${parse.cpuMs.toFixed(1)} ms of CPU; empty durable commits on the same disk: ${commitRate(world.bed.dataDir).toFixed(0)}/s`,
      `${VERSION_1_SHARE * 100} % of all transactions are of version 1`,
      `${kind.note}; role indexer in a process of its own, all default plugins on, blocks over HTTP from another process`,
    ]);
  } finally {
    world.close();
  }
}

/** While the chain goes on. */
function catchUp(quarters: readonly number[]): string {
  const left = Math.min(...quarters) - CHAIN_BLOCKS_PER_SECOND;
  return left <= 0 ? 'is never caught up' : `is caught up in ${(HOUR_BLOCKS / left / 60).toFixed(0)} minutes`;
}

/** Every block is there, and each watched transaction of it once. Returns the number of deliveries. */
async function checkRows({ count }: IngestWorld, { blocks, hits }: WorldSizes): Promise<number> {
  const last = "select slot as n from follow_cursors where processor = '*'";
  assert.equal(await count(last), FIRST_SLOT + blocks - 1);
  assert.equal(await count("select count(*) as n from outbox where kind = 'webhooks.deliver'"), blocks * hits);
  return blocks * hits;
}

/** Counts the system calls of a short run of its own: tracing slows it down. */
async function fsyncsPerBlock(bed: Bed, size: RunOptions['size']): Promise<string> {
  if (size === 'smoke' || spawnSync('strace', ['--version']).status !== 0) return 'not counted';
  const out = join(bed.dataDir, 'strace.txt');
  const wrapper = ['strace', '-f', '-qq', '-e', 'trace=fsync,fdatasync', '-o', out];
  const indexer = await startRole('indexer', bed, { wrapper });
  const calls = () =>
    readFileSync(out, 'utf8')
      .split('\n')
      .filter((line) => /f(data)?sync\(/.test(line)).length;
  try {
    const start = { released: await indexer.metric(RELEASED), calls: calls() };
    const released = await reached(indexer, start.released + TRACED_BLOCKS);
    return ((calls() - start.calls) / (released - start.released)).toFixed(2);
  } finally {
    await indexer.stop();
  }
}

/** Wall and CPU time of `JSON.parse` on one block. */
function parseCost(seed: number, { transactions }: WorldSizes): { ms: number; cpuMs: number } {
  const { body } = syntheticBlock({ seed, transactions, slot: 1, version1Share: VERSION_1_SHARE });
  let sink = 0;
  const start = performance.now();
  const startCpu = process.cpuUsage();
  let rounds = 0;
  for (; performance.now() - start < 1_000; rounds++) sink += Object.keys(JSON.parse(body.toString()) as object).length;
  assert.equal(sink, rounds * 3);
  const { user, system } = process.cpuUsage(startCpu);
  return { ms: (performance.now() - start) / rounds, cpuMs: (user + system) / 1_000 / rounds };
}

function commitRate(folder: string): number {
  const db = new Database(join(folder, 'empty.db'));
  try {
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = FULL');
    db.exec('create table t (n integer primary key)');
    const insert = db.prepare('insert or replace into t values (1)');
    const start = performance.now();
    let rounds = 0;
    for (; performance.now() - start < 1_000; rounds++) insert.run();
    return rounds / ((performance.now() - start) / 1_000);
  } finally {
    db.close();
  }
}

function result(
  kind: Kind,
  seen: Seen,
  sizes: WorldSizes,
  seed: number,
  size: RunOptions['size'],
  notes: string[],
): RowResult {
  const baseline = seen.quarters.map(() => CHAIN_BLOCKS_PER_SECOND);
  const ratio = ratioOf(seen.quarters, baseline);
  const isSteady = seen.quarters.at(-1)! >= STEADY * seen.quarters[0]!;
  return {
    row: kind.row,
    name: kind.name,
    unit: 'blocks/s, one figure per quarter',
    ours: seen.quarters,
    baseline,
    ratio,
    goal: `>= ${GOAL}x the chain's ${CHAIN_BLOCKS_PER_SECOND} blocks/s, last quarter >= ${STEADY}x the first`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL && isSteady ? 'met' : 'missed',
    sizes: { ...sizes },
    seed,
    notes,
  };
}

export const row: Row = { id: 'G2', name: 'durable ingest', isLong: true, run };
