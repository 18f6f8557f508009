import { messageOf as reasonOf } from '../../lib/coded-error.ts';
import { type DecodedTransaction, decodeTransaction } from '../vm/transaction.ts';
import type { WireEncoding } from './configs.ts';
import { invalidParams } from './rpc-error.ts';
import { base58Bytes, base64Bytes } from './values.ts';

const TRANSACTION = 'solana_transaction::versioned::VersionedTransaction';
const MESSAGE = 'solana_message::versions::VersionedMessage';
const LEGACY_BYTES = 1232;
const LARGEST_BYTES = 4096;
const BASE58_CHARACTERS = 1683;

/** Wire bytes of a transaction or message; faults of the text in the node's words. Throws -32602. */
function wireBytes(text: string, encoding: 'base58' | 'base64', what: string): Uint8Array {
  // Two characters show a version byte from 1 on: only such transactions may be longer than a packet.
  const mayBeLarge = encoding === 'base64' && text.length >= 2 && text.slice(0, 2) >= 'gQ';
  const mostBytes = mayBeLarge ? LARGEST_BYTES : LEGACY_BYTES;
  const most = encoding === 'base58' ? BASE58_CHARACTERS : Math.ceil(mostBytes / 3) * 4;
  if (text.length > most) {
    throw invalidParams(
      `${encoding} encoded ${what} too large: ${text.length} bytes (max: encoded/raw ${most}/${mostBytes})`,
    );
  }
  const bytes = encoding === 'base58' ? base58Bytes(text) : base64Bytes(text);
  if (typeof bytes === 'string') throw invalidParams(`invalid ${encoding} encoding: ${bytes}`);
  if (bytes.length > mostBytes) {
    throw invalidParams(`decoded ${what} too large: ${bytes.length} bytes (max: ${mostBytes} bytes)`);
  }
  return bytes;
}

export function transactionOf(text: string, encoding: WireEncoding = 'base58'): DecodedTransaction {
  if (encoding === 'json' || encoding === 'jsonParsed') {
    throw invalidParams(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`);
  }
  const bytes = wireBytes(text, encoding === 'base64' ? 'base64' : 'base58', TRANSACTION);
  const end = isLarge(bytes) ? bytes.length : walk(bytes, TRANSACTION, walkTransaction);
  try {
    return decodeTransaction(bytes.subarray(0, end));
  } catch (error) {
    if (isLarge(bytes)) throw invalidParams(`failed to deserialize ${TRANSACTION}: ${reasonOf(error)}`);
    throw invalidTransaction('Transaction failed to sanitize accounts offsets correctly');
  }
}

/** From version 1 on the version comes first, the signatures last, and the decoder says what is wrong. */
function isLarge(bytes: Uint8Array): boolean {
  return (bytes[0] ?? 0) > 0x80;
}

export function invalidTransaction(reason: string): Error {
  return invalidParams(`invalid transaction: ${reason}`);
}

/** Bytes of one message. What comes behind it is passed over, as by a node. */
export function messageBytes(text: string): Uint8Array {
  const bytes = wireBytes(text, 'base64', MESSAGE);
  return isLarge(bytes) ? bytes : bytes.subarray(0, walk(bytes, MESSAGE, walkMessage));
}

/** Follows the bytes only as far as to say where they fail, and in which words. Answers where they end. */
function walk(bytes: Uint8Array, what: string, run: (reader: Reader) => void): number {
  const reader = new Reader(bytes);
  try {
    run(reader);
  } catch (error) {
    if (!(error instanceof WireFault)) throw error;
    throw invalidParams(`failed to deserialize ${what}: ${error.message}`);
  }
  return reader.at;
}

class WireFault extends Error {}

class Reader {
  at = 0;
  readonly #bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(count: number): number {
    if (this.at + count > this.#bytes.length) throw new WireFault(`Attempting to read ${count} bytes`);
    this.at += count;
    return this.at - count;
  }

  byte(): number {
    return this.#bytes[this.take(1)]!;
  }

  /** One to three bytes of seven bits each. */
  length(): number {
    let value = 0;
    for (let index = 0; index < 3; index += 1) {
      const byte = this.byte();
      if (index === 2 && byte > 3) break;
      value |= (byte & 0x7f) << (7 * index);
      if (byte < 0x80) return value;
    }
    throw new WireFault('Sequence length would overflow length encoding scheme: u16::MAX');
  }
}

function walkTransaction(reader: Reader): void {
  reader.take(64 * reader.length());
  walkMessage(reader);
}

function walkMessage(reader: Reader): void {
  const first = reader.byte();
  const version = first & 0x7f;
  const isLegacy = first < 0x80;
  if (!isLegacy && version !== 0) throw new WireFault(`Invalid tag encoding: ${version}`);
  reader.take(isLegacy ? 2 : 3);
  reader.take(32 * reader.length());
  reader.take(32);
  for (let left = reader.length(); left > 0; left -= 1) {
    reader.take(1);
    reader.take(reader.length());
    reader.take(reader.length());
  }
  for (let left = isLegacy ? 0 : reader.length(); left > 0; left -= 1) {
    reader.take(32);
    reader.take(reader.length());
    reader.take(reader.length());
  }
}
