/**
 * Checks the certificate with which validators make a block final: signatures of BLS12-381 over the votes of agave-votor-messages
 * 4.5.0-alpha.4 (src/wire.rs), signers in the layout of solana-signer-store 0.1.0, and their stake.
 *
 * It proves that the stake certified this slot and block id, and with it all ancestors. A block id is a Merkle root of the block's shreds:
 * which transactions are below it, and which blockhash, it does not prove.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import type { BlockFooter, VotesAggregate } from './footer.ts';
import type { RankMap } from './rank-map.ts';

/** What a certificate that holds proves. */
export interface VerifiedBlock {
  readonly slot: number;
  /** 32 bytes. */
  readonly blockId: Uint8Array;
  /** `fast`: one round of votes by 80 % of the stake; `slow`: two rounds by 60 % each. */
  readonly rounds: 'fast' | 'slow';
  /** Lamports that signed; of two rounds the smaller number. */
  readonly stake: bigint;
  /** Lamports of all ranked validators. */
  readonly totalStake: bigint;
}

/**
 * Why a certificate does not hold: its `slot` is not below that of its footer, the `block-id` has the wrong length, the kind or length of a
 * `signature`, the `bitmap` of the signers, a `key` of the map is no point, too little `stake`, or the signature does not `verify`.
 */
export type CertificateRefusal = 'slot' | 'block-id' | 'signature' | 'bitmap' | 'key' | 'stake' | 'verify';

const DST = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_';
const VOTE = { notarize: 1, finalize: 2 } as const;
const FAST_PERCENT = 80n;
const SLOW_PERCENT = 60n;
const COMPRESSED_G2 = 0;
const SIGNATURE_BYTES = 96;
const BLOCK_ID_BYTES = 32;
const BASE_2 = 0;
/** Base of the bitmap, and the number of positions. */
const BITMAP_HEAD_BYTES = 3;

const { longSignatures: bls, G1 } = bls12_381;
type PublicKey = ReturnType<typeof G1.Point.fromBytes>;

/** Checks certificates against one map of ranks. Keys are decoded when they are first needed: 1.5 ms each. */
export class CertificateChecker {
  readonly #map: RankMap;
  /** Null: the bytes are no point of the subgroup, or the identity. */
  readonly #keys: (PublicKey | null | undefined)[];

  constructor(map: RankMap) {
    this.#map = map;
    this.#keys = new Array(map.validators.length).fill(undefined);
  }

  /** Null: the footer has no certificate. */
  check(footer: BlockFooter, shredVersion: number): VerifiedBlock | CertificateRefusal | null {
    const { certificate } = footer;
    if (certificate === null) return null;
    const { slot, final, notarization } = certificate;
    if (slot >= footer.slot || slot > BigInt(Number.MAX_SAFE_INTEGER)) return 'slot';
    const { blockId } = notarization ?? final;
    if (blockId.length !== BLOCK_ID_BYTES) return 'block-id';
    const notarized = votePayloadOf(VOTE.notarize, slot, blockId, shredVersion);
    if (notarization === null) {
      const stake = this.#verify(final, notarized, FAST_PERCENT);
      return typeof stake === 'string' ? stake : this.#verified(slot, blockId, 'fast', stake);
    }
    // A vote to finalize names a slot only.
    if (final.blockId.length !== 0) return 'block-id';
    const first = this.#verify(notarization, notarized, SLOW_PERCENT);
    if (typeof first === 'string') return first;
    const second = this.#verify(final, votePayloadOf(VOTE.finalize, slot, null, shredVersion), SLOW_PERCENT);
    if (typeof second === 'string') return second;
    const [least = first] = [first, second].sort((a, b) => (a < b ? -1 : 1));
    return this.#verified(slot, blockId, 'slow', least);
  }

  #verified(slot: bigint, blockId: Uint8Array, rounds: VerifiedBlock['rounds'], stake: bigint): VerifiedBlock {
    return { slot: Number(slot), blockId, rounds, stake, totalStake: this.#map.totalStake };
  }

  /** Lamports that signed, or why the votes do not count. */
  #verify(votes: VotesAggregate, payload: Uint8Array, percent: bigint): bigint | CertificateRefusal {
    const { validators, totalStake } = this.#map;
    if (votes.signatureKind !== COMPRESSED_G2 || votes.signature.length !== SIGNATURE_BYTES) return 'signature';
    const ranks = signersOf(votes.signerBitmap, validators.length);
    if (ranks === null) return 'bitmap';
    const stake = ranks.reduce((sum, rank) => sum + validators[rank]!.stake, 0n);
    if (100n * stake < percent * totalStake) return 'stake';
    let signers = G1.Point.ZERO;
    for (const rank of ranks) {
      const key = this.#key(rank);
      if (key === null) return 'key';
      signers = signers.add(key);
    }
    if (signers.is0()) return 'key';
    try {
      const signature = bls.Signature.fromBytes(votes.signature);
      signature.assertValidity();
      return bls.verify(signature, bls.hash(payload, DST), signers) ? stake : 'verify';
    } catch {
      // The bytes are no point of the subgroup.
      return 'signature';
    }
  }

  #key(rank: number): PublicKey | null {
    let key = this.#keys[rank];
    if (key === undefined) {
      key = pointOf(this.#map.validators[rank]!.publicKey);
      this.#keys[rank] = key;
    }
    return key;
  }
}

function pointOf(bytes: Uint8Array): PublicKey | null {
  try {
    const point = G1.Point.fromBytes(bytes);
    point.assertValidity();
    return point.is0() ? null : point;
  } catch {
    return null;
  }
}

/** Little endian, without padding: kind of the vote, slot, block id of votes on blocks, shred version of the cluster. */
export function votePayloadOf(
  kind: number,
  slot: bigint,
  blockId: Uint8Array | null,
  shredVersion: number,
): Uint8Array {
  const head = Buffer.alloc(9);
  head.writeUInt8(kind, 0);
  head.writeBigUInt64LE(slot, 1);
  const tail = Buffer.alloc(2);
  tail.writeUInt16LE(shredVersion, 0);
  return Uint8Array.from(Buffer.concat([head, blockId ?? Buffer.alloc(0), tail]));
}

/** Ranks whose bits are set; null for a bitmap that no final certificate has. Bits beyond the number of positions are ignored. */
function signersOf(bitmap: Uint8Array, validatorCount: number): number[] | null {
  if (bitmap.length < BITMAP_HEAD_BYTES || bitmap[0] !== BASE_2) return null;
  const positions = bitmap[1]! | (bitmap[2]! << 8);
  const bits = bitmap.subarray(BITMAP_HEAD_BYTES);
  if (positions > validatorCount || bits.length !== Math.ceil(positions / 8)) return null;
  const ranks: number[] = [];
  for (let rank = 0; rank < positions; rank += 1) if ((bits[rank >> 3]! >> (rank & 7)) & 1) ranks.push(rank);
  return ranks;
}
