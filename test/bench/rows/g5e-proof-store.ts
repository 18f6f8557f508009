/** G5e: what the pages are for. The siblings of random leaves from the store, against one read per node. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { createPageCache, createPathReader } from '../../../plugins/compression/rpc/path-reader.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { eachSibling } from '../../../src/solana/merkle/path.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { PROOF_TREE_HEIGHT, type ProofWorld, plantWorld } from '../samples/proof-world.ts';

const GOAL = 4;
/** As the plugin has it when nothing is configured. */
const CACHE_BYTES = 67_108_864;
const PROOFS_PER_ROUND = 1_000;
/** Of leaves that were drawn beforehand: together they go through most pages. */
const LISTS = 50;
const SIZES = {
  full: { leaves: 2 ** 20, pairs: 10, minMs: 500 },
  quick: { leaves: 2 ** 20, pairs: 10, minMs: 500 },
  smoke: { leaves: 300, pairs: 1, minMs: 1 },
} as const;

/** Answers a number that depends on every byte of the proofs of these leaves. */
type Prove = (leaves: readonly number[]) => Promise<number>;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { leaves: count, pairs, minMs } = SIZES[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-pages-'));
  const store = openSqliteStore({ path: join(folder, 'pages.db'), busyTimeoutMs: 5_000 });
  say(`a tree of ${count} leaves`);
  const zeros = createHashing({ add: () => undefined }).zeros;
  const world = await plantWorld(store, count, seed, { withAccounts: false });
  const nodes = openNodes(join(folder, 'nodes.db'), world, count);
  try {
    const tree = await (store.read as CompressionDb)
      .selectFrom('compression_trees')
      .selectAll()
      .executeTakeFirstOrThrow();
    const reader = createPathReader({ store, cache: createPageCache(CACHE_BYTES) });
    const ours: Prove = async (leaves) => {
      let sink = 0;
      for (const leafIndex of leaves) {
        const pages = (await reader.pathsNow(store.read as CompressionDb, [{ tree, leafIndex }]))![0]!;
        eachSibling(PROOF_TREE_HEIGHT, leafIndex, pages, zeros, (bytes, offset) => {
          sink += bytes[offset + 31] as number;
        });
      }
      return sink;
    };
    const baseline: Prove = async (leaves) => {
      let sink = 0;
      for (const leafIndex of leaves) for (const node of nodes.siblings(leafIndex, zeros)) sink += node[31] as number;
      return sink;
    };
    const random = createSfc32(seed + 2);
    const lists = Array.from({ length: size === 'smoke' ? 2 : LISTS }, () =>
      Array.from({ length: PROOFS_PER_ROUND }, () => random.below(count)),
    );
    // Warms both up as well.
    for (const leaves of lists) assert.equal(await ours(leaves), await baseline(leaves));
    const samples = { ours: [] as number[], baseline: [] as number[] };
    for (let pair = 0; pair < pairs; pair += 1)
      for (const who of pair % 2 === 0 ? (['ours', 'baseline'] as const) : (['baseline', 'ours'] as const))
        samples[who].push(await rate(who === 'ours' ? ours : baseline, lists, minMs));
    const ratio = ratioOf(samples.ours, samples.baseline);
    return [
      {
        row: 'G5e',
        name: 'siblings of a leaf from the store',
        unit: 'proofs/s',
        ...samples,
        ratio,
        goal: `>= ${GOAL}x one read per node`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        sizes: { leaves: count, height: PROOF_TREE_HEIGHT, cacheBytes: CACHE_BYTES },
        seed,
        notes: ['both on SQLite and warm; ours with its cache, the other with prepared point reads of 20 stored nodes'],
      },
    ];
  } finally {
    nodes.close();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Proofs per second. */
async function rate(prove: Prove, lists: readonly (readonly number[])[], minMs: number): Promise<number> {
  const start = performance.now();
  let rounds = 0;
  for (; performance.now() - start < minMs || rounds === 0; rounds += 1) await prove(lists[rounds % lists.length]!);
  return (rounds * PROOFS_PER_ROUND) / ((performance.now() - start) / 1_000);
}

const LEVEL = 2 ** 27;

/** The same tree with a row per node. */
function openNodes(path: string, { pages }: ProofWorld, count: number) {
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.exec('create table nodes (id integer primary key, hash blob not null)');
  const insert = db.prepare('insert into nodes values (?, ?)');
  db.transaction(() => {
    for (const [key, bytes] of pages) {
      const [group, number] = [Math.floor(key / 2 ** 34), key % 2 ** 34];
      for (let depth = 0, at = 0; depth < 6; depth += 1)
        for (let place = 0; place < 64 >> depth; place += 1, at += 32) {
          const level = 6 * group + depth;
          const index = number * (64 >> depth) + place;
          if (level < PROOF_TREE_HEIGHT && index * 2 ** level < count)
            insert.run(level * LEVEL + index, Buffer.from(bytes.subarray(at, at + 32)));
        }
    }
  })();
  const get = db.prepare<[number], Buffer>('select hash from nodes where id = ?').pluck();
  return {
    siblings(leafIndex: number, zeros: Uint8Array): Uint8Array[] {
      const list: Uint8Array[] = [];
      for (let level = 0; level < PROOF_TREE_HEIGHT; level += 1) {
        const sibling = Math.floor(leafIndex / 2 ** level) ^ 1;
        const isStored = sibling * 2 ** level < count;
        const zero = zeros.subarray(32 * level, 32 * level + 32);
        list.push(isStored ? (get.get(level * LEVEL + sibling) ?? zero) : zero);
      }
      return list;
    },
    close: () => db.close(),
  };
}

export const row: Row = { id: 'G5e', name: 'proofs from the store', run };
