import { encode32, encode64 } from '../../lib/base58.ts';
import type {
  MessageHeader,
  NormalInstruction,
  TransactionConfig,
  TransactionFault,
  TransactionVersion,
} from '../../ports/block.ts';
import { badTransaction } from './response.ts';
import {
  bytesAt,
  emptyLayout,
  instructionsOf,
  messageHeaderAt,
  NO_SIGNATURE,
  noteOddity,
  readLength,
  skip,
  transactionConfigOf,
  type WireLayout,
  type WireReader,
  walkVersion1,
} from './wire-layout.ts';

/**
 * One pass over the bytes of a transaction that checks every length and records offsets. It creates no objects, because
 * it runs for every transaction of every block.
 */

const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;
const MAX_KEYS = 256;
const VERSIONED = 0x80;

/** The highest version that is decoded from bytes. Later ones are only decoded from JSON. */
export const HIGHEST_WIRE_VERSION = 1;

/**
 * Fills `layout` from the transaction between `reader.at` and `reader.end`. Returns null, or the reason why it is not a legacy,
 * version 0 or version 1 transaction; the parts found before are in the layout. After null every index of an instruction is below the
 * number of static and loaded keys, and `layout.oddity` has what is unusual.
 */
export function walkWire(reader: WireReader, layout: WireLayout): string | null {
  layout.oddity = null;
  const first = reader.at < reader.end ? reader.bytes[reader.at]! : 0;
  if (first < VERSIONED) return walkSignatures(reader, layout) ?? walkMessage(reader, layout);
  // From version 1 on the message comes first and the signatures last.
  const version = first & 0x7f;
  if (version === 1) return walkVersion1(reader, layout);
  layout.version = version;
  return version === 0 ? 'a version 0 message before its signatures' : `unknown transaction version ${version}`;
}

function walkSignatures(reader: WireReader, layout: WireLayout): string | null {
  const count = readLength(reader);
  if (count < 0) return 'bad signature count';
  if (count === 0) noteOddity(layout, 'message', NO_SIGNATURE);
  layout.signatureCount = count;
  layout.signaturesAt = skip(reader, count * SIGNATURE_BYTES);
  return layout.signaturesAt < 0 ? 'signatures are cut off' : null;
}

function walkMessage(reader: WireReader, layout: WireLayout): string | null {
  const first = reader.at < reader.end ? reader.bytes[reader.at]! : 0;
  layout.version = first < VERSIONED ? -1 : first & 0x7f;
  if (layout.version > 0) return `a version ${layout.version} message behind its signatures`;
  if (layout.version === 0) reader.at++;
  layout.headerAt = skip(reader, 3);
  if (layout.headerAt < 0) return 'the header is cut off';
  layout.keyCount = readLength(reader);
  if (layout.keyCount < 1 || layout.keyCount > MAX_KEYS) return 'bad key count';
  layout.keysAt = skip(reader, layout.keyCount * KEY_BYTES);
  if (layout.keysAt < 0) return 'keys are cut off';
  layout.blockhashAt = skip(reader, KEY_BYTES);
  if (layout.blockhashAt < 0) return 'the blockhash is cut off';
  const largestIndex = walkInstructions(reader, layout);
  if (largestIndex < -1) return 'instructions are cut off';
  layout.lookupCount = 0;
  layout.loadedWritable = 0;
  layout.loadedReadonly = 0;
  layout.lookupsAt = reader.at;
  if (layout.version === 0 && !walkLookups(reader, layout)) return 'address table lookups are cut off';
  if (reader.at !== reader.end) return `${reader.end - reader.at} bytes follow the message`;
  const keys = layout.keyCount + layout.loadedWritable + layout.loadedReadonly;
  if (keys > MAX_KEYS) return 'more than 256 keys';
  return largestIndex >= keys ? 'an index points behind the keys' : null;
}

/** The largest key index of all instructions; -1 without instructions, -2 when they are truncated. */
function walkInstructions(reader: WireReader, layout: WireLayout): number {
  const count = readLength(reader);
  if (count < 0) return -2;
  layout.instructionCount = count;
  layout.instructionsAt = reader.at;
  const { bytes } = reader;
  let largest = -1;
  for (let number = 0; number < count; number++) {
    const program = skip(reader, 1);
    if (program < 0) return -2;
    if (bytes[program]! > largest) largest = bytes[program]!;
    const accounts = readLength(reader);
    if (accounts < 0) return -2;
    const from = skip(reader, accounts);
    if (from < 0) return -2;
    for (let at = from; at < from + accounts; at++) if (bytes[at]! > largest) largest = bytes[at]!;
    const length = readLength(reader);
    if (length < 0 || skip(reader, length) < 0) return -2;
  }
  return largest;
}

function walkLookups(reader: WireReader, layout: WireLayout): boolean {
  const count = readLength(reader);
  if (count < 0) return false;
  layout.lookupCount = count;
  layout.lookupsAt = reader.at;
  for (let number = 0; number < count; number++) {
    if (skip(reader, KEY_BYTES) < 0) return false;
    const writable = readLength(reader);
    if (writable < 0 || skip(reader, writable) < 0) return false;
    const readonly = readLength(reader);
    if (readonly < 0 || skip(reader, readonly) < 0) return false;
    layout.loadedWritable += writable;
    layout.loadedReadonly += readonly;
  }
  return true;
}

/** The parts of a transaction that a sender needs before its execution. */
export interface WirePeek {
  /** First signature, base58: the id of the transaction. */
  readonly signature: string;
  /** Whether the first signature is all zeros: the fee payer has not signed. */
  readonly isUnsigned: boolean;
  readonly signatureCount: number;
  /** 64 bytes, a view; RangeError beyond the signatures. */
  signatureAt(index: number): Uint8Array;
  /** What is signed, a view. */
  readonly message: Uint8Array;
  readonly version: TransactionVersion;
  /** Recent blockhash or nonce, base58. */
  readonly recentBlockhash: string;
  readonly staticKeyCount: number;
  /** 32 bytes, a view; RangeError beyond the static keys. */
  staticKey(index: number): Uint8Array;
  readonly header: MessageHeader;
  /** Version 1 only. */
  readonly config: TransactionConfig | null;
  /** What is unusual; null for all others. */
  readonly oddity: TransactionFault | null;
  /** Indexes may also refer to keys of a lookup table. */
  readonly instructions: readonly NormalInstruction[];
}

/**
 * Reads a wire transaction. Throws CHAIN_BAD_TRANSACTION (facts {index: 0, reason}) when its layout is malformed, it has no signature, or
 * it is of a version other than legacy, 0 and 1. Limits of nodes (sizes, counts, repeated keys) are not checked.
 */
export function peekWire(bytes: Uint8Array): WirePeek {
  const layout = emptyLayout();
  const fault = walkWire({ bytes, at: 0, end: bytes.length }, layout);
  if (fault !== null) throw badTransaction(0, fault);
  if (layout.signatureCount === 0) throw badTransaction(0, NO_SIGNATURE);
  const first = bytesAt(bytes, layout.signaturesAt, 64);
  return {
    signature: encode64(bytes, layout.signaturesAt),
    isUnsigned: first.every((byte) => byte === 0),
    signatureCount: layout.signatureCount,
    signatureAt(index) {
      if (!(index >= 0 && index < layout.signatureCount)) throw new RangeError(`no signature ${index}`);
      return bytesAt(bytes, layout.signaturesAt + index * SIGNATURE_BYTES, SIGNATURE_BYTES);
    },
    // Version 1 has it before its signatures.
    message:
      layout.version === 1
        ? bytes.subarray(0, layout.signaturesAt)
        : bytes.subarray(layout.signaturesAt + layout.signatureCount * SIGNATURE_BYTES),
    version: layout.version < 0 ? 'legacy' : layout.version,
    header: messageHeaderAt(bytes, layout.headerAt),
    config: layout.version === 1 ? transactionConfigOf(bytes, layout) : null,
    oddity: layout.oddity,
    recentBlockhash: encode32(bytes, layout.blockhashAt),
    staticKeyCount: layout.keyCount,
    staticKey(index) {
      if (!(index >= 0 && index < layout.keyCount)) throw new RangeError(`no static key ${index}`);
      return bytesAt(bytes, layout.keysAt + index * 32, 32);
    },
    instructions: instructionsOf(bytes, layout),
  };
}
