/**
 * G2: from a node's answers to committed blocks, in the one thread that indexes, with all default plugins, many webhooks and many wallets:
 * on SQLite, the same with the ledger, and on PostgreSQL.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { decodeResponse } from '../../../src/solana/decode/response.ts';
import { openPostgresStore } from '../../../src/store/postgres.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { type RoleProcess, startRole } from '../samples/role-process.ts';
import { syntheticBlock, VERSION_1_SHARE } from '../samples/synthetic-block.ts';
import { siblingModule } from '../sibling.ts';

/** Slots of 200 ms. */
const CHAIN_BLOCKS_PER_SECOND = 5;
const GOAL = 4;
const STEADY = 0.8;
const FIRST_SLOT = 1_000;
const KEY = '1f0c2f4e-5a0b-4c55-9a0e-6f3b1f2d7c11';
const RELEASED = 'parhelion_follow_blocks_released_total';
const TRACED_BLOCKS = 20;

interface Sizes {
  readonly blocks: number;
  readonly transactions: number;
  readonly templates: number;
  readonly webhooks: number;
  readonly addressesEach: number;
  readonly wallets: number;
  /** Transactions of each template that a webhook watches; as many others are of a wallet. */
  readonly hits: number;
}

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

const SIZES: Readonly<Record<RunOptions['size'], Sizes>> = {
  full: {
    blocks: 2_000,
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

interface Bed {
  readonly dataDir: string;
  readonly file: string;
  /** Null: SQLite in `dataDir`. */
  readonly database: string | null;
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const kind of KINDS) {
    // Tests have the others.
    if (options.size === 'smoke' && kind !== KINDS[0]) continue;
    const server = kind.onPostgres === true ? await startPostgresServer() : null;
    try {
      results.push(await ofKind(kind, options, server?.url ?? null));
    } finally {
      await server?.stop();
    }
  }
  return results;
}

async function ofKind(kind: Kind, { size, seed, say }: RunOptions, database: string | null): Promise<RowResult> {
  const sizes = SIZES[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-ingest-'));
  const upstream = await startUpstream(seed, sizes, sizes.blocks);
  const wallets = walletsOf(sizes, seed);
  const place = (name: string, follows: boolean, url = upstream.url, followed = wallets) =>
    makeBed({ folder, name, url, follows, wallets: followed, kind, database });
  try {
    const bed = place('main', false);
    say(`${kind.row}: ${sizes.webhooks} webhooks with ${sizes.addressesEach} addresses each, ${sizes.wallets} wallets`);
    await createWebhooks(bed, sizes, seed);
    await followWallets((url) => place('main', true, url), sizes, seed);
    const before = await storeBytes(bed);
    const seen = await ingest(place('main', true), sizes, say);
    const rows = await checkRows(bed, sizes);
    const parse = parseCost(seed, sizes);
    const isFirst = kind === KINDS[0];
    const traced = isFirst
      ? [`fsyncs per block: ${await fsyncsPerBlock(place('traced', true, upstream.url, []), size)}`]
      : [];
    return result(kind, seen, sizes, seed, size, [
      `block ${seen.p50Ms} ms at p50, ${seen.p99Ms} ms at p99 (upper bounds of the histogram's buckets), commit included; ${seen.cpuMs} ms of CPU per block`,
      `last quarter ${seen.quarters.at(-1)!.toFixed(1)} blocks/s, first ${seen.quarters[0]!.toFixed(1)}`,
      `${rows} deliveries, ${(((await storeBytes(bed)) - before) / rows).toFixed(0)} bytes of database per delivery, rows of wallets included`,
      `RSS ${seen.rssMib.toFixed(0)} MiB at the end, ${seen.peakMib.toFixed(0)} MiB at most`,
      ...traced,
      `parse of such a block alone: ${parse.ms.toFixed(1)} ms, ${parse.cpuMs.toFixed(1)} ms of CPU; empty durable commits on the same disk: ${commitRate(folder).toFixed(0)}/s`,
      `${VERSION_1_SHARE * 100} % of all transactions are of version 1`,
      `${kind.note}; role indexer in a process of its own, all default plugins on, blocks over HTTP from another process`,
    ]);
  } finally {
    upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function startUpstream(seed: number, { templates, transactions }: Sizes, blocks: number): Promise<BenchServer> {
  const args = [seed, templates, transactions, FIRST_SLOT, blocks].map(String);
  return startBenchServer(siblingModule(import.meta.url, '../samples/block-upstream.ts'), args);
}

interface BedParts {
  readonly folder: string;
  readonly name: string;
  readonly url: string;
  readonly follows: boolean;
  readonly wallets: readonly string[];
  readonly kind: Kind;
  readonly database: string | null;
}

function makeBed({ folder, name, url, follows, wallets, kind, database }: BedParts): Bed {
  const dataDir = join(folder, name);
  mkdirSync(dataDir, { recursive: true });
  const file = join(folder, `${name}.yaml`);
  const config = {
    ...{ dataDir, http: { port: 0 }, admin: { port: 0 }, upstream: { urls: [url] } },
    follow: { enabled: follows, startSlot: FIRST_SLOT },
    webhooks: { maxPerProject: 10_000 },
    wallet: { follow: wallets },
    log: { level: 'fatal', format: 'json' },
    ...(database === null ? {} : { store: { url: database } }),
    ...kind.config,
  };
  writeFileSync(file, JSON.stringify(config));
  return { dataDir, file, database };
}

/** Those of transactions that no webhook watches, and random ones. */
function walletsOf(sizes: Sizes, seed: number): string[] {
  const random = createSfc32(seed + 98);
  const active = foundKeys(sizes, seed, sizes.hits);
  const others = Array.from({ length: sizes.wallets - active.length }, () => encode32(random.fill(new Uint8Array(32))));
  return [...active, ...others];
}

/** Beside a chain of one block: the past of all wallets, which is empty, is read before anything is measured. */
async function followWallets(place: (url: string) => Bed, sizes: Sizes, seed: number): Promise<void> {
  const upstream = await startUpstream(seed, sizes, 1);
  const bed = place(upstream.url);
  const indexer = await startRole('indexer', bed);
  try {
    const waiting = 'select count(*) as n from wallet_wallets where live_from is null';
    const all = 'select count(*) as n from wallet_wallets';
    await reached(indexer, 1);
    while ((await count(bed, all)) < sizes.wallets || (await count(bed, waiting)) > 0) await sleep(200);
  } finally {
    await indexer.stop();
    upstream.stop();
  }
}

/** Random addresses, and among them one of each transaction that is to be found. */
async function createWebhooks(bed: Bed, sizes: Sizes, seed: number): Promise<void> {
  const api = await startRole('api', bed, { env: { PARHELION_BOOTSTRAP_KEY: KEY } });
  const random = createSfc32(seed + 99);
  const wanted = foundKeys(sizes, seed, 0);
  try {
    for (let hook = 0; hook < sizes.webhooks; hook++) {
      const own = wanted.filter((_, at) => at % sizes.webhooks === hook);
      const others = Array.from({ length: sizes.addressesEach - own.length }, () =>
        encode32(random.fill(new Uint8Array(32))),
      );
      const response = await fetch(`${api.api}/v0/webhooks?api-key=${KEY}`, {
        method: 'POST',
        body: JSON.stringify({
          webhookURL: 'https://receiver.example/hook',
          webhookType: 'raw',
          accountAddresses: [...own, ...others],
        }),
      });
      assert.equal(response.status, 200, await response.text());
    }
  } finally {
    await api.stop();
  }
}

/** The first keys of `hits` transactions of each template, after those that are left out: no other transaction has them. */
function foundKeys({ templates, transactions, hits }: Sizes, seed: number, leaveOut: number): string[] {
  return Array.from({ length: templates }, (_, at) => {
    const { body } = syntheticBlock({ seed: seed + at, transactions, slot: 1, version1Share: VERSION_1_SHARE });
    const block = decodeBlock(1, (decodeResponse(body) as { result: unknown }).result);
    const others = block.transactions.filter((tx) => !tx.isVote).slice(leaveOut, leaveOut + hits);
    assert.equal(others.length, hits, 'too few transactions to be found');
    return others.map((tx) => encode32(block.keys.bytes(tx.keys[0]!)));
  }).flat();
}

interface Seen {
  /** Blocks per second of each quarter. */
  readonly quarters: readonly number[];
  readonly p50Ms: string;
  readonly p99Ms: string;
  /** CPU time per block, all threads of the process; what others do on the machine shows less in it. */
  readonly cpuMs: string;
  readonly rssMib: number;
  readonly peakMib: number;
}

async function ingest(bed: Bed, sizes: Sizes, say: (text: string) => void): Promise<Seen> {
  // The first one was there before the wallets.
  const blocks = sizes.blocks - 1;
  const indexer = await startRole('indexer', bed);
  try {
    const quarters: number[] = [];
    let mark = { released: await indexer.metric(RELEASED), ms: performance.now() };
    const startCpuMs = indexer.cpuMs();
    const start = mark.released;
    while (quarters.length < 4) {
      const until = start + ((blocks - start) * (quarters.length + 1)) / 4;
      const released = await reached(indexer, until);
      const ms = performance.now();
      quarters.push((released - mark.released) / ((ms - mark.ms) / 1_000));
      mark = { released, ms };
      say(`G2: ${released} of ${blocks} blocks, ${quarters.at(-1)!.toFixed(1)} blocks/s`);
    }
    const text = await indexer.metrics();
    const matched = await indexer.metric('parhelion_wallet_rows_matched_total');
    assert.ok(matched >= blocks * sizes.hits, `${matched} rows of wallets`);
    const spentMs = (indexer.cpuMs() ?? Number.NaN) - (startCpuMs ?? Number.NaN);
    const cpuMs = (spentMs / (mark.released - start)).toFixed(1);
    const [rssMib, peakMib] = [indexer.memory('VmRSS') / 1_024, indexer.memory('VmHWM') / 1_024];
    return { quarters, p50Ms: quantile(text, 0.5), p99Ms: quantile(text, 0.99), cpuMs, rssMib, peakMib };
  } finally {
    await indexer.stop();
  }
}

/** Resolves with the number of released blocks once it is as large as wanted. */
async function reached(indexer: RoleProcess, wanted: number): Promise<number> {
  for (;;) {
    const released = await indexer.metric(RELEASED);
    if (released >= Math.floor(wanted)) return released;
    if (indexer.child.exitCode !== null) throw new Error('the indexer ended');
    await sleep(100);
  }
}

/** Upper bound of the bucket of `parhelion_follow_commit_seconds` that holds the quantile. */
function quantile(text: string, share: number): string {
  const buckets = [...text.matchAll(/^parhelion_follow_commit_seconds_bucket\{le="([^"]+)"[^}]*\} (\d+)/gm)];
  const total = Number(buckets.at(-1)?.[2] ?? 0);
  const bound = buckets.find(([, , below]) => Number(below) >= share * total)?.[1] ?? '?';
  return bound === '+Inf' ? `over ${buckets.at(-2)?.[1]} s` : String(Number(bound) * 1_000);
}

/** Every block is there, and each watched transaction of it once. Returns the number of deliveries. */
async function checkRows(bed: Bed, { blocks, hits }: Sizes): Promise<number> {
  const last = "select slot as n from follow_cursors where processor = '*'";
  assert.equal(await count(bed, last), FIRST_SLOT + blocks - 1);
  assert.equal(await count(bed, "select count(*) as n from outbox where kind = 'webhooks.deliver'"), blocks * hits);
  return blocks * hits;
}

async function storeBytes(bed: Bed): Promise<number> {
  if (bed.database !== null) return await count(bed, 'select pg_database_size(current_database()) as n');
  const files = ['parhelion.db', 'parhelion.db-wal'].map((name) => join(bed.dataDir, name));
  return files.reduce((sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
}

async function count({ dataDir, database }: Bed, text: string): Promise<number> {
  const store =
    database === null
      ? openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 })
      : await openPostgresStore({ url: database, poolSize: 2, statementTimeoutMs: 60_000 });
  try {
    const { rows } = await sql.raw<{ n: number }>(text).execute(store.read);
    return Number(rows[0]?.n);
  } finally {
    await store.close();
  }
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
function parseCost(seed: number, { transactions }: Sizes): { ms: number; cpuMs: number } {
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
  sizes: Sizes,
  seed: number,
  size: RunOptions['size'],
  notes: string[],
): RowResult {
  const baseline = seen.quarters.map(() => CHAIN_BLOCKS_PER_SECOND);
  const ratio = ratioOf(seen.quarters, baseline);
  const isSteady = seen.quarters.at(-1)! >= STEADY * seen.quarters[0]!;
  return {
    ...{
      row: kind.row,
      name: kind.name,
      unit: 'blocks/s, one figure per quarter',
      ours: seen.quarters,
      baseline,
      ratio,
    },
    goal: `>= ${GOAL}x the chain's ${CHAIN_BLOCKS_PER_SECOND} blocks/s, last quarter >= ${STEADY}x the first`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL && isSteady ? 'met' : 'missed',
    sizes: { ...sizes },
    ...{ seed, notes },
  };
}

export const row: Row = { id: 'G2', name: 'durable ingest', isLong: true, run };
