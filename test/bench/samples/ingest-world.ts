/** What durable ingest is measured in: a store with webhooks and wallets, and a node that has the blocks they are found in. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { decodeResponse } from '../../../src/solana/decode/response.ts';
import { openPostgresStore } from '../../../src/store/postgres.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, startBenchServer } from '../http.ts';
import { siblingModule } from '../sibling.ts';
import { type RoleProcess, startRole } from './role-process.ts';
import { syntheticBlock, VERSION_1_SHARE } from './synthetic-block.ts';

export const FIRST_SLOT = 1_000;
export const RELEASED = 'parhelion_follow_blocks_released_total';
const KEY = '1f0c2f4e-5a0b-4c55-9a0e-6f3b1f2d7c11';

export interface WorldSizes {
  readonly blocks: number;
  readonly transactions: number;
  readonly templates: number;
  readonly webhooks: number;
  readonly addressesEach: number;
  readonly wallets: number;
  /** Transactions of each template that a webhook watches; as many others are of a wallet. */
  readonly hits: number;
}

export interface WorldParts {
  readonly sizes: WorldSizes;
  readonly seed: number;
  /** Members of the configuration that differ from the defaults. */
  readonly config?: object;
  /** A PostgreSQL database; null: SQLite in the data directory. */
  readonly database?: string | null;
  /** Pause between two blocks of the node in ms; 0: all are there from the beginning. */
  readonly blockMs?: number;
}

/** Where a daemon is started. */
export interface Bed {
  readonly dataDir: string;
  readonly file: string;
}

export interface IngestWorld {
  /** Webhooks and wallets are in its store, and the first block. */
  readonly bed: Bed;
  readonly upstream: BenchServer;
  /** An empty store beside the same node. */
  emptyBed(): Bed;
  /** The number in the column `n` of the answer. */
  count(text: string): Promise<number>;
  /** Files on SQLite, the database on PostgreSQL. */
  storeBytes(): Promise<number>;
  close(): void;
}

export async function startIngestWorld(parts: WorldParts): Promise<IngestWorld> {
  const { sizes, seed, database = null, blockMs = 0 } = parts;
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-ingest-'));
  const upstream = await startUpstream(seed, sizes, sizes.blocks, blockMs);
  const close = () => {
    upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  const wallets = walletsOf(sizes, seed);
  const place = (name: string, url: string, follows: boolean, followed = wallets) =>
    makeBed(join(folder, name), parts, url, follows, followed);
  const store = { path: join(folder, 'main', 'parhelion.db'), database };
  try {
    await createWebhooks(place('main', upstream.url, false), `${upstream.url}/hook`, sizes, seed);
    await followWallets((url) => place('main', url, true), store, sizes, seed);
  } catch (error) {
    close();
    throw error;
  }
  return {
    bed: place('main', upstream.url, true),
    upstream,
    emptyBed: () => place('empty', upstream.url, true, []),
    count: (text) => count(store, text),
    async storeBytes() {
      if (database !== null) return await count(store, 'select pg_database_size(current_database()) as n');
      const files = [store.path, `${store.path}-wal`];
      return files.reduce((sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
    },
    close,
  };
}

function startUpstream(seed: number, sizes: WorldSizes, blocks: number, blockMs: number): Promise<BenchServer> {
  const args = [seed, sizes.templates, sizes.transactions, FIRST_SLOT, blocks, 0, blockMs].map(String);
  return startBenchServer(siblingModule(import.meta.url, './block-upstream.ts'), args);
}

function makeBed(dataDir: string, parts: WorldParts, url: string, follows: boolean, wallets: readonly string[]): Bed {
  mkdirSync(dataDir, { recursive: true });
  const file = `${dataDir}.yaml`;
  const config = {
    dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    upstream: { urls: [url] },
    follow: { enabled: follows, startSlot: FIRST_SLOT },
    webhooks: { maxPerProject: 10_000, allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
    wallet: { follow: wallets },
    log: { level: 'fatal', format: 'json' },
    ...(parts.database == null ? {} : { store: { url: parts.database } }),
    ...parts.config,
  };
  writeFileSync(file, JSON.stringify(config));
  return { dataDir, file };
}

/** Those of transactions that no webhook watches, and random ones. */
function walletsOf(sizes: WorldSizes, seed: number): string[] {
  const random = createSfc32(seed + 98);
  const active = foundKeys(sizes, seed, sizes.hits);
  const others = Array.from({ length: sizes.wallets - active.length }, () => encode32(random.fill(new Uint8Array(32))));
  return [...active, ...others];
}

/** Beside a chain of one block. Reading the past of wallets is a job, which no role here runs. */
async function followWallets(
  place: (url: string) => Bed,
  store: StorePlace,
  sizes: WorldSizes,
  seed: number,
): Promise<void> {
  const upstream = await startUpstream(seed, sizes, 1, 0);
  const bed = place(upstream.url);
  const indexer = await startRole('indexer', bed);
  try {
    const waiting = 'select count(*) as n from wallet_wallets where live_from is null';
    const all = 'select count(*) as n from wallet_wallets';
    await reached(indexer, 1);
    while ((await count(store, all)) < sizes.wallets || (await count(store, waiting)) > 0) await sleep(200);
  } finally {
    await indexer.stop();
    upstream.stop();
  }
}

/** Random addresses, and among them one of each transaction that is to be found. */
async function createWebhooks(bed: Bed, url: string, sizes: WorldSizes, seed: number): Promise<void> {
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
          webhookURL: url,
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
function foundKeys({ templates, transactions, hits }: WorldSizes, seed: number, leaveOut: number): string[] {
  return Array.from({ length: templates }, (_, at) => {
    const { body } = syntheticBlock({ seed: seed + at, transactions, slot: 1, version1Share: VERSION_1_SHARE });
    const block = decodeBlock(1, (decodeResponse(body) as { result: unknown }).result);
    const others = block.transactions.filter((tx) => !tx.isVote).slice(leaveOut, leaveOut + hits);
    assert.equal(others.length, hits, 'too few transactions to be found');
    return others.map((tx) => encode32(block.keys.bytes(tx.keys[0]!)));
  }).flat();
}

export interface Seen {
  /** Blocks per second of each quarter. */
  readonly quarters: readonly number[];
  readonly p50Ms: string;
  readonly p99Ms: string;
  /** CPU time per block, all threads of the process; what others do on the machine shows less in it. */
  readonly cpuMs: string;
  readonly rssMib: number;
  readonly peakMib: number;
}

/** Starts an indexer and waits until it has all blocks. */
export async function ingest(bed: Bed, sizes: WorldSizes, say: (text: string) => void): Promise<Seen> {
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

/** Upper bound of the bucket of `parhelion_follow_commit_seconds` that holds the quantile. */
function quantile(text: string, share: number): string {
  const buckets = [...text.matchAll(/^parhelion_follow_commit_seconds_bucket\{le="([^"]+)"[^}]*\} (\d+)/gm)];
  const total = Number(buckets.at(-1)?.[2] ?? 0);
  const bound = buckets.find(([, , below]) => Number(below) >= share * total)?.[1] ?? '?';
  return bound === '+Inf' ? `over ${buckets.at(-2)?.[1]} s` : String(Number(bound) * 1_000);
}

/** Resolves with the number of released blocks once it is as large as wanted. */
export async function reached(indexer: RoleProcess, wanted: number): Promise<number> {
  for (;;) {
    const released = await indexer.metric(RELEASED);
    if (released >= Math.floor(wanted)) return released;
    if (indexer.child.exitCode !== null) throw new Error('the indexer ended');
    await sleep(100);
  }
}

interface StorePlace {
  readonly path: string;
  readonly database: string | null;
}

async function count({ path, database }: StorePlace, text: string): Promise<number> {
  const store =
    database === null
      ? openSqliteStore({ path, busyTimeoutMs: 5_000 })
      : await openPostgresStore({ url: database, poolSize: 2, statementTimeoutMs: 60_000 });
  try {
    const { rows } = await sql.raw<{ n: number }>(text).execute(store.read);
    return Number(rows[0]?.n);
  } finally {
    await store.close();
  }
}
