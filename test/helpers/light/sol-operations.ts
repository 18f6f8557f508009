import { bn, type CompressedAccountWithMerkleContext, LightSystemProgram, TreeType } from '@lightprotocol/stateless.js';
import type { Keypair } from '@solana/web3.js';
import type { Sfc32 } from '../sfc32.ts';
import { type Landed, type LightRpc, type Operation, send } from './sender.ts';
import type { StateTrees } from './trees.ts';

const MAX_INPUTS = 4;
/** The pool of compressed lamports is an account itself and has to stay free of rent. */
const MIN_LAMPORTS = 1_000_000;

export interface SolOperationsParts {
  /** Where the operations look up accounts and proofs. */
  readonly rpc: LightRpc;
  readonly random: Sfc32;
  readonly wallets: readonly Keypair[];
  readonly trees: StateTrees;
  /** Accounts of V1 trees are spent too. Those of V2 trees are proved by their place in the queue and need no prover. */
  readonly hasProver?: boolean;
}

type Inputs = { readonly owner: Keypair; readonly accounts: CompressedAccountWithMerkleContext[] };

/** Random compressions, transfers and decompressions of lamports, each a transaction. */
export function createSolOperations({ rpc, random, wallets, trees, hasProver }: SolOperationsParts): Operation {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;

  async function inputs(): Promise<Inputs | null> {
    const owner = pick(wallets);
    const { items } = await rpc.getCompressedAccountsByOwner(owner.publicKey);
    const type = hasProver && random.below(2) === 0 ? TreeType.StateV1 : TreeType.StateV2;
    const spendable = items.filter(({ treeInfo }) => treeInfo.treeType === type);
    const accounts: CompressedAccountWithMerkleContext[] = [];
    while (spendable.length > 0 && accounts.length < MAX_INPUTS && (accounts.length === 0 || random.below(2) === 0)) {
      accounts.push(...spendable.splice(random.below(spendable.length), 1));
    }
    const [first] = accounts;
    // Change and transfers go into the tree of the first input.
    return first && trees.hasRoom(first.treeInfo, 2) ? { owner, accounts } : null;
  }

  async function compress(): Promise<Landed> {
    const payer = pick(wallets);
    const v2 = trees.withRoom(1);
    const isV1 = v2.length === 0 || random.below(2) === 0;
    const outputStateTreeInfo = pick(isV1 ? trees.v1 : v2);
    const lamports = random.between(MIN_LAMPORTS, 50_000_000);
    const toAddress = pick(wallets).publicKey;
    const parts = { payer: payer.publicKey, toAddress, lamports, outputStateTreeInfo };
    const instruction = await LightSystemProgram.compress(parts);
    const landed = await send(rpc, { kind: isV1 ? 'compressV1' : 'compressV2', instructions: [instruction], payer });
    trees.take(outputStateTreeInfo, 1);
    return landed;
  }

  async function spend({ owner, accounts }: Inputs): Promise<Landed[]> {
    const proof = await rpc.getValidityProof(accounts.map(({ hash }) => bn(hash)));
    const total = accounts.reduce((sum, { lamports }) => sum + BigInt(lamports.toString()), 0n);
    const isWhole = random.below(4) === 0;
    const lamports = bn((isWhole ? total : 1n + (total * BigInt(random.below(100))) / 101n).toString());
    const parts = {
      payer: owner.publicKey,
      inputCompressedAccounts: accounts,
      toAddress: pick(wallets).publicKey,
      lamports,
      recentInputStateRootIndices: proof.rootIndices,
      recentValidityProof: proof.compressedProof,
    };
    const isTransfer = random.below(3) > 0;
    const instruction = await (isTransfer ? LightSystemProgram.transfer(parts) : LightSystemProgram.decompress(parts));
    const sending = { instructions: [instruction], payer: owner };
    const [{ treeInfo }] = accounts as [CompressedAccountWithMerkleContext];
    const version = treeInfo.treeType === TreeType.StateV1 ? 'V1' : 'V2';
    const landed = await send(rpc, { ...sending, kind: `${isTransfer ? 'transfer' : 'decompress'}${version}` });
    trees.take(treeInfo, 2);
    // One in ten is sent again: it fails on the chain and changes no tree.
    return random.below(10) === 0 ? [landed, await send(rpc, { ...sending, kind: 'twice', fails: true })] : [landed];
  }

  return async () => {
    const spent = random.below(3) > 0 ? await inputs() : null;
    return spent === null ? [await compress()] : spend(spent);
  };
}
