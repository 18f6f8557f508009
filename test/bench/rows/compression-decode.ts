/** How fast transactions of compressed accounts are read, beside what it takes to decode them at all. */
import assert from 'node:assert/strict';
import { decodeCompression } from '../../../src/solana/compression/decode-compression.ts';
import { createProgramFinder } from '../../../src/solana/compression/instructions.ts';
import { decodeConcurrent } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { createConcurrentFinder } from '../../../src/solana/concurrent/tree.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { bubblegumScenarios } from '../../helpers/bubblegum.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

const RECORDINGS = [
  'lamport_transfers',
  'batched_tree_transactions',
  'batched_address_transactions',
  'four_cpi_events',
];

async function run(options: RunOptions): Promise<RowResult[]> {
  if (skipWithoutFixtures !== false) {
    options.say(skipWithoutFixtures);
    return [];
  }
  const light = RECORDINGS.flatMap((name) =>
    listFixtures(`compression/transactions/${name}`).map((path) => readJsonFixture<object>(path)),
  );
  const assets = bubblegumScenarios().flatMap(({ transactions }) => transactions);
  const [findLight, findConcurrent] = [createProgramFinder(), createConcurrentFinder()];
  return [
    reading('compressed accounts', light, options, (result) => {
      const { transactions, keys } = decodeTransaction(result);
      return decodeCompression(transactions[0]!, keys, findLight(keys)).events.length;
    }),
    reading('compressed NFTs', assets, options, (result) => {
      const { transactions, keys } = decodeTransaction(result);
      return decodeConcurrent(transactions[0]!, keys, findConcurrent(keys)).events.length;
    }),
  ];
}

function reading(
  name: string,
  list: readonly object[],
  { size, seed, say }: RunOptions,
  read: (result: object) => number,
): RowResult {
  say(`${list.length} transactions of ${name}`);
  const events = list.reduce((sum, one) => sum + read(one), 0);
  assert.ok(events > list.length / 2, `${events} events`);
  const mine = () => list.reduce((sum, one) => sum + read(one), 0);
  const bare = () =>
    list.reduce((sum, one) => {
      const { transactions } = decodeTransaction(one);
      // What is only decoded when it is asked for is asked for here as well.
      return sum + transactions[0]!.innerInstructions.length + transactions[0]!.instructions.length;
    }, 0);
  const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const { oursMs, baselineMs, oursCpuMs, baselineCpuMs, sink } = paired({ run: mine }, { run: bare }, timing);
  const perSecond = (ms: number): number => (list.length / ms) * 1_000;
  const cpu = ratioOf(oursCpuMs, baselineCpuMs);
  return {
    row: `decode/${name}`,
    name: `events of ${name}`,
    unit: 'transactions/s',
    ours: oursMs.map(perSecond),
    baseline: baselineMs.map(perSecond),
    ratio: ratioOf(oursMs, baselineMs),
    goal: 'a report: times the decoding alone takes',
    verdict: 'not assessed',
    sizes: { transactions: list.length, events },
    seed,
    notes: [
      'recorded transactions, from the parsed answer of getTransaction to events; baseline: to instructions',
      `by CPU time ${cpu.median.toFixed(2)}x (${cpu.min.toFixed(2)}-${cpu.max.toFixed(2)})`,
      `sink ${sink}`,
    ],
  };
}

export const row: Row = { id: 'decode', name: 'reading of compression events', run };
