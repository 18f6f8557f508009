/** Upstreams that leave something out of a block, change it, or invent something, on the real programs: refused, fetched again, right. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonParts } from '../../../src/daemon/parts.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { TestDaemon } from '../../helpers/daemon.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { Database } from '../../helpers/sqlite.ts';
import { chainRoot, lamportsOf, makeTreesBed, proofsOf, type TreesBed, untilTree } from './trees-harness.ts';

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

/** Changes one answer: the first block with compression after it is armed. Single transactions are unchanged. */
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
      return { ...made, source: { ...made.source, block } };
    },
  });
  return { state, parts };
}

suite('lies about blocks', { skip: await lightMissing() }, () => {
  for (const [what, lie, isInvented] of [
    ['a transaction is left out', dropped, false],
    ['a leaf is another one, and an account was never spent', changed, true],
  ] as const)
    test(`${what}: the tree comes back as the chain has it`, async (t) => {
      const bed = await makeTreesBed(t);
      const { state, parts } = liar(lie);
      const daemon = await bed.start({ parts, config: { compression: { startSlot: 1_000 } } });
      await bed.compress(3, bed.v1);
      await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.rootSeq === 3);
      if (isInvented) inventSpend(join(daemon.dataDir, 'parhelion.db'));
      state.isArmed = true;
      await bed.compress(1, bed.v1);
      await bed.chain.seal(2);
      await untilTree(bed, daemon, bed.v1, () => state.lies === 1);
      await bed.compress(2, bed.v1);
      const root = await chainRoot(bed);
      const after = await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.root === root);
      assert.equal(after.rootSeq, 6);
      const proofs = await allProofs(bed, daemon, 6);
      assert.ok(proofs.every((proof) => proof.root === root));
    });
});

/** As an indexed lie leaves it: one account is spent, and its owner has so much less. */
function inventSpend(path: string): void {
  const database = new Database(path);
  try {
    const row = database.prepare('SELECT hash, owner, lamports FROM compression_accounts LIMIT 1').get() as Row;
    database
      .prepare('UPDATE compression_accounts SET spent = 1, slot_spent = slot_created, spent_by = ? WHERE hash = ?')
      .run(Buffer.alloc(64, 1), row.hash);
    const held = database.prepare('SELECT lamports FROM compression_balances WHERE owner = ?').get(row.owner) as Row;
    const left = Buffer.alloc(8);
    left.writeBigUInt64BE(held.lamports.readBigUInt64BE() - row.lamports.readBigUInt64BE());
    database.prepare('UPDATE compression_balances SET lamports = ? WHERE owner = ?').run(left, row.owner);
  } finally {
    database.close();
  }
}

interface Row {
  readonly hash: Buffer;
  readonly owner: Buffer;
  readonly lamports: Buffer;
}

/** Data that the tree does not prove is restored later, and with it the balance. */
async function allProofs(bed: TreesBed, daemon: TestDaemon, count: number) {
  for (const startedMs = performance.now(); ; await sleep(100)) {
    const proofs = await proofsOf(bed, daemon);
    if (proofs.length === count) {
      const { listed, balance } = await lamportsOf(bed, daemon);
      assert.equal(balance, listed);
      return proofs;
    }
    assert.ok(performance.now() - startedMs < 60_000, `${proofs.length} accounts are there`);
    await bed.chain.seal(1);
  }
}
