/** Objects made from a walked transaction on demand. All byte arrays are views. */
import type { AddressTableLookup, MessageHeader, NormalInstruction } from '../../ports/block.ts';
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
export function instructionsOf(bytes: Uint8Array, at: number, count: number): NormalInstruction[] {
  const reader: WireReader = { bytes, at, end: bytes.length };
  const instructions: NormalInstruction[] = [];
  for (let number = 0; number < count; number++) {
    const programIndex = bytes[reader.at++]!;
    instructions.push({ programIndex, accounts: readBytes(reader), data: readBytes(reader) });
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
