/** G4: what it takes to keep a tree, against the hashes that it cannot do without. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createPoseidon, type Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { createGrowingTree, plainRoot, randomLeaves } from '../samples/growing-tree.ts';
import { HASHES_PER_ROUND, inputsFor } from '../samples/hashers.ts';
import { openStoredTree } from '../samples/stored-tree.ts';

const GOAL = 0.85;
const DURABLE_GOAL = 0.5;
const HEIGHT = 26;

async function run(options: RunOptions): Promise<RowResult[]> {
  const poseidon = createPoseidon();
  const batches = options.size === 'smoke' ? [50] : [1_000, 10_000];
  const results = batches.map((batch) => appends(poseidon, batch, options));
  for (const batch of batches) results.push(await durableAppends(poseidon, batch, options));
  return [...results, work(poseidon, options)];
}

/** G4a: the root is checked once against one made in another way; then appends and bare hashes take turns. */
function appends(poseidon: Poseidon, batch: number, { size, seed, say }: RunOptions): RowResult {
  say(`appends of ${batch}`);
  const random = createSfc32(seed);
  const leaves = randomLeaves(random, batch);
  const tree = createGrowingTree(poseidon);
  for (let times = 0; times < 3; times += 1) tree.append(leaves);
  assert.deepEqual(tree.root, plainRoot(poseidon, Buffer.concat([leaves, leaves, leaves])));
  let hashes = 0;
  const before = tree.size;
  const mine = () => {
    const { hashCount, root } = tree.append(leaves);
    hashes += hashCount;
    return root[31] as number;
  };
  const src = inputsFor(2, random);
  const dst = Buffer.alloc(32 * HASHES_PER_ROUND);
  const bare = () => {
    poseidon.hash(2, src, 0, dst, 0, HASHES_PER_ROUND);
    return dst[31] as number;
  };
  const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const { oursMs, baselineMs, oursCpuMs, baselineCpuMs, sink } = paired({ run: mine }, { run: bare }, timing);
  const per = (ms: readonly number[], count: number) => ms.map((value) => value / count);
  const ratio = ratioOf(per(baselineMs, HASHES_PER_ROUND), per(oursMs, batch));
  const cpu = ratioOf(per(baselineCpuMs, HASHES_PER_ROUND), per(oursCpuMs, batch));
  return {
    row: `G4a/${batch}`,
    name: `appends of ${batch} leaves in memory`,
    unit: 'leaves/s (baseline: hashes/s)',
    ours: oursMs.map((ms) => (batch / ms) * 1_000),
    baseline: baselineMs.map((ms) => (HASHES_PER_ROUND / ms) * 1_000),
    ratio,
    goal: `>= ${GOAL}x`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
    sizes: { batch, height: HEIGHT, leaves: tree.size },
    seed,
    notes: [
      `${(hashes / (tree.size - before)).toFixed(3)} hashes per leaf`,
      `by CPU time ${cpu.median.toFixed(2)}x (${cpu.min.toFixed(2)}-${cpu.max.toFixed(2)})`,
      `sink ${sink}`,
    ],
  };
}

/** G4b: each batch is a commit that reaches the disk, with its pages and what would take them back. */
async function durableAppends(poseidon: Poseidon, batch: number, { size, seed, say }: RunOptions): Promise<RowResult> {
  say(`durable appends of ${batch}`);
  const [pairs, leastMs] = size === 'smoke' ? [2, 1] : [10, 500];
  const random = createSfc32(seed + 1);
  const leaves = randomLeaves(random, batch);
  const [src, dst] = [inputsFor(2, random), Buffer.alloc(32 * HASHES_PER_ROUND)];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-g4-'));
  const tree = await openStoredTree(join(folder, 'tree.db'));
  const rate = async (count: number, work: () => Promise<void> | void): Promise<number> => {
    const start = performance.now();
    let rounds = 0;
    do {
      await work();
      rounds += 1;
    } while (performance.now() - start < leastMs);
    return (rounds * count * 1_000) / (performance.now() - start);
  };
  const mine = () => rate(batch, () => tree.append(leaves, { undo: true }));
  const bare = () => rate(HASHES_PER_ROUND, () => poseidon.hash(2, src, 0, dst, 0, HASHES_PER_ROUND));
  try {
    for (let times = 0; times < 2; times += 1) await tree.append(leaves, { undo: true });
    assert.deepEqual(tree.root, plainRoot(poseidon, Buffer.concat([leaves, leaves])));
    await mine();
    const [ours, baseline]: [number[], number[]] = [[], []];
    for (let pair = 0; pair < pairs; pair += 1)
      for (const isMine of pair % 2 === 0 ? [true, false] : [false, true])
        (isMine ? ours : baseline).push(await (isMine ? mine() : bare()));
    const ratio = ratioOf(ours, baseline);
    return {
      row: `G4b/${batch}`,
      name: `durable appends of ${batch} leaves`,
      unit: 'leaves/s (baseline: hashes/s)',
      ours,
      baseline,
      ratio,
      seed,
      goal: `>= ${DURABLE_GOAL}x`,
      verdict: size === 'smoke' ? 'not assessed' : ratio.median >= DURABLE_GOAL ? 'met' : 'missed',
      sizes: { batch, height: HEIGHT, leaves: tree.size },
      notes: ['SQLite, WAL, synchronous=FULL; pages with their checks, and undo rows; through the store port'],
    };
  } finally {
    await tree.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** G4c: no node is hashed twice and none in vain. */
function work(poseidon: Poseidon, { size, seed, say }: RunOptions): RowResult {
  const random = createSfc32(seed);
  const ours: number[] = [];
  const expected: number[] = [];
  for (const span of size === 'smoke' ? [256] : [32_768, 2 ** 20]) {
    say(`updates of ${span} leaves`);
    const tree = createGrowingTree(poseidon);
    // A filled one, where that takes a second: which nodes are made does not depend on what they hold.
    if (span <= 32_768) tree.append(randomLeaves(random, span));
    for (const count of [1, 10, 100, 1_000]) {
      const indexes = Array.from({ length: Math.min(count, span) }, () => random.below(span));
      ours.push(update(tree, indexes, random));
      expected.push(ancestors(indexes));
    }
  }
  assert.deepEqual(ours, expected);
  return {
    row: 'G4c',
    name: 'hashes of random updates',
    unit: 'hashes',
    ours,
    baseline: expected,
    ratio: ratioOf(ours, expected),
    seed,
    goal: 'exactly the distinct ancestors',
    verdict: size === 'smoke' ? 'not assessed' : 'met',
    sizes: { height: HEIGHT, updates: '1, 10, 100 and 1000 of 32768 and of 2^20 leaves' },
    notes: ['a count: a difference would have stopped the row'],
  };
}

function update(tree: ReturnType<typeof createGrowingTree>, indexes: readonly number[], random: Sfc32): number {
  return tree.set(indexes.map((index) => ({ index, hash: randomLeaves(random, 1) }))).hashCount;
}

function ancestors(indexes: readonly number[]): number {
  const seen = new Set<string>();
  for (const index of indexes)
    for (let level = 1; level <= HEIGHT; level += 1) seen.add(`${level}/${Math.floor(index / 2 ** level)}`);
  return seen.size;
}

export const row: Row = { id: 'G4', name: 'tree upkeep', run };
