/** What a leaf costs on disk in a large tree, and how long its proof takes with empty and with full caches. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createPageCache, createPathReader } from '../../../plugins/compression/rpc/path-reader.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { leadsToRoot, type PathPages } from '../../../plugins/compression/trees/page-book.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { randomLeaves } from '../samples/growing-tree.ts';
import { HEIGHT, openStoredTree, type StoredTree, TREE } from '../samples/stored-tree.ts';
import { percentile } from '../steady-load.ts';

const BATCH = 10_000;
const LEAVES = { full: 5_000_000, quick: 200_000, smoke: 300 } as const;
const READS = { full: 20_000, quick: 10_000, smoke: 50 } as const;
const CACHE_BYTES = 67_108_864;
/** Two nodes of 32 bytes. */
const BARE_BYTES = 64;

async function run(options: RunOptions): Promise<RowResult[]> {
  const { size, seed, say } = options;
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-leaves-'));
  const path = join(folder, 'tree.db');
  try {
    const tree = await grow(path, options);
    const { root } = tree;
    await tree.store.write(async (tx) => {
      const row = [TREE, new Uint8Array(32).fill(1), 1, null, HEIGHT, 2_400, null, tree.size, root, tree.size, 'ok'];
      await tx.insertMany('compression_trees', COLUMNS, [row]);
    });
    const bytes = await tree.bytes();
    say(`${tree.size} leaves in ${(bytes / 2 ** 20).toFixed(0)} MiB`);
    const reopened = await openStoredTree(path);
    try {
      const reads = await measureReads(reopened.store, tree, READS[size], seed);
      return [onDisk(bytes, tree, seed), ...reads.map((read) => proofs(read, tree, seed))];
    } finally {
      await reopened.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const COLUMNS = [
  'id',
  'key',
  'type',
  'queue',
  'height',
  'root_capacity',
  'next_tree',
  'seq',
  'root',
  'next_index',
  'status',
];

async function grow(path: string, { size, seed, say }: RunOptions): Promise<StoredTree> {
  const tree = await openStoredTree(path);
  const random = createSfc32(seed);
  const batch = Math.min(BATCH, LEAVES[size]);
  while (tree.size < LEAVES[size]) {
    await tree.append(randomLeaves(random, batch), { undo: false });
    if (tree.size % 500_000 === 0) say(`${tree.size} leaves`);
  }
  return tree;
}

interface Reads {
  readonly name: string;
  /** Ascending. */
  readonly us: readonly number[];
}

/** The same leaves twice: first nothing is in any cache of this process, then everything that fits. */
async function measureReads(
  store: Store,
  { size, root, hashing }: StoredTree,
  count: number,
  seed: number,
): Promise<Reads[]> {
  const random = createSfc32(seed + 9);
  const leaves = Array.from({ length: count }, () => random.below(size));
  const reader = createPathReader({ store, cache: createPageCache(CACHE_BYTES) });
  const place = (leafIndex: number) => ({
    leafIndex,
    tree: { id: TREE, key: new Uint8Array(32), height: HEIGHT, seq: size, root },
  });
  const pass = async (name: string): Promise<Reads> => {
    const us: number[] = [];
    for (const [at, leaf] of leaves.entries()) {
      const start = performance.now();
      const pages = (await reader.pathsNow(store.read as CompressionDb, [place(leaf)]))?.[0] ?? null;
      us.push((performance.now() - start) * 1_000);
      if (at % 100 === 0) checkPath(pages, place(leaf), hashing);
    }
    return { name, us: us.sort((a, b) => a - b) };
  };
  return [await pass('cold'), await pass('warm')];
}

function checkPath(
  pages: PathPages | null,
  place: Parameters<typeof leadsToRoot>[2],
  { poseidon, zeros }: StoredTree['hashing'],
): void {
  assert.ok(pages !== null && leadsToRoot(poseidon, zeros, place, pages), 'a proof does not lead to the root');
}

function onDisk(bytes: number, tree: StoredTree, seed: number): RowResult {
  return {
    row: 'leaves/disk',
    name: 'bytes per leaf',
    unit: 'bytes',
    ours: [bytes / tree.size],
    baseline: [BARE_BYTES],
    ratio: null,
    goal: 'a report; two nodes of 32 bytes are the least',
    verdict: 'not assessed',
    sizes: { leaves: tree.size, height: HEIGHT, databaseBytes: bytes },
    seed,
    notes: ['pages of one V1 tree in SQLite, checks included; rows of accounts are not counted'],
  };
}

function proofs({ name, us }: Reads, tree: StoredTree, seed: number): RowResult {
  const mean = us.reduce((sum, one) => sum + one, 0) / us.length;
  return {
    row: `leaves/${name}`,
    name: `paths of random leaves, ${name}`,
    unit: 'us, p50',
    ours: [percentile(us, 0.5)],
    baseline: [],
    ratio: null,
    goal: 'a report',
    verdict: 'not assessed',
    sizes: { leaves: tree.size, reads: us.length, cacheBytes: CACHE_BYTES },
    seed,
    notes: [
      `p99 ${percentile(us, 0.99).toFixed(1)} us, ${Math.round(1_000_000 / mean)} paths/s`,
      name === 'cold'
        ? 'database just opened, page cache empty and filling; the files may be in the cache of the system'
        : 'the same leaves again: pages that did not fit the cache are read again',
    ],
  };
}

export const row: Row = { id: 'leaves', name: 'a large tree', isLong: true, run };
