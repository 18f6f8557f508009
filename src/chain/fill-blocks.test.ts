import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { BlockHeader } from '../ports/block.ts';
import { judgeFill } from './fill-blocks.ts';

const header = (slot: number, parentSlot: number, parentHash = `hash-${parentSlot}`): BlockHeader => ({
  slot,
  parentSlot,
  blockhash: `hash-${slot}`,
  previousBlockhash: parentHash,
  blockHeight: null,
  blockTime: null,
});
const at = (slot: number) => ({ slot, blockhash: `hash-${slot}` });
const end = { slot: 20, parentSlot: 15, previousBlockhash: 'hash-15' };
const judge = (cursor: ReturnType<typeof at> | null, next: BlockHeader | null, child: BlockHeader | null) =>
  judgeFill({ cursor, fromSlot: 10, end, next, child });

test('a block counts once its child names it', () => {
  assert.deepEqual(judge(at(9), header(11, 9), null), { kind: 'child' });
  assert.deepEqual(judge(at(9), header(11, 9), header(13, 11)), { kind: 'apply' });
  assert.deepEqual(judge(at(9), header(11, 9), header(13, 11, 'another')), { kind: 'again', slots: [11, 13] });
  assert.deepEqual(judge(at(9), header(11, 9), header(13, 9)), { kind: 'again', slots: [11, 13] });
  assert.deepEqual(judge(at(9), header(11, 9), header(13, 12)), { kind: 'need', slot: 12 });
});

test('the last block is the one that the block behind the gap names', () => {
  assert.deepEqual(judge(at(13), header(15, 13), null), { kind: 'apply' });
  const forged = { ...header(15, 13), blockhash: 'forged' };
  assert.deepEqual(judge(at(13), forged, null), { kind: 'again', slots: [15] });
  assert.deepEqual(judge(at(13), header(17, 13), null), { kind: 'again', slots: [17] });
  assert.deepEqual(judge(at(13), null, null), { kind: 'need', slot: 15 });
});

test('links to what stands below decide; without that the first block has to come from below the gap', () => {
  assert.deepEqual(judge(at(9), header(12, 11), header(13, 12)), { kind: 'need', slot: 11 });
  assert.deepEqual(judge(at(9), header(12, 9, 'another'), header(13, 12)), { kind: 'again', slots: [12] });
  assert.deepEqual(judge(at(9), header(12, 8), header(13, 12)), { kind: 'again', slots: [12] });
  assert.deepEqual(judge(null, header(12, 7), header(13, 12)), { kind: 'apply' });
  assert.deepEqual(judge(null, header(12, 10), header(13, 12)), { kind: 'need', slot: 10 });
});

test('whatever is shown, only the chain between both ends is ever applied', () => {
  // The chain 9 -> 11 -> 12 -> 15 -> 20, shown with forged links and hashes in any mixture.
  const chain = [header(11, 9), header(12, 11), header(15, 12)];
  const lie = fc.record({
    of: fc.nat(2),
    change: fc.constantFrom<Partial<BlockHeader>>(
      {},
      { blockhash: 'forged' },
      { previousBlockhash: 'false' },
      { parentSlot: 9 },
      { parentSlot: 10 },
    ),
  });
  fc.assert(
    fc.property(fc.array(lie, { maxLength: 60 }), (shown) => {
      let cursor = at(9);
      const applied: string[] = [];
      for (let index = 0; index + 1 < shown.length; index += 1) {
        const [first, second] = [shown[index]!, shown[index + 1]!];
        const next = { ...chain[first.of]!, ...first.change };
        const child = { ...chain[second.of]!, ...second.change };
        if (next.slot <= cursor.slot || next.parentSlot >= next.slot || child.parentSlot >= child.slot) continue;
        const verdict = judge(cursor, next, child.slot > next.slot ? child : null);
        if (verdict.kind !== 'apply') continue;
        cursor = { slot: next.slot, blockhash: next.blockhash };
        applied.push(next.blockhash);
      }
      assert.deepEqual(applied, ['hash-11', 'hash-12', 'hash-15'].slice(0, applied.length));
    }),
    { numRuns: 2_000 },
  );
});
