import { decode, decode32 } from '../../lib/base58.ts';
import type { TransactionConfig } from '../../ports/block.ts';
import type { RpcInstruction, RpcMessage, RpcTransactionConfig } from '../rpc-json.ts';
import { instructionData } from './meta.ts';
import { badTransaction } from './response.ts';
import { writeVersion1 } from './wire-layout.ts';

/** The concatenated bytes of transactions, in any encoding of the node. */

/** Wire transactions are far smaller; the limit keeps a faulty node from causing long base58 runs. */
const MAX_BASE58_CHARACTERS = 32_768;

export interface WireBytes {
  readonly bytes: Uint8Array;
  /** Start of each transaction; one more entry contains the end of the last one. */
  readonly starts: Uint32Array;
}

/** Reads the `transaction` member of each entry. Throws CHAIN_BAD_TRANSACTION (facts {index, reason}). */
export function wireBytesOf(entries: readonly unknown[]): WireBytes {
  const sources = entries.map((entry, index) => sourceOf(entry as WireEntry | null, index));
  let total = 0;
  for (const source of sources) total += typeof source === 'string' ? Math.max(0, base64Length(source)) : source.length;
  // Not from the pool: views of it live as long as the block.
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(entries.length + 1);
  let at = 0;
  for (let index = 0; index < sources.length; index++) {
    const source = sources[index]!;
    starts[index] = at;
    if (typeof source === 'string') {
      const length = base64Length(source);
      // The decoder skips characters outside the alphabet, so a short result means that there were some.
      if (bytes.write(source, at, 'base64') !== length) throw badTransaction(index, 'not base64');
      at += length;
    } else {
      bytes.set(source, at);
      at += source.length;
    }
  }
  starts[entries.length] = at;
  return { bytes, starts };
}

interface WireEntry {
  readonly transaction?: unknown;
  readonly version?: unknown;
}

/** base64 text, or bytes of the other encodings. */
function sourceOf(entry: WireEntry | null, index: number): string | Uint8Array {
  const transaction = entry?.transaction;
  if (Array.isArray(transaction)) {
    const [text, encoding] = transaction;
    if (typeof text === 'string' && encoding === 'base64') return text;
    if (typeof text === 'string' && encoding === 'base58') return fromBase58(text, index);
    throw badTransaction(index, 'unknown encoding');
  }
  const bytes = wireFromJson(transaction, entry?.version);
  if (typeof bytes === 'string') throw badTransaction(index, bytes);
  return bytes;
}

function fromBase58(text: string, index: number): Uint8Array {
  const bytes = text.length <= MAX_BASE58_CHARACTERS ? decode(text) : null;
  if (bytes === null) throw badTransaction(index, 'not base58');
  return bytes;
}

/** Number of decoded bytes; -1 for an impossible base64 length. */
export function base64Length(text: string): number {
  let characters = text.length;
  while (characters > 0 && characters > text.length - 2 && text.charCodeAt(characters - 1) === 0x3d) characters--;
  return characters % 4 === 1 ? -1 : Math.floor((characters * 3) / 4);
}

/**
 * Converts a transaction given as JSON to bytes, so that every encoding takes the same path: version 1 in its
 * own layout, all others in that of version 0. Any message version that nodes can return as JSON can be read this way, also versions
 * that this decoder does not know as bytes.
 */

const MAX_U64 = 2n ** 64n - 1n;

/** `version` is that of the answer. Returns the bytes, or the reason for failure. */
export function wireFromJson(transaction: unknown, version: unknown): Uint8Array | string {
  const { signatures, message } = (transaction ?? {}) as { signatures?: unknown; message?: Partial<RpcMessage> };
  if (!Array.isArray(signatures) || signatures.length === 0) return 'signatures are missing';
  if (signatures.length > 127) return 'too many signatures';
  if (version === 1) return version1Of(message ?? {}, signatures);
  const out: number[] = [];
  writeLength(out, signatures.length);
  const fault = writeSignatures(out, signatures) ?? writeMessage(out, message ?? {});
  return fault ?? Uint8Array.from(out);
}

function writeSignatures(out: number[], signatures: readonly unknown[]): string | null {
  for (const text of signatures) {
    const bytes = signatureOf(text);
    if (bytes === null) return 'a signature is malformed';
    append(out, bytes);
  }
  return null;
}

function writeMessage(out: number[], message: Partial<RpcMessage>): string | null {
  out.push(0x80);
  const { accountKeys, recentBlockhash } = message;
  if (!writeHeader(out, message)) return 'the header is malformed';
  if (!Array.isArray(accountKeys) || accountKeys.length > 256) return 'keys are missing';
  writeLength(out, accountKeys.length);
  for (const key of [...accountKeys, recentBlockhash]) {
    if (!writeKey(out, key)) return 'a key or the blockhash is malformed';
  }
  return writeInstructions(out, message.instructions) ?? writeLookups(out, message.addressTableLookups);
}

function writeHeader(out: number[], { header }: Partial<RpcMessage>): boolean {
  const counts = [
    header?.numRequiredSignatures,
    header?.numReadonlySignedAccounts,
    header?.numReadonlyUnsignedAccounts,
  ];
  append(out, counts.every(isByte) ? counts : []);
  return counts.every(isByte);
}

function version1Of(message: Partial<RpcMessage>, signatures: readonly unknown[]): Uint8Array | string {
  const { header, accountKeys, recentBlockhash, instructions, addressTableLookups, transactionConfig } = message;
  if (header === undefined || header === null || !writeHeader([], message)) return 'the header is malformed';
  if (header.numRequiredSignatures !== signatures.length) return 'number of signatures and header differ';
  if ((addressTableLookups ?? []).length > 0) return 'version 1 has no address table lookups';
  const config = configOf(transactionConfig ?? {});
  if (config === null) return 'the transaction config is malformed';
  if (!Array.isArray(accountKeys) || !Array.isArray(instructions)) return 'keys or instructions are missing';
  const [blockhash, ...keys] = [recentBlockhash, ...accountKeys].map(keyOf);
  const given = signatures.map(signatureOf);
  const read = instructions.map(instructionOf);
  if (!blockhash || !areGiven(keys)) return 'a key or the blockhash is malformed';
  if (!areGiven(given)) return 'a signature is malformed';
  if (!areGiven(read)) return 'an instruction is malformed, or parsed by the node';
  const parts = { header, config, recentBlockhash: blockhash, keys, instructions: read, signatures: given };
  return writeVersion1(parts) ?? 'a count does not fit';
}

/** Null when a value does not fit. */
function configOf(config: RpcTransactionConfig): TransactionConfig | null {
  const { priorityFee, ...limits } = config;
  const u32 = (value: number | null | undefined) => value ?? null;
  const { computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = limits;
  const fits = (value: unknown, bound: number) =>
    value === null || value === undefined || (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= bound);
  if (![computeUnitLimit, loadedAccountsDataSizeLimit, heapSize].every((value) => fits(value, 2 ** 32 - 1)))
    return null;
  if (!fits(priorityFee, 2 ** 64)) return null;
  const fee = typeof priorityFee === 'number' ? BigInt(priorityFee) : null;
  return {
    // A number cannot hold 64 bits: the largest fees were rounded up.
    priorityFee: fee !== null && fee > MAX_U64 ? MAX_U64 : fee,
    computeUnitLimit: u32(computeUnitLimit),
    loadedAccountsDataSizeLimit: u32(loadedAccountsDataSizeLimit),
    heapSize: u32(heapSize),
  };
}

function instructionOf(given: RpcInstruction | null) {
  const { programIdIndex, accounts, data } = (given ?? {}) as Partial<RpcInstruction>;
  const bytes = instructionData(data);
  if (!isByte(programIdIndex) || !areBytes(accounts) || bytes === null) return null;
  return { programIndex: programIdIndex, accounts: Uint8Array.from(accounts), data: bytes };
}

const areGiven = <T>(list: readonly (T | null)[]): list is readonly T[] => !list.includes(null);

function writeInstructions(out: number[], instructions: unknown): string | null {
  if (!Array.isArray(instructions) || instructions.length > 65_535) return 'instructions are missing';
  writeLength(out, instructions.length);
  for (const one of instructions) {
    const instruction = instructionOf(one);
    if (instruction === null) return 'an instruction is malformed, or parsed by the node';
    const { programIndex, accounts, data } = instruction;
    out.push(programIndex);
    writeLength(out, accounts.length);
    append(out, accounts);
    writeLength(out, data.length);
    append(out, data);
  }
  return null;
}

function writeLookups(out: number[], lookups: unknown): string | null {
  const list = lookups ?? [];
  if (!Array.isArray(list) || list.length > 255) return 'address table lookups are malformed';
  writeLength(out, list.length);
  for (const lookup of list) {
    const { accountKey, writableIndexes, readonlyIndexes } = lookup ?? {};
    if (!writeKey(out, accountKey) || !areBytes(writableIndexes) || !areBytes(readonlyIndexes))
      return 'an address table lookup is malformed';
    writeLength(out, writableIndexes.length);
    append(out, writableIndexes);
    writeLength(out, readonlyIndexes.length);
    append(out, readonlyIndexes);
  }
  return null;
}

function signatureOf(text: unknown): Uint8Array | null {
  const bytes = typeof text === 'string' && text.length <= 88 ? decode(text) : null;
  return bytes?.length === 64 ? bytes : null;
}

const keyOf = (text: unknown): Uint8Array | null => (typeof text === 'string' ? decode32(text) : null);

function writeKey(out: number[], text: unknown): boolean {
  const bytes = keyOf(text);
  if (bytes !== null) append(out, bytes);
  return bytes !== null;
}

function writeLength(out: number[], length: number): void {
  let rest = length;
  for (; rest > 0x7f; rest >>= 7) out.push((rest & 0x7f) | 0x80);
  out.push(rest);
}

function append(out: number[], bytes: Iterable<number | undefined>): void {
  for (const byte of bytes) out.push(byte!);
}

function areBytes(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 65_535 && value.every(isByte);
}

function isByte(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < 256;
}
