import { VersionedTransaction } from '@solana/web3.js';
import { encode32, encode64 } from '../../../../lib/base58.ts';
import { CodedError, messageOf } from '../../../../lib/coded-error.ts';

const PACKET_BYTES = 1232;

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
  readonly version: 'legacy' | 0;
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
export interface DecodedTransaction extends MessageParts {
  readonly bytes: Uint8Array;
  readonly signatures: readonly string[];
}

/**
 * Decodes wire bytes. The engine aborts the whole process on bytes that do not decode, so only what comes back from a full
 * decode-and-encode round trip, byte for byte, ever reaches it. Throws LOCAL_BAD_TRANSACTION.
 */
export function decodeTransaction(bytes: Uint8Array): DecodedTransaction {
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

/** The parts of a message, or null for a version that the engine does not know. */
export function messageParts(message: VersionedTransaction['message']): MessageParts | null {
  const { version } = message;
  if (version !== 'legacy' && version !== 0) return null;
  return {
    version,
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

/** Whether the static key at `index` may be written, by the header alone. */
export function isStaticWritable(message: MessageParts, index: number): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = message.header;
  return index < numRequiredSignatures
    ? index < numRequiredSignatures - numReadonlySignedAccounts
    : index < message.staticKeys.length - numReadonlyUnsignedAccounts;
}

function bad(message: string): CodedError {
  return new CodedError('LOCAL_BAD_TRANSACTION', message);
}
