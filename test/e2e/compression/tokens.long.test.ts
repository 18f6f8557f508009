import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareTokens } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { createTokenMint } from '../../helpers/light/token-mint.ts';
import { createTokenOperations } from '../../helpers/light/token-operations.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { SEED, startLightBed } from './harness.ts';
import { checkHistory } from './history.ts';
import { live } from './random-lives.ts';

/** Fewer may miss a kind of operation. */
const ENOUGH = 100;
const OPERATIONS = Number(process.env['PARHELION_LIGHT_OPERATIONS'] ?? ENOUGH);

test('compressed tokens: the daemon and the client library agree in every field, and every root is the chain’s', {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, random, wallets, owners } = bed;
  const token = await createTokenMint(rpc, bed.newKey(), wallets);
  const operation = createTokenOperations({ rpc, random, wallets, token, trees: createStateTrees() });
  const oracle = await createOracle(chain.rpcUrl);
  const compare = () => compareTokens({ ours: rpc, oracle }, token.mint, owners);
  const life = await live(bed, { operations: OPERATIONS, compareEvery: 25, operation, compare });
  const kinds = [
    'mintToV1',
    'mintToV2',
    'compressV2',
    'transfer',
    'decompress',
    'approve',
    'merge',
    'transferDelegated',
  ];
  for (const kind of kinds)
    assert.ok(OPERATIONS < ENOUGH || (life.tally[kind] ?? 0) > 0, `no ${kind} in ${JSON.stringify(life.tally)}`);
  await checkHistory(bed, life.landed);
  t.diagnostic(`${JSON.stringify(life.tally)}, ${life.accounts} unspent accounts, seed ${SEED}`);
});
