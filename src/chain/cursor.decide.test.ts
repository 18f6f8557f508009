import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { BlockHeader } from '../ports/block.ts';
import { decide } from './cursor.ts';

/** A chain as a list of gaps between its blocks; hashes are names. */
const chainOf = (gaps: readonly number[], name = 'a'): BlockHeader[] => {
  const blocks: BlockHeader[] = [];
  let slot = 10;
  for (const gap of gaps) {
    const parent = blocks.at(-1);
    slot += 1 + gap;
    const previousBlockhash = parent?.blockhash ?? `${name}-root`;
    const parentSlot = parent?.slot ?? 9;
    blocks.push({
      slot,
      parentSlot,
      previousBlockhash,
      blockhash: `${name}${slot}`,
      blockHeight: null,
      blockTime: null,
    });
  }
  return blocks;
};
const gaps = fc.array(fc.nat(40), { minLength: 2, maxLength: 30 });

test('from any subset of the blocks, exactly the chain is released, and never past a block that is missing', () => {
  fc.assert(
    fc.property(gaps, fc.infiniteStream(fc.boolean()), (sizes, coins) => {
      const chain = chainOf(sizes);
      const held = new Map(chain.filter(() => coins.next().value === true).map((block) => [block.slot, block]));
      const released: BlockHeader[] = [];
      const asked: number[] = [];
      for (let turns = 0; turns < 200; turns += 1) {
        const cursor = released.at(-1) ?? null;
        const next = [...held.values()]
          .filter(({ slot }) => slot > (cursor?.slot ?? -1))
          .sort((a, b) => a.slot - b.slot)[0];
        const decision = decide({ cursor, floor: 11, next: next ?? null });
        if (decision.kind === 'wait') break;
        if (decision.kind === 'release') released.push(next as BlockHeader);
        else if (decision.kind === 'hole') {
          asked.push(decision.slot);
          held.set(decision.slot, chain.find(({ slot }) => slot === decision.slot) as BlockHeader);
        } else assert.fail('there is no fork');
      }
      assert.deepEqual(released, chain.slice(0, released.length));
      // Everything at or below the highest block that was ever held is out.
      assert.equal(released.length, chain.findLastIndex(({ slot }) => held.has(slot)) + 1);
      assert.ok(
        asked.every((slot) => chain.some((block) => block.slot === slot)),
        'only blocks that exist are asked for',
      );
    }),
  );
});

test('a block of another branch is never released on top of the cursor', () => {
  fc.assert(
    fc.property(gaps, gaps, (left, right) => {
      const ours = chainOf(left).at(-1) as BlockHeader;
      for (const next of chainOf(right, 'b').filter(({ slot }) => slot > ours.slot))
        assert.notEqual(decide({ cursor: ours, floor: 0, next }).kind, 'release');
    }),
  );
});

test('a parent slot alone does not prove a link', () => {
  const [first, second] = chainOf([0, 0]) as [BlockHeader, BlockHeader];
  const forged = { ...second, previousBlockhash: 'other' };
  assert.deepEqual(decide({ cursor: first, floor: 0, next: forged }), { kind: 'fork' });
});

test('behind a gap the first block is taken without its parent, but not past blocks at or above the floor', () => {
  const cursor = { slot: 5, blockhash: 'x' };
  const [next] = chainOf([0]) as [BlockHeader];
  assert.deepEqual(decide({ cursor, floor: 10, next }), { kind: 'release' });
  assert.deepEqual(decide({ cursor, floor: 9, next }), { kind: 'hole', slot: 9 });
});
