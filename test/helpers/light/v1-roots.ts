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

/** The root is the newest of the tree, not only one that it once had, whether of accounts or of addresses. */
export async function checkNewestRoot(
  connection: Connection,
  { merkleTree, root, rootSeq }: Pick<V1Proof, 'merkleTree' | 'root' | 'rootSeq'>,
): Promise<void> {
  const slice = async (offset: number, length: number) => {
    const key = new PublicKey(merkleTree);
    const info = await connection.getAccountInfo(key, { dataSlice: { offset, length }, commitment: 'confirmed' });
    return (info as NonNullable<typeof info>).data;
  };
  const header = await slice(SEQUENCE_AT, NEWEST_ROOT_AT + 8 - SEQUENCE_AT);
  assert.equal(rootSeq, Number(header.readBigUInt64LE(0)));
  assert.equal(Number(header.readBigUInt64LE(NEWEST_ROOT_AT - SEQUENCE_AT)), rootSeq % ROOTS);
  assert.equal(encode32(await slice(ROOTS_AT + 32 * (rootSeq % ROOTS), 32)), root);
}

/** Checks proofs of V1 trees against the accounts of the trees, with a hasher that is not ours. */
export async function createRootCheck(connection: Connection) {
  const hasher = await WasmFactory.getInstance();
  const number = (text: string) => BigInt(`0x${Buffer.from(decode32(text) as Uint8Array).toString('hex')}`).toString();
  return async (proof: V1Proof): Promise<void> => {
    assert.equal(proof.proof.length, HEIGHT);
    let node = number(proof.hash);
    for (const [level, sibling] of proof.proof.entries()) {
      const isRight = Math.floor(proof.leafIndex / 2 ** level) % 2 === 1;
      node = hasher.poseidonHashString(isRight ? [number(sibling), node] : [node, number(sibling)]);
    }
    assert.equal(node, number(proof.root));
    await checkNewestRoot(connection, proof);
  };
}

export type RootCheck = Awaited<ReturnType<typeof createRootCheck>>;
