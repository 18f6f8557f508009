import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildAndSignTx, LightSystemProgram, type TreeInfo } from '@lightprotocol/stateless.js';
import { ComputeBudgetProgram, type Keypair } from '@solana/web3.js';
import { compareLamports } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { type LightBed, proveLeaf, startLightBed, v1LeavesOf } from './harness.ts';

const MIN_LAMPORTS = 1_000_000;
const TRANSACTIONS = 40;
const COMPUTE_UNITS = 1_000_000;

type To = { readonly owner: Keypair; readonly lamports: number; readonly tree: TreeInfo };

async function compressing({ rpc, wallets }: LightBed, all: readonly To[]): Promise<Uint8Array> {
  const [payer] = wallets as [Keypair];
  const { blockhash } = await rpc.getLatestBlockhash();
  const instructions = all.map(({ owner, lamports, tree }) =>
    LightSystemProgram.compress({
      payer: payer.publicKey,
      toAddress: owner.publicKey,
      lamports,
      outputStateTreeInfo: tree,
    }),
  );
  const limit = ComputeBudgetProgram.setComputeUnitLimit({ units: COMPUTE_UNITS });
  return buildAndSignTx([limit, ...(await Promise.all(instructions))], payer, blockhash).serialize();
}

test('many transactions in a block, for the same trees, keep their order', {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, random, wallets, owners } = bed;
  const trees = createStateTrees();
  const all = [...trees.v1, ...trees.v2];
  const transactions: Uint8Array[] = [];
  for (let made = 0; made < TRANSACTIONS; made += 1) {
    const owner = wallets[random.below(wallets.length)] as Keypair;
    const tree = all[random.below(all.length)] as TreeInfo;
    transactions.push(await compressing(bed, [{ owner, lamports: MIN_LAMPORTS + made, tree }]));
  }
  const signatures = await chain.submitAll(transactions, { perBlock: 9 });
  await bed.caughtUp();
  const oracle = await createOracle(chain.rpcUrl);
  assert.equal(await compareLamports({ ours: rpc, oracle }, owners), TRANSACTIONS);
  for (const signature of signatures)
    for (const { hash } of await v1LeavesOf(bed, signature)) await proveLeaf(bed, hash);
});

test('several instructions in a transaction are all indexed', { skip: await lightMissing() }, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, wallets } = bed;
  const { v1, v2 } = createStateTrees();
  const [one, other] = wallets as [Keypair, Keypair];
  const kinds = [v1[0], v2[0], v1[1], v1[0], v2[0]] as TreeInfo[];
  const steps = kinds.map((tree, at) => ({
    owner: at % 2 === 0 ? one : other,
    lamports: MIN_LAMPORTS * (at + 1),
    tree,
  }));
  const [signature] = (await chain.submitAll([await compressing(bed, steps)])) as [string];
  await bed.caughtUp();
  assert.equal(`${await rpc.getCompressedBalanceByOwner(one.publicKey)}`, `${9 * MIN_LAMPORTS}`);
  assert.equal(`${await rpc.getCompressedBalanceByOwner(other.publicKey)}`, `${6 * MIN_LAMPORTS}`);
  const leaves = await v1LeavesOf(bed, signature);
  assert.equal(leaves.length, 3);
  for (const { hash } of leaves) await proveLeaf(bed, hash);
});
