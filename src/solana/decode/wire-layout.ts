import type { AddressTableLookup, MessageHeader, NormalInstruction } from '../../ports/block.ts';
import { INSTRUCTION_HEADER_BYTES, readU16 } from './version-1.ts';

/** Where the parts of a wire transaction lie. All offsets count from the start of the buffer that was walked. */
export interface WireLayout {
  signaturesAt: number;
  signatureCount: number;
  /** -1 for legacy. */
  version: number;
  /** Three counts: required signatures, readonly signed, readonly unsigned. */
  headerAt: number;
  keysAt: number;
  keyCount: number;
  blockhashAt: number;
  /** Version 1: which config values there are, and where the first one is. */
  configMask: number;
  configAt: number;
  /** At the first instruction, behind the count; in version 1 at the first of the instruction headers. */
  instructionsAt: number;
  instructionCount: number;
  /** At the first address table lookup, behind the count. */
  lookupsAt: number;
  lookupCount: number;
  loadedWritable: number;
  loadedReadonly: number;
}

export function emptyLayout(): WireLayout {
  return {
    signaturesAt: 0,
    signatureCount: 0,
    version: -1,
    headerAt: 0,
    keysAt: 0,
    keyCount: 0,
    blockhashAt: 0,
    configMask: 0,
    configAt: 0,
    instructionsAt: 0,
    instructionCount: 0,
    lookupsAt: 0,
    lookupCount: 0,
    loadedWritable: 0,
    loadedReadonly: 0,
  };
}

/** A place in a buffer that moves forward and never passes its end. */
export interface WireReader {
  readonly bytes: Uint8Array;
  at: number;
  end: number;
}

/** Reads a compact-u16 of one to three bytes. -1 when it is cut off, longer than needed, or above 65,535. */
export function readLength(reader: WireReader): number {
  const { bytes, end } = reader;
  const at = reader.at;
  if (at >= end) return -1;
  const first = bytes[at]!;
  if (first < 0x80) {
    reader.at = at + 1;
    return first;
  }
  if (at + 1 >= end) return -1;
  const second = bytes[at + 1]!;
  if (second < 0x80) {
    reader.at = at + 2;
    return second === 0 ? -1 : (first & 0x7f) | (second << 7);
  }
  if (at + 2 >= end) return -1;
  const third = bytes[at + 2]!;
  reader.at = at + 3;
  return third === 0 || third > 3 ? -1 : (first & 0x7f) | ((second & 0x7f) << 7) | (third << 14);
}

/** Passes over `count` bytes and answers where they began, or -1 when there are not so many. */
export function skip(reader: WireReader, count: number): number {
  const from = reader.at;
  if (count > reader.end - from) return -1;
  reader.at = from + count;
  return from;
}

/** Objects made from a walked transaction on demand. All byte arrays are views. */

/** A view that is a plain Uint8Array even where `bytes` is a Buffer. */
export function viewOf(bytes: Uint8Array, at: number, length: number): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset + at, length);
}

function readBytes(reader: WireReader): Uint8Array {
  const length = readLength(reader);
  const view = viewOf(reader.bytes, reader.at, length);
  reader.at += length;
  return view;
}

export function signaturesOf(bytes: Uint8Array, at: number, count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, number) => viewOf(bytes, at + number * 64, 64));
}

export function headerOf(bytes: Uint8Array, at: number): MessageHeader {
  return {
    numRequiredSignatures: bytes[at]!,
    numReadonlySignedAccounts: bytes[at + 1]!,
    numReadonlyUnsignedAccounts: bytes[at + 2]!,
  };
}

/** The instructions of a transaction that `walkWire` accepted. */
export function instructionsOf(bytes: Uint8Array, layout: WireLayout): NormalInstruction[] {
  const { instructionsAt: at, instructionCount: count } = layout;
  if (layout.version === 1) return payloadsOf(bytes, at, count);
  const reader: WireReader = { bytes, at, end: bytes.length };
  const instructions: NormalInstruction[] = [];
  for (let number = 0; number < count; number++) {
    const programIndex = bytes[reader.at++]!;
    instructions.push({ programIndex, accounts: readBytes(reader), data: readBytes(reader) });
  }
  return instructions;
}

/** Version 1: all headers come before the first payload. */
function payloadsOf(bytes: Uint8Array, headersAt: number, count: number): NormalInstruction[] {
  const instructions: NormalInstruction[] = [];
  let at = headersAt + count * INSTRUCTION_HEADER_BYTES;
  for (let number = 0; number < count; number++) {
    const header = headersAt + number * INSTRUCTION_HEADER_BYTES;
    const accounts = viewOf(bytes, at, bytes[header + 1]!);
    const data = viewOf(bytes, at + accounts.length, readU16(bytes, header + 2));
    instructions.push({ programIndex: bytes[header]!, accounts, data });
    at += accounts.length + data.length;
  }
  return instructions;
}

/** Calls back with the offset of each lookup table's key. */
export function eachTableKey(
  bytes: Uint8Array,
  layout: Pick<WireLayout, 'lookupsAt' | 'lookupCount'>,
  use: (at: number) => void,
): void {
  const reader: WireReader = { bytes, at: layout.lookupsAt, end: bytes.length };
  for (let number = 0; number < layout.lookupCount; number++) {
    use(reader.at);
    reader.at += 32;
    for (let list = 0; list < 2; list++) {
      const length = readLength(reader);
      reader.at += length;
    }
  }
}

/** The lookups of a transaction that `walkWire` accepted; `tableKeyAt` gives the id of the key at an offset. */
export function lookupsOf(
  bytes: Uint8Array,
  layout: Pick<WireLayout, 'lookupsAt' | 'lookupCount'>,
  tableKeyAt: (at: number) => number,
): AddressTableLookup[] {
  const reader: WireReader = { bytes, at: layout.lookupsAt, end: bytes.length };
  const lookups: AddressTableLookup[] = [];
  for (let number = 0; number < layout.lookupCount; number++) {
    const tableKey = tableKeyAt(reader.at);
    reader.at += 32;
    lookups.push({ tableKey, writableIndexes: readBytes(reader), readonlyIndexes: readBytes(reader) });
  }
  return lookups;
}

const SIGNATURE_BYTES = 64;

/**
 * The number of the first transaction whose first signature another one of the block has already, or -1. A signature is of one message,
 * and a chain takes a message once. `at`: where the first signature of each transaction lies.
 */
export function repeatedSignature(bytes: Uint8Array, at: readonly number[]): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  /** By 53 bits of a signature, which are as good as random. */
  const seen = new Map<number, number>();
  for (let index = 0; index < at.length; index++) {
    const place = at[index]!;
    const bits = (view.getUint32(place, true) & 0x1fffff) * 2 ** 32 + view.getUint32(place + 4, true);
    const before = seen.get(bits);
    if (before === undefined) seen.set(bits, place);
    else if (
      Buffer.compare(
        bytes.subarray(before, before + SIGNATURE_BYTES),
        bytes.subarray(place, place + SIGNATURE_BYTES),
      ) === 0
    )
      return index;
  }
  return -1;
}
