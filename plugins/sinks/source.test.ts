import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf } from '../../src/lib/coded-error.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import { emptyLedger, fill } from '../../test/helpers/archive.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { createBlockSource } from './source.ts';

const never = new AbortController().signal;

/** An upstream with all blocks of a ledger, whose lists lack some of them. */
function upstreamOver(ledger: LedgerReader, listed: (slot: number) => boolean): ChainReader {
  const asked: string[] = [];
  const reader: Pick<ChainReader, 'call' | 'callText'> = {
    async call<T>(method: string, [from, to]: readonly unknown[]) {
      asked.push(method);
      return ledger.states(from as number, to as number).blocks.filter(listed) as T;
    },
    async callText(_method, [slot]) {
      const text = await ledger.text(slot as number);
      return text?.toString() ?? 'null';
    },
  };
  return reader as ChainReader;
}

async function slotsThrough(source: ReturnType<typeof createBlockSource>, from: number, to: number): Promise<number[]> {
  const slots: number[] = [];
  for (let at = from; at <= to; ) {
    const block = await source.next(at, to, never);
    if (block === null) break;
    slots.push(block.slot);
    at = block.slot + 1;
  }
  return slots;
}

test('slots that the ledger lacks come from an upstream, each of them, also where its lists lack blocks', async (t) => {
  const [whole, held] = [await emptyLedger(t), await emptyLedger(t)];
  await fill(whole, 11, 120, { transactions: 1 });
  await fill(held, 11, 40, { transactions: 1 });
  await fill(held, 90, 120, { transactions: 1 });
  const random = createSfc32(3);
  const lost = new Set(Array.from({ length: 40 }, () => random.between(41, 89)));
  const holes: number[] = [];
  const source = createBlockSource({
    ledger: () => held,
    past: () => null,
    chain: () => upstreamOver(whole, (slot) => !lost.has(slot)),
    maxVersion: 0,
    foundHole: (from) => void holes.push(from),
  });
  assert.deepEqual(await slotsThrough(source, 11, 120), whole.states(11, 120).blocks);
  assert.equal(holes[0], 41);
  // A bound within the hole: what is behind it is not read, and nothing before it is passed over.
  assert.deepEqual(await slotsThrough(source, 11, 60), whole.states(11, 60).blocks);
});

test('a hole that nobody can fill is named, and nothing behind it is read', async (t) => {
  const held = await emptyLedger(t);
  await fill(held, 11, 40, { transactions: 1 });
  await fill(held, 90, 120, { transactions: 1 });
  for (const chain of [null, upstreamOver(held, () => true)]) {
    const source = createBlockSource({
      ledger: () => held,
      past: () => null,
      chain: () => chain,
      maxVersion: 0,
      foundHole: () => undefined,
    });
    await assert.rejects(slotsThrough(source, 30, 120), (error) => codeOf(error) === 'SINKS_HOLE');
  }
});
