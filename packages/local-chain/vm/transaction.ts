import { VersionedMessage, VersionedTransaction } from '@solana/web3.js';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { CodedError, messageOf } from '../../../src/lib/coded-error.ts';
import type { TransactionConfig } from '../../../src/ports/block.ts';
import { peekWire, type WirePeek } from '../../../src/solana/decode/walk-wire.ts';
import { MAX_VERSION_1_BYTES } from '../../../src/solana/decode/wire-layout.ts';

const PACKET_BYTES = 1232;
const SIGNATURE_BYTES = 64;

export interface MessageInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
}

export interface TableLookup {
  readonly accountKey: string;
  readonly writableIndexes: readonly number[];
  readonly readonlyIndexes: readonly number[];
}

export interface MessageParts {
  readonly version: 'legacy' | 0 | 1;
  /** Version 1 only. */
  readonly config: TransactionConfig | null;
  readonly header: {
    readonly numRequiredSignatures: number;
    readonly numReadonlySignedAccounts: number;
    readonly numReadonlyUnsignedAccounts: number;
  };
  readonly staticKeys: readonly string[];
  readonly recentBlockhash: string;
  readonly instructions: readonly MessageInstruction[];
  readonly lookups: readonly TableLookup[];
}

/** A transaction whose bytes are proven to be safe for the engine. */
export interface ChainTransaction extends MessageParts {
  readonly bytes: Uint8Array;
  readonly signatures: readonly string[];
}

/**
 * Decodes wire bytes. The engine aborts the whole process on bytes that do not decode, so only the output of a full
 * decode-and-encode round trip, byte for byte, ever reaches it. Throws LOCAL_BAD_TRANSACTION.
 */
export function decodeSentTransaction(bytes: Uint8Array): ChainTransaction {
  if (isMessageFirst(bytes)) return decodeVersion1(bytes);
  if (bytes.length > PACKET_BYTES) {
    throw bad(`transaction too large: ${bytes.length} bytes (max: ${PACKET_BYTES} bytes)`);
  }
  let transaction: VersionedTransaction;
  let again: Uint8Array;
  try {
    transaction = VersionedTransaction.deserialize(bytes);
    again = transaction.serialize();
  } catch (error) {
    throw bad(`failed to deserialize transaction: ${messageOf(error)}`);
  }
  if (again.length !== bytes.length || Buffer.compare(again, bytes) !== 0) {
    throw bad('failed to deserialize transaction: the bytes are not in their only valid form');
  }
  const parts = messageParts(transaction.message);
  if (parts === null) throw bad(`failed to deserialize transaction: version ${transaction.version} is not supported`);
  if (transaction.signatures.length !== parts.header.numRequiredSignatures || transaction.signatures.length === 0) {
    throw bad('failed to deserialize transaction: number of signatures and header differ');
  }
  return { ...parts, bytes: Uint8Array.from(bytes), signatures: transaction.signatures.map((item) => encode64(item)) };
}

/** From version 1 on, which web3.js does not know. */
const isMessageFirst = (bytes: Uint8Array): boolean => (bytes[0] ?? 0) > 0x80;

const MAX_KEYS = 64;
const MAX_INSTRUCTIONS = 64;
const MAX_SIGNATURES = 12;
const KIB = 1_024;

/** Limits of the runtime, which the decoder leaves to nodes; null within them. */
function refusalOf({ oddity, config, ...peek }: WirePeek): string | null {
  if (oddity !== null) return oddity.reason;
  if (peek.signatureCount > MAX_SIGNATURES) return 'bad signature count';
  if (peek.staticKeyCount > MAX_KEYS) return `more than ${MAX_KEYS} keys`;
  if (peek.instructions.length > MAX_INSTRUCTIONS) return `more than ${MAX_INSTRUCTIONS} instructions`;
  const keys = Array.from({ length: peek.staticKeyCount }, (_, index) => encode32(peek.staticKey(index)));
  if (new Set(keys).size < keys.length) return 'a key occurs twice';
  const heap = config?.heapSize ?? null;
  const isHeap = heap === null || (heap % KIB === 0 && heap >= 32 * KIB && heap <= 256 * KIB);
  return isHeap ? null : 'the heap size is no multiple of 1 KiB from 32 to 256 KiB';
}

/** A version 1 transaction has exactly one form, whose layout our own decoder checks. */
function decodeVersion1(bytes: Uint8Array): ChainTransaction {
  if (bytes.length > MAX_VERSION_1_BYTES) {
    throw bad(`transaction too large: ${bytes.length} bytes (max: ${MAX_VERSION_1_BYTES} bytes)`);
  }
  let peek: ReturnType<typeof peekWire>;
  try {
    peek = peekWire(bytes);
  } catch (error) {
    throw bad(String(error instanceof CodedError ? error.facts['reason'] : messageOf(error)));
  }
  const refusal = refusalOf(peek);
  if (refusal !== null) throw bad(refusal);
  const { signatureCount } = peek;
  const end = bytes.length - signatureCount * SIGNATURE_BYTES;
  return {
    version: 1,
    config: peek.config,
    header: peek.header,
    staticKeys: Array.from({ length: peek.staticKeyCount }, (_, index) => encode32(peek.staticKey(index))),
    recentBlockhash: peek.recentBlockhash,
    instructions: peek.instructions.map(({ programIndex, accounts, data }) => ({
      programIdIndex: programIndex,
      accounts: [...accounts],
      data,
    })),
    lookups: [],
    bytes: Uint8Array.from(bytes),
    signatures: Array.from({ length: signatureCount }, (_, number) => encode64(bytes, end + number * SIGNATURE_BYTES)),
  };
}

/** The parts of a message without its signatures; null when the engine does not accept the bytes. */
export function decodeMessage(bytes: Uint8Array): MessageParts | null {
  try {
    if (!isMessageFirst(bytes)) return messageParts(VersionedMessage.deserialize(bytes));
    const signatures = new Uint8Array((bytes[1] ?? 0) * SIGNATURE_BYTES);
    return decodeVersion1(Buffer.concat([bytes, signatures]));
  } catch {
    return null;
  }
}

/** The parts of a message; null for a version that web3.js does not know. */
function messageParts(message: VersionedMessage): MessageParts | null {
  const { version } = message;
  if (version !== 'legacy' && version !== 0) return null;
  return {
    version,
    config: null,
    header: message.header,
    staticKeys: message.staticAccountKeys.map((key) => encode32(key.toBytes())),
    recentBlockhash: message.recentBlockhash,
    instructions: message.compiledInstructions.map((item) => ({
      programIdIndex: item.programIdIndex,
      accounts: item.accountKeyIndexes,
      data: item.data,
    })),
    lookups: message.addressTableLookups.map((item) => ({
      accountKey: encode32(item.accountKey.toBytes()),
      writableIndexes: item.writableIndexes,
      readonlyIndexes: item.readonlyIndexes,
    })),
  };
}

function bad(message: string): CodedError {
  return new CodedError('LOCAL_BAD_TRANSACTION', message);
}
