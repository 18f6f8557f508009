import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareLamports } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { createSolOperations } from '../../helpers/light/sol-operations.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { SEED, startLightBed } from './harness.ts';
import { checkHistory } from './history.ts';
import { live } from './random-lives.ts';

/** Fewer may miss a kind of operation. */
const ENOUGH = 100;
const OPERATIONS = Number(process.env['PARHELION_LIGHT_OPERATIONS'] ?? ENOUGH);

test('compressed lamports: the daemon and the client library agree in every field, and every root is the chain’s', {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, random, wallets, owners } = bed;
  const operation = createSolOperations({ rpc, random, wallets, trees: createStateTrees() });
  const oracle = await createOracle(chain.rpcUrl);
  const compare = () => compareLamports({ ours: rpc, oracle }, owners);
  const life = await live(bed, { operations: OPERATIONS, compareEvery: 25, operation, compare });
  for (const kind of ['compressV1', 'compressV2', 'transferV2', 'decompressV2', 'twice'])
    assert.ok(OPERATIONS < ENOUGH || (life.tally[kind] ?? 0) > 0, `no ${kind} in ${JSON.stringify(life.tally)}`);
  await checkHistory(bed, life.landed);
  t.diagnostic(`${JSON.stringify(life.tally)}, ${life.accounts} unspent accounts, seed ${SEED}`);
});
