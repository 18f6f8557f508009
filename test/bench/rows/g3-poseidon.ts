/** G3: hashes per second of the Poseidon kernel, against the pure JavaScript library and against itself in two threads. */
import assert from 'node:assert/strict';
import * as lite from 'poseidon-lite';
import { createPoseidon } from '../../../src/solana/merkle/poseidon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { HASHES_PER_ROUND, inputsFor, startHashers } from '../samples/hashers.ts';
import { siblingModule } from '../sibling.ts';

/** The library needs so long that fewer of its hashes make a round. */
const LIBRARY_HASHES = 64;
const NARROW_GOAL = 8;
const WIDE_GOAL = 6;
const WORKER_GOAL = 1.8;

type Oracle = (inputs: bigint[]) => bigint;

async function run(options: RunOptions): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const inputs of [2, 3, 4, 5, 6, 7]) {
    options.say(`${inputs} inputs`);
    results.push(againstLibrary(inputs, options));
  }
  options.say('two threads');
  results.push(await inThreads(options));
  return results;
}

function againstLibrary(inputs: number, { size, seed }: RunOptions): RowResult {
  const oracle = (lite as unknown as Record<string, Oracle>)[`poseidon${inputs}`] as Oracle;
  const poseidon = createPoseidon();
  const src = inputsFor(inputs, createSfc32(seed));
  const dst = Buffer.alloc(32 * HASHES_PER_ROUND);
  const lists = Array.from({ length: LIBRARY_HASHES }, (_, i) =>
    Array.from({ length: inputs }, (__, j) =>
      BigInt(`0x${src.toString('hex', 32 * (i * inputs + j), 32 * (i * inputs + j + 1))}`),
    ),
  );
  const mine = () => {
    poseidon.hash(inputs, src, 0, dst, 0, HASHES_PER_ROUND);
    return dst[31] as number;
  };
  const theirs = () => lists.reduce((sum, list) => sum + Number(oracle(list) & 0xffn), 0);
  mine();
  for (const [i, list] of lists.entries())
    assert.equal(BigInt(`0x${dst.toString('hex', 32 * i, 32 * i + 32)}`), oracle(list));
  const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const { oursMs, baselineMs, oursCpuMs, baselineCpuMs, sink } = paired({ run: mine }, { run: theirs }, timing);
  const perHash = (ms: readonly number[], hashes: number) => ms.map((value) => value / hashes);
  const ratio = ratioOf(perHash(baselineMs, LIBRARY_HASHES), perHash(oursMs, HASHES_PER_ROUND));
  const cpu = ratioOf(perHash(baselineCpuMs, LIBRARY_HASHES), perHash(oursCpuMs, HASHES_PER_ROUND));
  const goal = inputs === 2 ? NARROW_GOAL : WIDE_GOAL;
  return {
    row: inputs === 2 ? 'G3a' : `G3d/${inputs}`,
    name: `Poseidon of ${inputs} inputs vs poseidon-lite`,
    unit: 'hashes/s',
    ours: oursMs.map((ms) => (HASHES_PER_ROUND / ms) * 1000),
    baseline: baselineMs.map((ms) => (LIBRARY_HASHES / ms) * 1000),
    ratio,
    goal: `>= ${goal}x`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= goal ? 'met' : 'missed',
    sizes: { batch: HASHES_PER_ROUND },
    seed,
    notes: [`by CPU time ${cpu.median.toFixed(2)}x (${cpu.min.toFixed(2)}-${cpu.max.toFixed(2)})`, `sink ${sink}`],
  };
}

/** G3c: the same work in two threads and in one, in turns. */
async function inThreads({ size, seed }: RunOptions): Promise<RowResult> {
  const hashers = await startHashers(siblingModule(import.meta.url, '../samples/hasher-thread.ts'), 2, seed);
  const [pairs, ms] = size === 'smoke' ? [1, 5] : [10, 500];
  const ours: number[] = [];
  const baseline: number[] = [];
  try {
    await hashers.rate(2, ms);
    for (let pair = 0; pair < pairs; pair += 1) {
      const order = pair % 2 === 0 ? [2, 1] : [1, 2];
      for (const threads of order) (threads === 2 ? ours : baseline).push(await hashers.rate(threads, ms));
    }
  } finally {
    await hashers.stop();
  }
  const ratio = ratioOf(ours, baseline);
  return {
    row: 'G3c',
    name: 'Poseidon in two threads vs one',
    unit: 'hashes/s',
    ours,
    baseline,
    ratio,
    seed,
    goal: `>= ${WORKER_GOAL}x`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median >= WORKER_GOAL ? 'met' : 'missed',
    sizes: { batch: HASHES_PER_ROUND },
    notes: ['needs two free cores'],
  };
}

export const row: Row = { id: 'G3', name: 'Poseidon', run };
