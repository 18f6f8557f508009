import assert from 'node:assert/strict';
import { WasmFactory } from '@lightprotocol/hasher.rs';
import { type Connection, PublicKey } from '@solana/web3.js';
import { decode32, encode32 } from '../../../src/lib/base58.ts';

const HEIGHT = 26;
const NEXT_INDEX_AT = 240;
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

/** Checks proofs of V1 trees against the accounts of the trees, with a hasher that is not ours. */
export async function createRootCheck(connection: Connection) {
  const hasher = await WasmFactory.getInstance();
  const number = (text: string) => BigInt(`0x${Buffer.from(decode32(text) as Uint8Array).toString('hex')}`).toString();
  const slice = async (tree: string, offset: number, length: number) => {
    const info = await connection.getAccountInfo(new PublicKey(tree), {
      dataSlice: { offset, length },
      commitment: 'confirmed',
    });
    return (info as NonNullable<typeof info>).data;
  };
  return async (proof: V1Proof): Promise<void> => {
    assert.equal(proof.proof.length, HEIGHT);
    let node = number(proof.hash);
    for (const [level, sibling] of proof.proof.entries()) {
      const isRight = Math.floor(proof.leafIndex / 2 ** level) % 2 === 1;
      node = hasher.poseidonHashString(isRight ? [number(sibling), node] : [node, number(sibling)]);
    }
    assert.equal(node, number(proof.root));
    const header = await slice(proof.merkleTree, NEXT_INDEX_AT, 16);
    assert.ok(proof.leafIndex < Number(header.readBigUInt64LE(0)));
    // It is the newest root of the tree, not only one that it once had.
    assert.equal(proof.rootSeq, Number(header.readBigUInt64LE(8)));
    const newest = await slice(proof.merkleTree, NEWEST_ROOT_AT, 8);
    assert.equal(Number(newest.readBigUInt64LE(0)), proof.rootSeq % ROOTS);
    const root = await slice(proof.merkleTree, ROOTS_AT + 32 * (proof.rootSeq % ROOTS), 32);
    assert.equal(encode32(root), proof.root);
  };
}

export type RootCheck = Awaited<ReturnType<typeof createRootCheck>>;
