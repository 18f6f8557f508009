/** Objects made from a walked transaction on demand. All byte arrays are views. */
import type { AddressTableLookup, MessageHeader, NormalInstruction } from '../../ports/block.ts';
import { INSTRUCTION_HEADER_BYTES, readU16 } from './version-1.ts';
import type { WireLayout } from './wire-layout.ts';
import { readLength, type WireReader } from './wire-reader.ts';

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
