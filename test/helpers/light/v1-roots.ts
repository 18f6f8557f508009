import assert from 'node:assert/strict';
import { WasmFactory } from '@lightprotocol/hasher.rs';
import { type Connection, PublicKey } from '@solana/web3.js';
import { decode32, encode32 } from '../../../src/lib/base58.ts';

const HEIGHT = 26;
const SEQUENCE_AT = 248;
const NEWEST_ROOT_AT = 360;
const ROOTS = 2_400;
const ROOTS_AT = 1_222_016;

/** An answer of `getCompressedAccountProof`. */
export interface V1Proof {
  readonly hash: string;
  readonly leafIndex: number;
  readonly merkleTree: string;
  readonly proof: readonly string[];
  readonly root: string;
  readonly rootSeq: number;
}

type RootOfTree = Pick<V1Proof, 'merkleTree' | 'root' | 'rootSeq'>;

async function slice(connection: Connection, tree: string, offset: number, length: number): Promise<Buffer> {
  const dataSlice = { offset, length };
  const info = await connection.getAccountInfo(new PublicKey(tree), { dataSlice, commitment: 'confirmed' });
  return (info as NonNullable<typeof info>).data;
}

/** The root is the newest of the tree, not only one that it once had, whether of accounts or of addresses. */
export async function checkNewestRoot(connection: Connection, told: RootOfTree): Promise<void> {
  const { merkleTree, rootSeq } = told;
  const header = await slice(connection, merkleTree, SEQUENCE_AT, NEWEST_ROOT_AT + 8 - SEQUENCE_AT);
  assert.equal(rootSeq, Number(header.readBigUInt64LE(0)));
  assert.equal(Number(header.readBigUInt64LE(NEWEST_ROOT_AT - SEQUENCE_AT)), rootSeq % ROOTS);
  await checkRootAt(connection, told);
}

/** The tree had the root at the change that is told with it; its account keeps 2,400 of them. */
export async function checkKnownRoot(connection: Connection, told: RootOfTree): Promise<void> {
  const newest = Number((await slice(connection, told.merkleTree, SEQUENCE_AT, 8)).readBigUInt64LE(0));
  assert.ok(told.rootSeq <= newest && told.rootSeq > newest - ROOTS, `root ${told.rootSeq} of ${newest}`);
  await checkRootAt(connection, told);
}

async function checkRootAt(connection: Connection, { merkleTree, root, rootSeq }: RootOfTree): Promise<void> {
  assert.equal(encode32(await slice(connection, merkleTree, ROOTS_AT + 32 * (rootSeq % ROOTS), 32)), root);
}

/** Checks that a proof folds to its own root, with a hasher that is not ours. */
export async function createFold() {
  const hasher = await WasmFactory.getInstance();
  const number = (text: string) => BigInt(`0x${Buffer.from(decode32(text) as Uint8Array).toString('hex')}`).toString();
  return (proof: Pick<V1Proof, 'hash' | 'leafIndex' | 'proof' | 'root'>): void => {
    assert.equal(proof.proof.length, HEIGHT);
    let node = number(proof.hash);
    for (const [level, sibling] of proof.proof.entries()) {
      const isRight = Math.floor(proof.leafIndex / 2 ** level) % 2 === 1;
      node = hasher.poseidonHashString(isRight ? [number(sibling), node] : [node, number(sibling)]);
    }
    assert.equal(node, number(proof.root));
  };
}

/** Checks proofs of V1 trees against the accounts of the trees. */
export async function createRootCheck(connection: Connection) {
  const fold = await createFold();
  return async (proof: V1Proof): Promise<void> => {
    fold(proof);
    await checkNewestRoot(connection, proof);
  };
}

export type RootCheck = Awaited<ReturnType<typeof createRootCheck>>;
