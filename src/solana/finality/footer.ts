/**
 * The footer of a block as `SubscribeUpdateBlockFooter` of Yellowstone's proto 14 carries it, and the certificate in it
 * (crate yellowstone-grpc-proto 14.0.1, proto/geyser.proto).
 */
import { type ProtobufReader, ProtobufReader as Reader } from '../../lib/protobuf.ts';

/** Votes of many validators for one thing, added up to one signature. */
export interface VotesAggregate {
  /** 0: compressed point of G2 on BLS12-381, 96 bytes. */
  readonly signatureKind: number;
  readonly signature: Uint8Array;
  /** What block votes are for, 32 bytes; empty for votes on a slot. */
  readonly blockId: Uint8Array;
  /** Ranks of the signers, in the layout of solana-signer-store. */
  readonly signerBitmap: Uint8Array;
}

export interface FinalCertificate {
  /** Slot of the block that the certificate makes final: an earlier one than that of the footer. */
  readonly slot: bigint;
  readonly final: VotesAggregate;
  /** Present in a certificate of two rounds. */
  readonly notarization: VotesAggregate | null;
}

export interface BlockFooter {
  readonly slot: bigint;
  /** Null: nothing became final between this block and its parent. */
  readonly certificate: FinalCertificate | null;
}

const EMPTY = new Uint8Array(0);

/** Throws ProtobufError. */
export function readFooter(bytes: Buffer): BlockFooter {
  const reader = new Reader(bytes);
  let slot = 0n;
  let certificate: FinalCertificate | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) slot = reader.uint64();
    else if (field === 9) certificate = readCertificate(reader.message());
    else reader.skip();
  }
  return { slot, certificate };
}

function readCertificate(reader: ProtobufReader): FinalCertificate {
  let slot = 0n;
  let final: VotesAggregate | null = null;
  let notarization: VotesAggregate | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) slot = reader.uint64();
    else if (field === 2) final = readAggregate(reader.message());
    else if (field === 3) notarization = readAggregate(reader.message());
    else reader.skip();
  }
  return { slot, final: final ?? readAggregate(new Reader(Buffer.alloc(0))), notarization };
}

function readAggregate(reader: ProtobufReader): VotesAggregate {
  let signatureKind = 0;
  let signature: Uint8Array = EMPTY;
  let blockId: Uint8Array = EMPTY;
  let signerBitmap: Uint8Array = EMPTY;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) signatureKind = reader.int32();
    else if (field === 2) signature = Uint8Array.from(reader.view());
    else if (field === 3) blockId = Uint8Array.from(reader.view());
    else if (field === 4) signerBitmap = Uint8Array.from(reader.view());
    else reader.skip();
  }
  return { signatureKind, signature, blockId, signerBitmap };
}
