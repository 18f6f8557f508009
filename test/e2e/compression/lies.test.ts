/** Upstreams that leave something out of a block, or change it, on the real programs: refused, fetched again, right. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { DaemonParts } from '../../../src/kernel/assembly/parts.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { chainRoot, makeTreesBed, proofsOf, untilTree } from './trees-bed.ts';

type Lie = (block: ChainBlock) => ChainBlock;

const COMPRESSION = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';
/** Of what is inserted into queues: 12 bytes of heads, 6 counts, the transaction hash, and the number and place of the first leaf. */
const LEAF_END = 12 + 6 + 32 + 2 + 32;
const INSERT = 'b48f9f99232ef8a3';

const usesCompression = (block: ChainBlock, { keys }: NormalTransaction) =>
  [...keys].some((key) => block.keys.base58(key) === COMPRESSION);

const dropped: Lie = (block) => ({
  ...block,
  transactions: block.transactions.filter((transaction) => !usesCompression(block, transaction)),
});

/** The first leaf of each transaction is another one. */
const changed: Lie = (block) => {
  for (const { innerInstructions } of block.transactions)
    for (const { data } of innerInstructions.flatMap(({ instructions }) => instructions))
      if (Buffer.from(data.subarray(0, 8)).toString('hex') === INSERT) data[LEAF_END - 1]! ^= 1;
  return block;
};

/** Tells one lie: about the first block with compression once it is armed. Single transactions are told as they are. */
function liar(lie: Lie) {
  const state = { isArmed: false, lies: 0 };
  const parts = (honest: DaemonParts): DaemonParts => ({
    ...honest,
    makeChain(...given) {
      const made = honest.makeChain(...given);
      const block: typeof made.source.block = async (slot, options) => {
        const answer = await made.source.block(slot, options);
        const isDue = state.isArmed && answer.kind === 'block';
        if (!isDue || !answer.block.transactions.some((one) => usesCompression(answer.block, one))) return answer;
        state.isArmed = false;
        state.lies += 1;
        return { ...answer, block: lie(answer.block) };
      };
      return { ...made, source: Object.assign(Object.create(made.source), { block }) };
    },
  });
  return { state, parts };
}

suite('lies about blocks', { skip: await lightMissing() }, () => {
  for (const [what, lie] of [
    ['a transaction is left out', dropped],
    ['a leaf is another one', changed],
  ] as const)
    test(`${what}: the tree comes back as the chain has it`, async (t) => {
      const bed = await makeTreesBed(t);
      const { state, parts } = liar(lie);
      const daemon = await bed.start({ parts, config: { compression: { startSlot: 1_000 } } });
      await bed.compress(3, bed.v1);
      await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.rootSeq === 3);
      state.isArmed = true;
      await bed.compress(1, bed.v1);
      await bed.chain.seal(2);
      await untilTree(bed, daemon, bed.v1, () => state.lies === 1);
      await bed.compress(2, bed.v1);
      const root = await chainRoot(bed);
      const after = await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.root === root);
      assert.equal(after.rootSeq, 6);
      const proofs = await proofsOf(bed, daemon);
      assert.equal(proofs.length, 6);
      assert.ok(proofs.every((proof) => proof.root === root));
    });
});
