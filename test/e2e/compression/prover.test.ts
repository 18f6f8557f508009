import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { transfer as transferTokens } from '@lightprotocol/compressed-token';
import { bn, encodeBN254toBase58, LightSystemProgram, TreeType, type ValidityProof } from '@lightprotocol/stateless.js';
import { LAMPORTS_PER_SOL, PublicKey } from '@solana/web3.js';
import { compareLamports, compareTokens } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { startProver } from '../../helpers/light/prover.ts';
import { prepareProverAssets, proverMissing } from '../../helpers/light/prover-assets.ts';
import { type Landed, send } from '../../helpers/light/sender.ts';
import { createSolOperations } from '../../helpers/light/sol-operations.ts';
import { createTokenMint, mintTo } from '../../helpers/light/token-mint.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { createV1Forester } from '../../helpers/light/v1-forester.ts';
import { type LightBed, proveLeaf, SEED, startLightBed } from './bed.ts';
import { checkHistory } from './history.ts';
import { live } from './random-lives.ts';

const OPERATIONS = 25;
const MOST_NULLIFIED = 4;
const PROOF_REFUSED = { InstructionError: [1, { Custom: 0x179b }] };

test('with a prover, the programs take the daemon’s validity proofs of accounts in V1 trees', {
  skip: (await lightMissing()) || proverMissing(),
}, async (t) => {
  const assets = prepareProverAssets();
  t.after(() => assets.remove());
  const prover = await startProver(assets, ['inclusion']);
  t.after(() => prover.stop());
  const options = { lightAssets: assets.lightAssets, config: { compression: { proverUrl: prover.url } } };
  await t.test('lamports', (inner) => lamports(inner, options));
  await t.test('tokens', (inner) => tokens(inner, options));
});

type Options = Parameters<typeof startLightBed>[1];

async function lamports(t: TestContext, options: Options): Promise<void> {
  const bed = await startLightBed(t, options);
  const { chain, rpc, random, wallets, owners } = bed;
  const operation = createSolOperations({ rpc, random, wallets, trees: createStateTrees(), hasProver: true });
  const oracle = await createOracle(chain.rpcUrl);
  const compare = () => compareLamports({ ours: rpc, oracle }, owners);
  const { tally, landed } = await live(bed, { operations: OPERATIONS, compareEvery: OPERATIONS, operation, compare });
  assert.ok((tally['transferV1'] ?? 0) + (tally['decompressV1'] ?? 0) > 0, JSON.stringify(tally));
  await checkHistory(bed, landed);
  await refusesAnotherProof(bed);
  const nullified = await nullifies(bed, landed);
  t.diagnostic(`${JSON.stringify(tally)}, ${nullified} nullified, seed ${SEED}`);
}

/** The programs really check: the same transfer with one bit of the proof changed fails. */
async function refusesAnotherProof({ rpc, wallets }: LightBed): Promise<void> {
  for (const payer of wallets) {
    const { items } = await rpc.getCompressedAccountsByOwner(payer.publicKey);
    const account = items.find(({ treeInfo }) => treeInfo.treeType === 1);
    if (account === undefined) continue;
    const { compressedProof, rootIndices } = await rpc.getValidityProof([bn(account.hash)]);
    const right = compressedProof as ValidityProof;
    const wrong = { ...right, a: right.a.map((byte, at) => (at === 31 ? byte ^ 1 : byte)) };
    const attempt = async (recentValidityProof: ValidityProof, fails: boolean) => {
      const instruction = await LightSystemProgram.transfer({
        ...{ payer: payer.publicKey, inputCompressedAccounts: [account], toAddress: PublicKey.default, lamports: 1 },
        ...{ recentInputStateRootIndices: rootIndices, recentValidityProof },
      });
      return send(rpc, { kind: 'transfer', instructions: [instruction], payer, fails });
    };
    const { signature } = await attempt(wrong, true);
    const { value } = await rpc.getSignatureStatuses([signature]);
    assert.deepEqual(value[0]?.err, PROOF_REFUSED);
    await attempt(right, false);
    return;
  }
  assert.fail('no account in a V1 tree is left');
}

/** Leaves of spent accounts have proofs until the upkeep of the tree takes them out, and again when the chain takes that back. */
async function nullifies(bed: LightBed, landed: readonly Landed[]): Promise<number> {
  const { call, chain, rpc, newKey } = bed;
  const authority = newKey();
  await chain.fund(authority.publicKey.toBase58(), LAMPORTS_PER_SOL);
  const forester = await createV1Forester(chain, rpc, authority, newKey().publicKey);
  const queues = new Map(createStateTrees().v1.map(({ tree, queue }) => [tree.toBase58(), queue]));
  let count = 0;
  const spends = landed.filter(({ kind }) => kind === 'transferV1' || kind === 'decompressV1').slice(0, MOST_NULLIFIED);
  for (const { signature } of spends) {
    type Closed = { readonly account: { readonly account: { readonly hash: string } } };
    type Told = { readonly compressionInfo: { readonly closedAccounts: readonly Closed[] } };
    const told = await call<Told>('getTransactionWithCompressionInfoV2', { signature });
    for (const { account } of told.compressionInfo.closedAccounts) {
      const { hash } = account.account;
      const before = await proveLeaf(bed, hash);
      await forester.nullify(before, queues.get(before.merkleTree) as PublicKey);
      await bed.caughtUp();
      await assert.rejects(
        call('getCompressedAccountProof', { hash }),
        /Leaf nodes not found for hashes\. Got 0 hashes/,
      );
      if (count === 0) {
        await chain.fork({ depth: 1, replay: 'none', extraBlocks: 2 });
        await bed.caughtUp();
        assert.deepEqual(await proveLeaf(bed, hash), before);
        await forester.nullify(before, queues.get(before.merkleTree) as PublicKey);
        await bed.caughtUp();
      }
      count += 1;
    }
  }
  for (const owner of bed.owners) {
    for (const { hash, treeInfo } of (await rpc.getCompressedAccountsByOwner(owner)).items)
      if (treeInfo.treeType === TreeType.StateV1) await proveLeaf(bed, encodeBN254toBase58(bn(hash)));
  }
  assert.ok(count > 0);
  return count;
}

async function tokens(t: TestContext, options: Options): Promise<void> {
  const bed = await startLightBed(t, options);
  const { chain, rpc, wallets, owners } = bed;
  const [owner, other] = wallets as [(typeof wallets)[0], (typeof wallets)[0]];
  const token = await createTokenMint(rpc, bed.newKey(), wallets);
  const [tree] = createStateTrees().v1;
  for (const amount of [100, 200, 300])
    await mintTo(rpc, token, owner.publicKey, amount, tree as NonNullable<typeof tree>);
  await bed.caughtUp();
  await transferTokens(rpc, owner, token.mint, 450, owner, other.publicKey);
  await bed.caughtUp();
  await compareTokens({ ours: rpc, oracle: await createOracle(chain.rpcUrl) }, token.mint, owners);
  const { amount } =
    (await rpc.getCompressedTokenBalancesByOwnerV2(other.publicKey)).value.items.map(({ balance }) => ({
      amount: `${balance}`,
    }))[0] ?? {};
  assert.equal(amount, '450');
}
