/** What it costs to keep a block in the ledger, beside reading it from the answer of a node; its size, and reading it back. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../../src/ledger/index.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

const RECORDING = 'chain/blocks/mainnet-254170887-even.json';

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  if (skipWithoutFixtures !== false) {
    say(skipWithoutFixtures);
    return [];
  }
  const recorded = readJsonFixture<{ readonly transactions: readonly unknown[] }>(RECORDING);
  const transactions = recorded.transactions.length;
  const answer = Buffer.from(JSON.stringify({ result: { ...recorded, parentSlot: 0, rewards: [] } }));
  const block = (slot: number) => decodeBlock(slot, scanBlockAnswer(answer)!);
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-bench-ledger-'));
  try {
    const ledger = await openLedger({
      dir,
      chain: 'main',
      retainHours: 24,
      retainBytes: 10_737_418_240,
      clock: createSystemClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
    const result = await measure(ledger, block, size === 'smoke' ? { pairs: 2, rounds: 2 } : { pairs: 10, rounds: 20 });
    await ledger.close();
    const bytes = readFileSync(join(dir, '0000000001.ledger')).length / result.written / transactions;
    const times = { ours: result.ours.map((ms) => 1_000 / ms), baseline: result.baseline.map((ms) => 1_000 / ms) };
    const common = { goal: 'a report', verdict: 'not assessed', seed, notes: [RECORDING] } as const;
    const sizes = { transactions, bytesPerTransaction: Math.round(bytes) };
    return [
      {
        ...common,
        ...times,
        row: 'ledger/append',
        name: 'decoding and keeping a block',
        unit: 'blocks/s',
        sizes,
        ratio: ratioOf(result.ours, result.baseline),
        notes: [RECORDING, 'baseline: decoding it; each block is encoded, checked, compressed and on disk'],
      },
      {
        ...common,
        ours: result.reads,
        baseline: result.baseline,
        row: 'ledger/read',
        unit: 'ms',
        sizes,
        name: 'reading a whole block back, decoded',
        ratio: ratioOf(result.reads, result.baseline),
      },
      await ahead({ size, seed, say }, block, transactions),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measure(
  ledger: Ledger,
  block: (slot: number) => ReturnType<typeof decodeBlock>,
  { pairs, rounds }: { readonly pairs: number; readonly rounds: number },
) {
  let slot = 0;
  const timed = async (work: () => Promise<unknown>) => {
    const start = performance.now();
    for (let round = 0; round < rounds; round++) await work();
    return (performance.now() - start) / rounds;
  };
  const keep = () => ledger.append(block(++slot));
  const bare = async () => block(1).transactions.at(-1)!.signature;
  const read = async () => assert.notEqual(await ledger.block(1 + Math.floor(slot / 2)), null);
  for (const work of [keep, bare, read]) await timed(work);
  const [ours, baseline, reads]: [number[], number[], number[]] = [[], [], []];
  for (let pair = 0; pair < pairs; pair++) {
    ours.push(await timed(keep));
    baseline.push(await timed(bare));
    reads.push(await timed(read));
  }
  return { ours, baseline, reads, written: slot };
}

/**
 * Blocks that are all here, as while catching up: the time that they take of the thread of the indexer, which is the bound where there are cores
 * enough, against encoding them there.
 */
async function ahead(
  { size, seed }: RunOptions,
  block: (slot: number) => ReturnType<typeof decodeBlock>,
  transactions: number,
): Promise<RowResult> {
  const [pairs, blocks] = size === 'smoke' ? [1, 4] : [3, 250];
  const threads = availableParallelism();
  const hashOf = (at: number) => encode32(Buffer.from(`${at}`.padEnd(32, '.')));
  // Each has a hash of its own, by which it is found.
  const all = Array.from({ length: blocks + 2 * threads }, (_, at) => ({ ...block(at + 1), blockhash: hashOf(at) }));
  const cpu = { ours: [] as number[], baseline: [] as number[] };
  const rates = { ours: [] as number[], baseline: [] as number[] };
  const busyMs = async (who: 'ours' | 'baseline') => {
    const dir = mkdtempSync(join(tmpdir(), 'parhelion-bench-ledger-'));
    const ledger = await openLedger({
      dir,
      chain: 'main',
      retainHours: 24,
      retainBytes: 10_737_418_240,
      threads: who === 'ours' ? threads : 0,
      clock: createSystemClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
    const keep = async (from: number, to: number) => {
      for (let at = from; at < to; at++) {
        for (const later of all.slice(at + 1)) if (!ledger.prepare(later)) break;
        await ledger.append(all[at]!);
      }
    };
    try {
      // The threads start.
      await keep(0, 2 * threads);
      const [before, usage, started] = [performance.eventLoopUtilization(), process.cpuUsage(), performance.now()];
      await keep(2 * threads, all.length);
      rates[who].push((blocks * 1_000) / (performance.now() - started));
      const { user, system } = process.cpuUsage(usage);
      cpu[who].push((user + system) / 1_000 / blocks);
      return performance.eventLoopUtilization(before).active / blocks;
    } finally {
      await ledger.close();
      rmSync(dir, { recursive: true, force: true });
    }
  };
  const samples = { ours: [] as number[], baseline: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1)
    for (const who of ['ours', 'baseline'] as const) samples[who].push(await busyMs(who));
  const shown = (of: typeof cpu) => `${middle(of.ours).toFixed(1)}, baseline ${middle(of.baseline).toFixed(1)}`;
  return {
    row: 'ledger/ahead',
    name: 'of the thread of the indexer, for a block that is encoded ahead',
    unit: 'ms',
    ...samples,
    ratio: ratioOf(samples.ours, samples.baseline),
    goal: 'a report',
    verdict: 'not assessed',
    seed,
    sizes: { transactions, threads },
    notes: [
      RECORDING,
      `blocks/s on ${threads} cores, which also compress: ${shown(rates)}; ms of CPU of a block, all threads: ${shown(cpu)}`,
    ],
  };
}

const middle = (list: readonly number[]) => [...list].sort((a, b) => a - b)[list.length >> 1]!;

export const row: Row = { id: 'ledger', name: 'blocks in files', run };
