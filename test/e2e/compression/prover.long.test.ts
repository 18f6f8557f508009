import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { transfer as transferTokens } from '@lightprotocol/compressed-token';
import { bn, LightSystemProgram, type ValidityProof } from '@lightprotocol/stateless.js';
import { PublicKey } from '@solana/web3.js';
import { compareLamports, compareTokens } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { startProver } from '../../helpers/light/prover.ts';
import { prepareProverAssets, proverMissing } from '../../helpers/light/prover-assets.ts';
import { send } from '../../helpers/light/sender.ts';
import { createSolOperations } from '../../helpers/light/sol-operations.ts';
import { createTokenMint, mintTo } from '../../helpers/light/token-mint.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { type LightBed, SEED, startLightBed } from './harness.ts';
import { checkHistory } from './history.ts';
import { live } from './random-lives.ts';
import { createsAddresses, nullifies } from './upkeep.ts';

const OPERATIONS = 25;
const PROOF_REFUSED = { InstructionError: [1, { Custom: 0x179b }] };

test('with a prover, the programs take the daemon’s validity proofs of accounts and of new addresses in V1 trees', {
  skip: (await lightMissing()) || proverMissing(),
}, async (t) => {
  const assets = prepareProverAssets();
  t.after(() => assets.remove());
  const prover = await startProver(assets, ['inclusion', 'non-inclusion']);
  t.after(() => prover.stop());
  const options = { lightAssets: assets.lightAssets, config: { compression: { proverUrl: prover.url } } };
  await t.test('lamports', (inner) => lamports(inner, options));
  await t.test('tokens', (inner) => tokens(inner, options));
  await t.test('addresses', async (inner) => createsAddresses(await startLightBed(inner, options)));
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
async function refusesAnotherProof({ rpc, wallets, caughtUp }: LightBed): Promise<void> {
  for (const payer of wallets) {
    const { items } = await rpc.getCompressedAccountsByOwner(payer.publicKey);
    const account = items.find(({ treeInfo }) => treeInfo.treeType === 1);
    if (account === undefined) continue;
    const { compressedProof, rootIndices } = await rpc.getValidityProof([bn(account.hash)]);
    const right = compressedProof as ValidityProof;
    const wrong = { ...right, a: right.a.map((byte, at) => (at === 31 ? byte ^ 1 : byte)) };
    const attempt = async (recentValidityProof: ValidityProof, fails: boolean) => {
      const instruction = await LightSystemProgram.transfer({
        payer: payer.publicKey,
        inputCompressedAccounts: [account],
        toAddress: PublicKey.default,
        lamports: 1,
        recentInputStateRootIndices: rootIndices,
        recentValidityProof,
      });
      return send(rpc, { kind: 'transfer', instructions: [instruction], payer, fails });
    };
    const { signature } = await attempt(wrong, true);
    const { value } = await rpc.getSignatureStatuses([signature]);
    assert.deepEqual(value[0]?.err, PROOF_REFUSED);
    await attempt(right, false);
    await caughtUp();
    return;
  }
  assert.fail('no account in a V1 tree is left');
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
