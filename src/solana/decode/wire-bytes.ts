import { decode, decode32 } from '../../lib/base58.ts';
import { isPlainObject } from '../../lib/json.ts';
import type { TransactionConfig } from '../../ports/block.ts';
import type { RpcInstruction, RpcMessage, RpcTransactionConfig } from '../rpc-json.ts';
import { instructionData } from './meta.ts';
import { writeVersion1 } from './wire-layout.ts';

/** The bytes of a transaction from an entry of a block, in any encoding of the node. */

/** Wire transactions are far smaller; the limit keeps a faulty node from causing long base58 runs. */
const MAX_BASE58_CHARACTERS = 32_768;

export interface EntryWire {
  /** Bytes that `walkWire` reads. */
  readonly bytes: Uint8Array;
  /** The bytes that were signed. Null where the node sent JSON of a form whose bytes are unknown here. */
  readonly original: Uint8Array | null;
}

/** Reads an entry of a block, or the answer of `getTransaction`. A text is the reason why it has no bytes. */
export function wireOfEntry(entry: unknown): EntryWire | string {
  const { transaction, version, [KEPT_WIRE]: kept } = isPlainObject(entry) ? entry : {};
  if (Array.isArray(transaction)) {
    const [text, encoding] = transaction;
    const bytes = typeof text === 'string' ? decoderOf(encoding)?.(text) : undefined;
    if (bytes === undefined) return 'unknown encoding';
    return bytes === null ? `not ${encoding}` : { bytes, original: bytes };
  }
  const made = wireFromJson(transaction, version);
  if (typeof made === 'string') return made;
  const known = typeof kept === 'string' ? fromBase64(kept) : null;
  return { bytes: made.bytes, original: known ?? (made.isExact ? originalOf(made.bytes, version) : null) };
}

/**
 * Member of an entry as JSON that this program adds: the transaction's bytes in base64, from another answer of the node, where they cannot
 * be made from the JSON.
 */
export const KEPT_WIRE = 'wire';

function decoderOf(encoding: unknown): ((text: string) => Uint8Array | null) | null {
  if (encoding === 'base64') return fromBase64;
  return encoding === 'base58' ? fromBase58 : null;
}

/** Null when it is not base64. */
export function fromBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  // The decoder skips characters outside the alphabet, so a short result means that there were some.
  return bytes.length === base64Length(text) && bytes.length > 0 ? bytes : null;
}

const fromBase58 = (text: string): Uint8Array | null => (text.length <= MAX_BASE58_CHARACTERS ? decode(text) : null);

/** Number of decoded bytes; -1 for an impossible base64 length. */
export function base64Length(text: string): number {
  let characters = text.length;
  while (characters > 0 && characters > text.length - 2 && text.charCodeAt(characters - 1) === 0x3d) characters--;
  return characters % 4 === 1 ? -1 : Math.floor((characters * 3) / 4);
}

/** JSON of a legacy transaction is laid out as version 0: a byte before its header, and an empty list of lookups. */
function originalOf(bytes: Uint8Array, version: unknown): Uint8Array {
  return namedVersion(version) !== 'legacy' ? bytes : withoutVersion(bytes, 1 + bytes[0]! * SIGNATURE_BYTES);
}

const SIGNATURE_BYTES = 64;

const withoutVersion = (bytes: Uint8Array, versionAt: number): Uint8Array =>
  Buffer.concat([bytes.subarray(0, versionAt), bytes.subarray(versionAt + 1, -1)]);

/** The version that an answer names; `legacy` where it names none. Some clients and proxies write it as text. */
export function namedVersion(version: unknown): 'legacy' | number {
  if (typeof version === 'number')
    return Number.isInteger(version) && version >= 0 && version <= 255 ? version : 'legacy';
  return typeof version === 'string' && /^\d{1,3}$/.test(version) ? Number(version) : 'legacy';
}

/**
 * Converts a transaction given as JSON to bytes, so that every encoding takes the same path: version 1 in its
 * own layout, all others in that of version 0. Any message version that nodes can return as JSON can be read this way, also versions
 * that this decoder does not know as bytes.
 */

const MAX_U64 = 2n ** 64n - 1n;
const MAX_SIGNATURES = 127;

interface JsonWire {
  readonly bytes: Uint8Array;
  /** The bytes have everything that the JSON has, in the layout of its version. */
  readonly isExact: boolean;
}

/** `version` is that of the answer. Returns the bytes, or the reason for failure. */
export function wireFromJson(transaction: unknown, version: unknown): JsonWire | string {
  const { signatures, message } = (transaction ?? {}) as { signatures?: unknown; message?: Partial<RpcMessage> };
  if (!Array.isArray(signatures)) return 'signatures are missing';
  if (!isPlainObject(message)) return 'the message is missing';
  const named = namedVersion(version);
  const isKnown = named === 'legacy' ? version === undefined || version === 'legacy' : named <= 1;
  const isExact = isKnown && hasOnly(message, MESSAGE_MEMBERS);
  if (named === 1) {
    const bytes = version1Of(message, signatures);
    if (typeof bytes === 'string') return bytes;
    return { bytes, isExact: isExact && hasOnly(message.transactionConfig ?? {}, CONFIG_MEMBERS) };
  }
  if (signatures.length > MAX_SIGNATURES) return 'too many signatures';
  const out: number[] = [];
  writeLength(out, signatures.length);
  const fault = writeSignatures(out, signatures) ?? writeMessage(out, message);
  return fault ?? { bytes: Uint8Array.from(out), isExact };
}

const MESSAGE_MEMBERS = [
  'accountKeys',
  'addressTableLookups',
  'header',
  'instructions',
  'recentBlockhash',
  'transactionConfig',
];
const CONFIG_MEMBERS = ['computeUnitLimit', 'heapSize', 'loadedAccountsDataSizeLimit', 'priorityFee'];

/** Members without a value say nothing. */
function hasOnly(value: object, names: readonly string[]): boolean {
  return Object.entries(value).every(([name, member]) => names.includes(name) || member === null);
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
  const [blockhash, ...keys] = [recentBlockhash, ...accountKeys].map(keyBytes);
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
    value === null ||
    value === undefined ||
    ((typeof value === 'bigint' || Number.isInteger(value)) && Number(value) >= 0 && Number(value) <= bound);
  if (![computeUnitLimit, loadedAccountsDataSizeLimit, heapSize].every((value) => fits(value, 2 ** 32 - 1)))
    return null;
  if (!fits(priorityFee, 2 ** 64)) return null;
  const fee = priorityFee === null || priorityFee === undefined ? null : BigInt(priorityFee);
  return {
    // Where the answer was parsed into doubles, the largest fees were rounded up.
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

const keyBytes = (text: unknown): Uint8Array | null => (typeof text === 'string' ? decode32(text) : null);

function writeKey(out: number[], text: unknown): boolean {
  const bytes = keyBytes(text);
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
