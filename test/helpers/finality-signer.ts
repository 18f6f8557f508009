/** Validators with BLS keys of their own, and the certificates and footers that they sign: valid ones, and what is wrong with others. */
import { createHash } from 'node:crypto';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { encode } from '../../src/lib/base58.ts';
import { ProtobufWriter } from '../../src/lib/protobuf.ts';
import type { BlockFooter, FinalCertificate, VotesAggregate } from '../../src/solana/finality/footer.ts';
import type { RankMap } from '../../src/solana/finality/rank-map.ts';

const DST = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_';
const { longSignatures: bls, G1, G2 } = bls12_381;
const sha256 = (text: string) => createHash('sha256').update(text).digest();
const none = () => Buffer.alloc(0);

export const blockIdOf = (name: string): Uint8Array => Uint8Array.from(sha256(name));

/** Bytes of a vote, as chapter "what is signed" of the protocol has them: written apart from the program. */
function voteBytes(tag: number, slot: number, blockId: Uint8Array, shredVersion: number): Uint8Array {
  const bytes = Buffer.alloc(11 + blockId.length);
  bytes[0] = tag;
  bytes.writeBigUInt64LE(BigInt(slot), 1);
  bytes.set(blockId, 9);
  bytes.writeUInt16LE(shredVersion, 9 + blockId.length);
  return Uint8Array.from(bytes);
}

function bitmapOf(ranks: readonly number[], positions = Math.max(-1, ...ranks) + 1): Uint8Array {
  const bytes = new Uint8Array(3 + Math.ceil(positions / 8));
  bytes[1] = positions & 0xff;
  bytes[2] = positions >> 8;
  for (const rank of ranks) bytes[3 + (rank >> 3)]! |= 1 << (rank & 7);
  return bytes;
}

export interface SignedBlock {
  readonly slot: number;
  readonly blockId: Uint8Array;
  readonly shredVersion: number;
}

/** Ranks that sign; `finalizers`: those of the second round, which makes the certificate a slow one. */
export interface Signers {
  readonly ranks: readonly number[];
  readonly finalizers?: readonly number[];
}

/** `stakes` in lamports; `seed` names the keys, so that two sets differ. */
export function createValidators(stakes: readonly bigint[], seed = 'validator') {
  const made = stakes.map((stake, index) => {
    const secret = BigInt(`0x${sha256(`${seed} ${index}`).toString('hex')}`) % bls12_381.fields.Fr.ORDER;
    return { secret, stake, publicKey: G1.Point.BASE.multiply(secret).toBytes(true) };
  });
  const ranked = made.toSorted((a, b) =>
    a.stake === b.stake ? Buffer.compare(a.publicKey, b.publicKey) : a.stake > b.stake ? -1 : 1,
  );
  const totalStake = stakes.reduce((sum, stake) => sum + stake, 0n);

  function aggregate(payload: Uint8Array, blockId: Uint8Array, ranks: readonly number[]): VotesAggregate {
    const point = bls.hash(payload, DST);
    // One multiplication instead of many: the sum of all signatures is the signature of the sum of the keys.
    const secret = ranks.reduce((sum, rank) => (sum + ranked[rank]!.secret) % bls12_381.fields.Fr.ORDER, 0n);
    const signature = secret === 0n ? G2.Point.ZERO : point.multiply(secret);
    return { signatureKind: 0, signature: signature.toBytes(true), blockId, signerBitmap: bitmapOf(ranks) };
  }

  return {
    count: ranked.length,
    map: (epoch: number): RankMap => ({
      epoch,
      totalStake,
      validators: ranked.map(({ publicKey, stake }) => ({ publicKey, stake })),
    }),
    /** `value` of `getRankMap`, as JSON text. */
    mapText(epoch: number): string {
      const validators = ranked.map(
        ({ publicKey, stake }, rank) =>
          `{"rank":${rank},"votePubkey":"${encode(sha256(`vote ${rank}`))}","nodePubkey":"${encode(sha256(`node ${rank}`))}",` +
          `"blsPubkeyCompressed":"${encode(publicKey)}","stake":${stake}}`,
      );
      return `{"epoch":${epoch},"totalStake":${totalStake},"validators":[${validators.join(',')}]}`;
    },
    sign({ slot, blockId, shredVersion }: SignedBlock, { ranks, finalizers }: Signers): FinalCertificate {
      const votes = aggregate(voteBytes(1, slot, blockId, shredVersion), blockId, ranks);
      if (finalizers === undefined) return { slot: BigInt(slot), final: votes, notarization: null };
      const final = aggregate(voteBytes(2, slot, none(), shredVersion), none(), finalizers);
      return { slot: BigInt(slot), final, notarization: votes };
    },
  };
}

export type Validators = ReturnType<typeof createValidators>;

export const footerOf = (slot: number, certificate: FinalCertificate | null): BlockFooter => ({
  slot: BigInt(slot),
  certificate,
});

/** `SubscribeUpdate` of proto 14 with a footer, as a server sends it. */
export function footerUpdate({ slot, certificate }: BlockFooter, label = 'footers'): Buffer {
  const writer = new ProtobufWriter();
  writer.element(1, label);
  const footer = writer.begin(12);
  writer.uint(1, slot);
  writer.uint(2, slot);
  writer.text(3, encode(sha256(`bank ${slot}`)));
  if (certificate !== null) {
    const start = writer.begin(9);
    writer.uint(1, certificate.slot);
    writeVotes(writer, 2, certificate.final);
    if (certificate.notarization !== null) writeVotes(writer, 3, certificate.notarization);
    writer.end(start);
  }
  writer.end(footer);
  return writer.take();
}

function writeVotes(writer: ProtobufWriter, field: number, votes: VotesAggregate): void {
  const start = writer.begin(field);
  writer.uint(1, votes.signatureKind);
  writer.raw(2, votes.signature);
  if (votes.blockId.length > 0) writer.raw(3, votes.blockId);
  writer.raw(4, votes.signerBitmap);
  writer.end(start);
}
