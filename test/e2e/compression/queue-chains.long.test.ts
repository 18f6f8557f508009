/** What waits in the queues of a real V2 tree, against the hashes that its accounts keep of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compress, createRpc, transfer } from '@lightprotocol/stateless.js';
import type { Keypair } from '@solana/web3.js';
import { createQueueReader } from '../../../plugins/compression/chain/queue-check.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { createCall, startLightBed } from './harness.ts';

const LAMPORTS = 5_000_000;
const INPUTS = 4;
const TRANSFERS = 3;
/** Of the trees of a test chain. */
const PART = 10;
const ACCOUNTS = INPUTS * TRANSFERS;

interface Queues {
  readonly stateQueue: Record<
    'outputQueue' | 'inputQueue',
    { readonly firstQueueIndex: number; readonly leavesHashChains: readonly string[] }
  >;
}

test('chains of full parts in the accounts are those of the rows', { skip: await lightMissing() }, async (t) => {
  const bed = await startLightBed(t);
  const [owner, other] = bed.wallets as [Keypair, Keypair];
  const url = `${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`;
  const rpc = createRpc(url, url, url, {
    commitment: 'confirmed',
    wsEndpoint: `${bed.daemon.wsUrl}/?api-key=${bed.daemon.key}`,
  });
  const tree = createStateTrees().v2[0]!;
  for (let made = 0; made < ACCOUNTS; made += 1) await compress(rpc, owner, LAMPORTS, owner.publicKey, tree);
  for (let made = 0; made < TRANSFERS; made += 1) await transfer(rpc, owner, INPUTS * LAMPORTS, owner, other.publicKey);
  await bed.caughtUp();

  const reader = createQueueReader({ call: createCall(bed.chain.rpcUrl) } as unknown as ChainReader, 'confirmed');
  const query = { limit: 100, zkpBatchSize: PART };
  const { stateQueue } = await bed.call<Queues>('getQueueElements', {
    tree: tree.tree.toBase58(),
    outputQueue: query,
    inputQueue: query,
  });
  for (const [account, queue] of [
    [tree.queue, stateQueue.outputQueue],
    [tree.tree, stateQueue.inputQueue],
  ] as const) {
    const found = await reader.read(account.toBytes());
    const chains = found?.chains.map(({ from, size, chain }) => ({ from, size, chain: encode32(chain) }));
    const own = queue.leavesHashChains.map((chain, i) => ({
      from: queue.firstQueueIndex + i * PART,
      size: PART,
      chain,
    }));
    assert.equal(own.length, 1);
    assert.deepEqual(chains, own);
  }
});
