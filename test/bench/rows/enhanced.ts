/** How fast transactions become enhanced ones, beside what it takes web3.js to deserialise them. */
import assert from 'node:assert/strict';
import { VersionedTransaction } from '@solana/web3.js';
import { stringify } from '../../../src/lib/json.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { type ReadTransaction, readTransaction } from '../../../src/solana/parsers/enhance.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

interface Answer {
  readonly parentSlot: number;
  readonly transactions: readonly { readonly transaction: readonly [string, string] }[];
}

async function run(options: RunOptions): Promise<RowResult[]> {
  if (skipWithoutFixtures !== false) {
    options.say(skipWithoutFixtures);
    return [];
  }
  const [file] = listFixtures('chain/blocks').filter((name) => name.includes('mainnet'));
  assert.ok(file !== undefined);
  const answer = readJsonFixture<Answer>(file);
  return [
    measured('types', answer, options, ({ type }) => type.length),
    measured('elements as text', answer, options, (read) => stringify(read.element()).length),
  ];
}

function measured(
  name: string,
  answer: Answer,
  { size, seed, say }: RunOptions,
  take: (read: ReadTransaction) => number,
): RowResult {
  const wires = answer.transactions.map(({ transaction: [text] }) => Buffer.from(text, 'base64'));
  say(`${name} of ${wires.length} transactions`);
  // The parsed answer is there already; what is decoded on first use is decoded anew each time.
  const ours = (): number => {
    const block = decodeBlock(answer.parentSlot + 1, answer);
    return block.transactions.reduce((sum, tx) => sum + take(readTransaction(tx, block)), 0);
  };
  const bare = (): number =>
    wires.reduce((sum, wire) => sum + VersionedTransaction.deserialize(wire).signatures.length, 0);
  const faults: unknown[] = [];
  const block = decodeBlock(answer.parentSlot + 1, answer);
  for (const tx of block.transactions)
    readTransaction(tx, block, { onFault: (...fault) => faults.push(fault) }).element();
  assert.deepEqual(faults, []);
  const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 500 };
  const { oursMs, baselineMs, oursCpuMs, baselineCpuMs, sink } = paired({ run: ours }, { run: bare }, timing);
  const perSecond = (ms: number): number => (wires.length / ms) * 1_000;
  const cpu = ratioOf(oursCpuMs, baselineCpuMs);
  return {
    row: `enhanced/${name}`,
    name: `enhanced transactions: ${name}`,
    unit: 'transactions/s',
    ours: oursMs.map(perSecond),
    baseline: baselineMs.map(perSecond),
    ratio: ratioOf(oursMs, baselineMs),
    goal: 'a report: times web3.js takes to deserialise alone',
    verdict: 'not assessed',
    sizes: { transactions: wires.length },
    seed,
    notes: [
      'a recorded mainnet block, votes included, from the parsed answer of getBlock; baseline: VersionedTransaction.deserialize of its wires',
      `by CPU time ${cpu.median.toFixed(2)}x (${cpu.min.toFixed(2)}-${cpu.max.toFixed(2)})`,
      `sink ${sink}`,
    ],
  };
}

export const row: Row = { id: 'enhanced', name: 'enhanced transactions', run };
