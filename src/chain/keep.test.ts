import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainBlock } from '../ports/block.ts';
import { createBlockBuffer } from './fetch.ts';
import { prepareNext } from './keep.ts';
import type { Run } from './run.ts';

const block = (slot: number, previous = slot - 1): ChainBlock =>
  ({ slot, blockhash: `${slot}`, previousBlockhash: `${previous}`, transactions: [] }) as unknown as ChainBlock;

test('only blocks that continue the next one are encoded ahead, and no more than the ledger takes', () => {
  const buffer = createBlockBuffer(256, 1_000_000_000);
  const prepared: number[] = [];
  let room = 100;
  const prepare = ({ slot }: ChainBlock) => {
    if (room === 0) return false;
    room -= 1;
    return prepared.push(slot) > 0;
  };
  const run = { state: { ledger: { prepare } }, buffer } as unknown as Run;
  // Slot 7 was skipped, 10 is missing, and a stream has sent blocks of the tip.
  for (const held of [block(5), block(6), block(8, 6), block(9), block(11), block(90_000), block(90_001)])
    buffer.put({ block: held, upstream: 'u', commitment: 'confirmed' });
  prepareNext(run, block(5));
  assert.deepEqual(prepared, [6, 8, 9]);
  prepared.length = 0;
  room = 2;
  prepareNext(run, block(5));
  assert.deepEqual(prepared, [6, 8]);
  prepared.length = 0;
  // A block of another fork.
  prepareNext(run, { ...block(5), blockhash: 'other' });
  assert.deepEqual(prepared, []);
  room = 100;
  for (let slot = 100; slot < 200; slot += 1)
    buffer.put({ block: block(slot), upstream: 'u', commitment: 'confirmed' });
  prepareNext(run, block(99));
  assert.ok(prepared.length > 4 && prepared.length < 100, `${prepared.length}`);
});
