import { createHash } from 'node:crypto';
import { type Connection, type Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js';
import { decode32 } from '../../../src/lib/base58.ts';
import type { TestChain } from '../chain.ts';
import { type Landed, type LightRpc, send } from './sender.ts';
import type { V1Proof } from './v1-roots.ts';

const COMPRESSION = new PublicKey('compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq');
const NOOP = new PublicKey('noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV');
const REGISTRY_PROGRAM = new PublicKey('Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX');
const GROUP = new PublicKey('24rt4RgeyjUCWGS2eF7L7gyNMuz6JWdqYpAvb1KRoHxs');
const RENT = 1_700_000;
const HEIGHT = 26;
/** The account of the tree keeps its upper levels itself. */
const CANOPY = 10;
const NEWEST_CHANGE_AT = 328;
/** Offset in an address tree account, after its canopy. */
const NEWEST_INDEXED_CHANGE_AT = 1_364_312;
const QUEUE_CAPACITY_AT = 232;
const QUEUE_CELL_BYTES = 48;

export interface V1Forester {
  /** Takes a spent account's leaf out of its tree: the program replaces it by zero and tells so. */
  nullify(proof: V1Proof, queue: PublicKey): Promise<Landed>;
  /** Puts a queued address into its tree, behind the low element that the proof names. */
  insert(proof: NewAddressProof, queue: PublicKey): Promise<Landed>;
}

/** An answer of `getMultipleNewAddressProofs`. */
export interface NewAddressProof {
  readonly address: string;
  readonly merkleTree: string;
  readonly lowElementLeafIndex: number;
  readonly lowerRangeAddress: string;
  readonly higherRangeAddress: string;
  readonly nextIndex: number;
  readonly proof: readonly string[];
  readonly root: string;
  readonly rootSeq: number;
}

const discriminator = (name: string) => createHash('sha256').update(name).digest().subarray(0, 8);
const u64 = (value: number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const u32 = (value: number) => u64(value).subarray(0, 4);
const u16 = (value: number) => u64(value).subarray(0, 2);
const bytes32 = (text: string) => decode32(text) as Uint8Array;
const belowCanopy = (proof: readonly string[]) => proof.slice(0, HEIGHT - CANOPY).map(bytes32);

/**
 * Does the upkeep of V1 trees, which needs no proof in zero knowledge. A fixture lets this key sign for a registered program; what it asks the
 * program to do is executed and checked as ever.
 */
export async function createV1Forester(
  chain: TestChain,
  rpc: LightRpc,
  authority: Keypair,
  seat: PublicKey,
): Promise<V1Forester> {
  const data = [discriminator('account:RegisteredProgram'), REGISTRY_PROGRAM, GROUP, authority.publicKey];
  await chain.setAccount(seat.toBase58(), {
    lamports: RENT,
    owner: COMPRESSION.toBase58(),
    executable: false,
    data: Buffer.concat(data.map((part) => (part instanceof PublicKey ? part.toBuffer() : part))),
  });
  // A roll-back of the next blocks leaves the fixture alone.
  await chain.seal(1);
  const ask = (kind: string, keys: readonly [PublicKey, boolean][], parts: readonly Uint8Array[]) => {
    const all: [PublicKey, boolean][] = [[authority.publicKey, false], [seat, false], ...keys];
    const instruction = new TransactionInstruction({
      programId: COMPRESSION,
      keys: all.map(([pubkey, isWritable], at) => ({ pubkey, isSigner: at === 0, isWritable })),
      data: Buffer.concat([discriminator(`global:${kind}`), ...parts]),
    });
    return send(rpc, { kind, instructions: [instruction], payer: authority });
  };
  const numberAt = async (key: PublicKey, offset: number) =>
    Number((await bytesOf(chain.connection, key, { offset, length: 8 })).readBigUInt64LE(0));
  return {
    async nullify(proof, queue) {
      const tree = new PublicKey(proof.merkleTree);
      const change = await numberAt(tree, NEWEST_CHANGE_AT);
      const place = await placeInQueue(chain.connection, queue, bytes32(proof.hash));
      const siblings = belowCanopy(proof.proof);
      return ask(
        'nullify_leaves',
        [
          [NOOP, false],
          [tree, true],
          [queue, true],
        ],
        [
          u32(1),
          u64(change),
          u32(1),
          u16(place),
          u32(1),
          u64(proof.leafIndex),
          u32(1),
          u32(siblings.length),
          ...siblings,
        ],
      );
    },
    async insert(proof, queue) {
      const tree = new PublicKey(proof.merkleTree);
      const change = await numberAt(tree, NEWEST_CHANGE_AT);
      const indexedChange = await numberAt(tree, NEWEST_INDEXED_CHANGE_AT);
      const place = await placeInQueue(chain.connection, queue, bytes32(proof.address));
      return ask(
        'update_address_merkle_tree',
        [
          [queue, true],
          [tree, true],
          [NOOP, false],
        ],
        [
          u16(change),
          u16(indexedChange),
          u16(place),
          u64(proof.lowElementLeafIndex),
          bytes32(proof.lowerRangeAddress),
          u64(proof.nextIndex),
          bytes32(proof.higherRangeAddress),
          ...belowCanopy(proof.proof),
        ],
      );
    },
  };
}

async function bytesOf(connection: Connection, key: PublicKey, dataSlice?: { offset: number; length: number }) {
  const info = await connection.getAccountInfo(key, { commitment: 'confirmed', ...(dataSlice ? { dataSlice } : {}) });
  return (info as NonNullable<typeof info>).data;
}

/** The queue is a hash set: a spent hash lies in one of its cells. */
async function placeInQueue(connection: Connection, queue: PublicKey, hash: Uint8Array): Promise<number> {
  const data = await bytesOf(connection, queue);
  const capacity = Number(data.readBigUInt64LE(QUEUE_CAPACITY_AT));
  const cells = data.length - capacity * QUEUE_CELL_BYTES;
  const at = data.indexOf(hash);
  if (at < cells) throw new Error('the hash is not in the queue');
  return Math.floor((at - cells) / QUEUE_CELL_BYTES);
}
