/** A chain with the Light programs and compressed lamports on it, whether a daemon follows or not. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRpc, LightSystemProgram, type TreeInfo } from '@lightprotocol/stateless.js';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { rootPlaces } from '../../../src/solana/compression/tree-accounts.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, type StartDaemonOptions, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { send } from '../../helpers/light/sender.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { sendVersion1 } from '../../helpers/version-1.ts';
import { createCall } from './harness.ts';

/** Blocks after which one is final. */
const FINALITY = 4;
const KEY = 'trees-test-key';
const PATIENCE_MS = 90_000;
const LARGEST = { computeUnitLimit: 1_400_000, loadedAccountsDataSizeLimit: 64 * 2 ** 20 };

export interface TreeState {
  readonly tree: string;
  readonly size: number;
  readonly root: string;
  readonly rootSeq: number;
  readonly state: string;
  readonly reason: string | null;
  readonly verifiedSeq: number | null;
  readonly reading: {
    readonly fromSlot: number;
    readonly toSlot: number;
    readonly filledTo: number | null;
    readonly status: string;
  } | null;
}

export interface TreesBed {
  readonly chain: TestChain;
  readonly v1: TreeInfo;
  readonly v2: TreeInfo;
  readonly owner: string;
  /** Compresses lamports into a tree, each in a separate transaction and block; every second one is of version 1. */
  compress(count: number, tree: TreeInfo): Promise<void>;
  start(options?: Partial<StartDaemonOptions>): Promise<DaemonInProcess>;
}

export async function makeTreesBed(t: TestContext): Promise<TreesBed> {
  const chain = await startChain({ lightAssets: null, finalityDepth: FINALITY });
  const daemons: TestDaemon[] = [];
  t.after(async () => {
    for (const daemon of daemons) await daemon.stop().catch(() => undefined);
    await chain.stop();
  });
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
  // Nothing here asks an indexer.
  const rpc = createRpc(chain.rpcUrl, chain.rpcUrl, chain.rpcUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
  const trees = createStateTrees();
  let made = 0;
  return {
    chain,
    v1: trees.v1[0] as TreeInfo,
    v2: trees.v2[0] as TreeInfo,
    owner: payer.publicKey.toBase58(),
    async compress(count, outputStateTreeInfo) {
      for (let left = count; left > 0; left -= 1) {
        made += 1;
        const lamports = 1_000_000 + made;
        const parts = { payer: payer.publicKey, toAddress: payer.publicKey, lamports, outputStateTreeInfo };
        const instructions = [await LightSystemProgram.compress(parts)];
        if (made % 2 === 0) await sendVersion1(chain.connection, payer, instructions, LARGEST);
        else await send(rpc, { kind: 'compress', instructions, payer });
      }
    },
    async start(options = {}) {
      const { config, ...more } = options;
      const daemon = await startDaemon({
        chain,
        key: KEY,
        ...more,
        config: { follow: { pollMs: 20, auditIntervalMs: 100, enabled: true }, ...config },
      });
      daemons.push(daemon);
      return daemon;
    },
  };
}

export async function treeState({ adminUrl }: TestDaemon, { tree }: TreeInfo): Promise<TreeState> {
  const response = await fetch(`${adminUrl}/v0/admin/compression/trees`);
  assert.equal(response.status, 200, await response.clone().text());
  const { trees } = (await response.json()) as { trees: TreeState[] };
  const found = trees.find((one) => one.tree === tree.toBase58());
  assert.ok(found !== undefined, 'the tree is not listed');
  return found;
}

/** Waits until the tree is as expected, while blocks continue. A failure reports its last state. */
export async function untilTree(
  bed: TreesBed,
  daemon: TestDaemon,
  tree: TreeInfo,
  isRight: (state: TreeState) => boolean,
): Promise<TreeState> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const state = await treeState(daemon, tree);
    if (isRight(state)) return state;
    assert.ok(performance.now() < deadlineMs, `last seen: ${JSON.stringify(state)}`);
    await bed.chain.seal(1);
    await sleep(100);
  }
}

interface Proof {
  readonly root: string;
  readonly rootSeq: number;
}

/** Proofs of all accounts of the owner, as the daemon gives them. */
export async function proofsOf(bed: TreesBed, daemon: TestDaemon): Promise<readonly Proof[]> {
  const call = createCall(`${daemon.apiUrl}/?api-key=${KEY}`);
  type Accounts = { readonly value: { readonly items: readonly { readonly hash: string; readonly tree: string }[] } };
  const { value } = await call<Accounts>('getCompressedAccountsByOwner', { owner: bed.owner });
  const hashes = value.items.filter(({ tree }) => tree === bed.v1.tree.toBase58()).map(({ hash }) => hash);
  const answer = await call<{ value: readonly Proof[] }>('getMultipleCompressedAccountProofs', hashes);
  return answer.value;
}

/** Holdings of the owner: the sum of the listed accounts, and the returned balance. */
export async function lamportsOf({ owner }: TreesBed, daemon: TestDaemon) {
  const call = createCall(`${daemon.apiUrl}/?api-key=${KEY}`);
  type Accounts = { readonly value: { readonly items: readonly { readonly lamports: number }[] } };
  const { value } = await call<Accounts>('getCompressedAccountsByOwner', { owner });
  const { value: balance } = await call<{ readonly value: number }>('getCompressedBalanceByOwner', { owner });
  return { listed: value.items.reduce((sum, { lamports }) => sum + lamports, 0), balance };
}

/** Newest root of the first tree, as its account has it. */
export async function chainRoot({ chain, v1 }: TreesBed): Promise<string> {
  const { data } = (await chain.connection.getAccountInfo(v1.tree, 'confirmed'))!;
  const { seqOffset, rootsOffset } = rootPlaces(TREE_TYPE.stateV1);
  const at = rootsOffset + 32 * (Number(data.readBigUInt64LE(seqOffset)) % 2_400);
  return encode32(data.subarray(at, at + 32));
}
