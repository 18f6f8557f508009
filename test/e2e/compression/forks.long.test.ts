import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { bn, encodeBN254toBase58 } from '@lightprotocol/stateless.js';
import { compareLamports } from '../../helpers/light/compare.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createOracle } from '../../helpers/light/oracle.ts';
import { createSolOperations } from '../../helpers/light/sol-operations.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { type LightBed, proveLeaf, SEED, startLightBed } from './harness.ts';

const ROUNDS = Number(process.env['PARHELION_LIGHT_FORKS'] ?? 6);
const REPLAYS = ['all', 'none', 'reverse'] as const;
const MAX_DEPTH = 9;
const PATIENCE_MS = 60_000;

test('reorgs of the chain revert compressed accounts and trees, whatever the new branch contains', {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await startLightBed(t);
  const { chain, rpc, random, wallets } = bed;
  const operation = createSolOperations({ rpc, random, wallets, trees: createStateTrees() });
  const forks: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let done = random.between(3, 8); done > 0; done -= 1) {
      await operation();
      await bed.caughtUp();
    }
    const before = await agrees(bed);
    const replay = REPLAYS[round % REPLAYS.length] as (typeof REPLAYS)[number];
    const request = {
      depth: random.between(1, MAX_DEPTH),
      replay,
      gap: random.below(3),
      extraBlocks: random.between(1, 3),
    };
    const { dropped } = await chain.fork(request);
    assert.equal(dropped.length, request.depth);
    const after = await agrees(bed);
    forks.push(`${request.depth} ${replay}: ${before} -> ${after}`);
  }
  t.diagnostic(`${forks.join(', ')} accounts, seed ${SEED}`);
});

/** Waits until the daemon returns what a fresh indexer reads, and every leaf of a V1 tree is proven by the newest root. */
async function agrees(bed: LightBed): Promise<number> {
  const { chain, rpc, owners } = bed;
  const oracle = await createOracle(chain.rpcUrl);
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      const count = await compareLamports({ ours: rpc, oracle }, owners);
      for (const owner of owners) {
        for (const { hash, treeInfo } of (await rpc.getCompressedAccountsByOwner(owner)).items)
          if (treeInfo.treeType === 1) await proveLeaf(bed, encodeBN254toBase58(bn(hash)));
      }
      return count;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
      await sleep(50);
    }
  }
}
