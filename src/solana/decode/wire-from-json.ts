/**
 * Writes a transaction that a node gave as JSON in the layout of a version 0 wire transaction, so that every encoding takes the
 * same path from there. Any message version that nodes can show as JSON can be read this way, also ones this decoder does not
 * know as bytes.
 */
import { decode, decode32 } from '../../lib/base58.ts';
import type { RpcMessage } from '../rpc-json.ts';
import { instructionData } from './instruction-data.ts';

/** Bytes in version 0 layout, or the reason why there are none. */
export function wireFromJson(transaction: unknown): Uint8Array | string {
  const { signatures, message } = (transaction ?? {}) as { signatures?: unknown; message?: Partial<RpcMessage> };
  const out: number[] = [];
  const fault = writeSignatures(out, signatures) ?? writeMessage(out, message ?? {});
  return fault ?? Uint8Array.from(out);
}

function writeSignatures(out: number[], signatures: unknown): string | null {
  if (!Array.isArray(signatures) || signatures.length === 0) return 'signatures are missing';
  if (signatures.length > 127) return 'too many signatures';
  writeLength(out, signatures.length);
  for (const text of signatures) {
    const bytes = typeof text === 'string' && text.length <= 88 ? decode(text) : null;
    if (bytes === null || bytes.length !== 64) return 'a signature is malformed';
    append(out, bytes);
  }
  return null;
}

function writeMessage(out: number[], message: Partial<RpcMessage>): string | null {
  out.push(0x80);
  const { header, accountKeys, recentBlockhash } = message;
  const counts = [
    header?.numRequiredSignatures,
    header?.numReadonlySignedAccounts,
    header?.numReadonlyUnsignedAccounts,
  ];
  if (!counts.every(isByte)) return 'the header is malformed';
  append(out, counts);
  if (!Array.isArray(accountKeys) || accountKeys.length > 256) return 'keys are missing';
  writeLength(out, accountKeys.length);
  for (const key of [...accountKeys, recentBlockhash]) {
    if (!writeKey(out, key)) return 'a key or the blockhash is malformed';
  }
  return writeInstructions(out, message.instructions) ?? writeLookups(out, message.addressTableLookups);
}

function writeInstructions(out: number[], instructions: unknown): string | null {
  if (!Array.isArray(instructions) || instructions.length > 65_535) return 'instructions are missing';
  writeLength(out, instructions.length);
  for (const instruction of instructions) {
    const { programIdIndex, accounts, data } = instruction ?? {};
    const bytes = instructionData(data);
    if (!isByte(programIdIndex) || !areBytes(accounts) || bytes === null)
      return 'an instruction is malformed, or parsed by the node';
    out.push(programIdIndex);
    writeLength(out, accounts.length);
    append(out, accounts);
    writeLength(out, bytes.length);
    append(out, bytes);
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

function writeKey(out: number[], text: unknown): boolean {
  const bytes = typeof text === 'string' ? decode32(text) : null;
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
