import type {
  AddressTableLookup,
  MessageHeader,
  NormalInstruction,
  TransactionConfig,
  TransactionFault,
} from '../../ports/block.ts';

/** Offsets of the parts of a wire transaction, from the start of the walked buffer. */
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
  /** Version 1: bits of the present config values, and the offset of the first one. */
  configMask: number;
  configAt: number;
  /** Offset of the first instruction, after the count; in version 1 of the first instruction header. */
  instructionsAt: number;
  instructionCount: number;
  /** Offset of the first address table lookup, after the count. */
  lookupsAt: number;
  lookupCount: number;
  loadedWritable: number;
  loadedReadonly: number;
  /** What is unusual about a transaction whose parts were all found; null for all others. */
  oddity: TransactionFault | null;
}

/** Offsets are -1 until the walk has found their part. */
export function emptyLayout(): WireLayout {
  return {
    signaturesAt: -1,
    signatureCount: 0,
    version: -1,
    headerAt: 0,
    keysAt: -1,
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
    oddity: null,
  };
}

/** Notes what is unusual; the first one counts. */
export function noteOddity(layout: WireLayout, kind: TransactionFault['kind'], reason: string): void {
  layout.oddity ??= { kind, reason };
}

/** A position in a buffer that only moves forward and never passes its end. */
export interface WireReader {
  readonly bytes: Uint8Array;
  at: number;
  end: number;
}

/** Reads a compact-u16 of one to three bytes. -1 when it is truncated, overlong, or above 65,535. */
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

/** Skips `count` bytes and returns their offset; -1 when there are fewer. */
export function skip(reader: WireReader, count: number): number {
  const from = reader.at;
  if (count > reader.end - from) return -1;
  reader.at = from + count;
  return from;
}

/** Objects created on demand from a walked transaction. All byte arrays are views. */

/** A view that is a plain Uint8Array even where `bytes` is a Buffer. */
export function bytesAt(bytes: Uint8Array, at: number, length: number): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset + at, length);
}

function readBytes(reader: WireReader): Uint8Array {
  const length = readLength(reader);
  const view = bytesAt(reader.bytes, reader.at, length);
  reader.at += length;
  return view;
}

export function signaturesOf(bytes: Uint8Array, at: number, count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, number) => bytesAt(bytes, at + number * 64, 64));
}

export function messageHeaderAt(bytes: Uint8Array, at: number): MessageHeader {
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
    const accounts = bytesAt(bytes, at, bytes[header + 1]!);
    const data = bytesAt(bytes, at + accounts.length, readU16(bytes, header + 2));
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
 * Index of the first transaction whose first signature occurs earlier in the block; -1 when none does. A signature belongs to one
 * message, and a chain accepts a message once. `at`: offset of the first signature of each transaction; -1 for one without.
 */
export function repeatedSignature(bytes: Uint8Array, at: readonly number[]): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  /** By 53 bits of a signature, which are effectively random. */
  const seen = new Map<number, number>();
  for (let index = 0; index < at.length; index++) {
    const place = at[index]!;
    if (place < 0) continue;
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

/**
 * Version 1 transactions (SIMD-0385). All counts are single bytes, there are no lookup tables, and the signatures come last:
 *
 *     129 · header (3) · config mask (u32) · blockhash (32) · number of instructions · number of keys · keys (32 each)
 *     · config values (4 bytes per bit of the mask) · instruction headers (program, number of accounts, u16 of data bytes)
 *     · per instruction its accounts and its data · signatures (64 each)
 *
 * Only the layout is a rule for a reader: any count that fits its byte, any heap size, repeated keys and bits of the mask without a known
 * meaning are read. Limits (64 keys, 64 instructions, 12 signatures, 4,096 bytes) are policy of the runtime, which changes without the format.
 */

export const VERSION_1_BYTE = 0x81;
export const MAX_VERSION_1_BYTES = 4_096;
const KEY_BYTES = 32;
/** From the version byte to the number of keys. */
const FIXED_BYTES = 42;
const INSTRUCTION_HEADER_BYTES = 4;

/** The priority fee takes two bits and eight bytes. */
const PRIORITY_FEE = 0b11;
const COMPUTE_UNIT_LIMIT = 0b100;
const LOADED_ACCOUNTS_DATA_SIZE = 0b1000;
const HEAP_SIZE = 0b1_0000;
const KNOWN_BITS = PRIORITY_FEE | COMPUTE_UNIT_LIMIT | LOADED_ACCOUNTS_DATA_SIZE | HEAP_SIZE;

/** Fills `layout` from the transaction between `reader.at` and `reader.end`. Returns null, or the reason why it is invalid. */
export function walkVersion1(reader: WireReader, layout: WireLayout): string | null {
  const { bytes } = reader;
  const at = skip(reader, FIXED_BYTES);
  if (at < 0) return 'the header is cut off';
  layout.version = 1;
  layout.headerAt = at + 1;
  layout.configMask = readU32(bytes, at + 4);
  layout.blockhashAt = at + 8;
  layout.instructionCount = bytes[at + 40]!;
  layout.keyCount = bytes[at + 41]!;
  layout.signatureCount = bytes[layout.headerAt]!;
  layout.lookupCount = 0;
  layout.loadedWritable = 0;
  layout.loadedReadonly = 0;
  layout.keysAt = skip(reader, layout.keyCount * KEY_BYTES);
  if (layout.keysAt < 0) return 'keys are cut off';
  if (layout.keyCount === 0) return 'there are no keys';
  noteOddities(bytes, layout);
  layout.configAt = skip(reader, configBytes(layout.configMask));
  if (layout.configAt < 0) return 'config values are cut off';
  return walkInstructions(reader, layout) ?? walkSignatures(reader, layout);
}

/** Rules that every node of today enforces, and without which everything can still be found. */
function noteOddities(bytes: Uint8Array, layout: WireLayout): void {
  const { headerAt, configMask, signatureCount, keyCount } = layout;
  const [signed, unsigned] = [bytes[headerAt + 1]!, bytes[headerAt + 2]!];
  if (signatureCount < 1) noteOddity(layout, 'message', NO_SIGNATURE);
  else if (signed >= signatureCount) noteOddity(layout, 'message', 'the fee payer is read-only');
  if (signatureCount + unsigned > keyCount) noteOddity(layout, 'message', 'the header counts more keys than there are');
  const fee = configMask & PRIORITY_FEE;
  if (fee !== 0 && fee !== PRIORITY_FEE)
    noteOddity(layout, 'message', 'one of the two config bits of the priority fee is missing');
  if (configMask > KNOWN_BITS)
    noteOddity(layout, 'config', `the config mask has bits without a known meaning: 0x${configMask.toString(16)}`);
}

export const NO_SIGNATURE = 'it has no signature';

function walkInstructions(reader: WireReader, layout: WireLayout): string | null {
  const { bytes } = reader;
  const count = layout.instructionCount;
  layout.instructionsAt = skip(reader, count * INSTRUCTION_HEADER_BYTES);
  if (layout.instructionsAt < 0) return 'instructions are cut off';
  for (let number = 0; number < count; number++) {
    const at = layout.instructionsAt + number * INSTRUCTION_HEADER_BYTES;
    const program = bytes[at]!;
    if (program === 0) noteOddity(layout, 'message', 'the fee payer is called as a program');
    if (program >= layout.keyCount) return 'an index points behind the keys';
    const accounts = bytes[at + 1]!;
    const from = skip(reader, accounts);
    if (from < 0 || skip(reader, readU16(bytes, at + 2)) < 0) return 'instructions are cut off';
    for (let account = from; account < from + accounts; account++)
      if (bytes[account]! >= layout.keyCount) return 'an index points behind the keys';
  }
  return null;
}

function walkSignatures(reader: WireReader, layout: WireLayout): string | null {
  layout.lookupsAt = reader.at;
  layout.signaturesAt = skip(reader, layout.signatureCount * SIGNATURE_BYTES);
  if (layout.signaturesAt < 0) return 'signatures are cut off';
  if (reader.at === reader.end) return null;
  // A wrong mask is the likelier cause than what it leaves over.
  const fee = layout.configMask & PRIORITY_FEE;
  if (fee !== 0 && fee !== PRIORITY_FEE) return 'one of the two config bits of the priority fee is missing';
  return `${reader.end - reader.at} bytes follow the signatures`;
}

/** The config values of an accepted transaction. */
export function transactionConfigOf(bytes: Uint8Array, { configMask, configAt }: WireLayout): TransactionConfig {
  let at = configAt;
  const next = (bit: number): number | null => {
    if ((configMask & bit) === 0) return null;
    at += 4;
    return readU32(bytes, at - 4);
  };
  const [low, high] = [next(0b01), next(0b10)];
  return {
    priorityFee: low === null || high === null ? null : (BigInt(high) << 32n) | BigInt(low),
    computeUnitLimit: next(COMPUTE_UNIT_LIMIT),
    loadedAccountsDataSizeLimit: next(LOADED_ACCOUNTS_DATA_SIZE),
    heapSize: next(HEAP_SIZE),
  };
}

/** The parts of a transaction. */
export interface Version1Parts {
  readonly header: MessageHeader;
  readonly config: TransactionConfig;
  readonly recentBlockhash: Uint8Array;
  readonly keys: readonly Uint8Array[];
  readonly instructions: readonly {
    readonly programIndex: number;
    readonly accounts: Uint8Array;
    readonly data: Uint8Array;
  }[];
  readonly signatures: readonly Uint8Array[];
}

/** The bytes of a transaction; null when a count or a length does not fit. Walking it finds other errors. */
export function writeVersion1(parts: Version1Parts): Buffer | null {
  const { header, config, keys, instructions, signatures } = parts;
  const counts = [
    header.numReadonlySignedAccounts,
    header.numReadonlyUnsignedAccounts,
    keys.length,
    instructions.length,
  ];
  for (const { programIndex, accounts, data } of instructions)
    counts.push(programIndex, accounts.length, data.length >> 8);
  if (counts.some((count) => count > 0xff) || header.numRequiredSignatures !== signatures.length) return null;
  const lengths = [parts.recentBlockhash, ...keys].every((key) => key.length === KEY_BYTES);
  if (!lengths || signatures.length > 0xff || signatures.some((one) => one.length !== SIGNATURE_BYTES)) return null;
  const fixed = Buffer.alloc(8);
  fixed[0] = VERSION_1_BYTE;
  fixed[1] = header.numRequiredSignatures;
  fixed[2] = header.numReadonlySignedAccounts;
  fixed[3] = header.numReadonlyUnsignedAccounts;
  const values: Buffer[] = [];
  let mask = 0;
  if (config.priorityFee !== null) {
    mask |= PRIORITY_FEE;
    values.push(Buffer.alloc(8));
    values[0]!.writeBigUInt64LE(config.priorityFee);
  }
  const { computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = config;
  [computeUnitLimit, loadedAccountsDataSizeLimit, heapSize].forEach((value, number) => {
    if (value === null) return;
    mask |= COMPUTE_UNIT_LIMIT << number;
    values.push(Buffer.alloc(4));
    values.at(-1)!.writeUInt32LE(value);
  });
  fixed.writeUInt32LE(mask, 4);
  return Buffer.concat([
    fixed,
    parts.recentBlockhash,
    Buffer.of(instructions.length, keys.length),
    ...keys,
    ...values,
    ...instructions.map(({ programIndex, accounts, data }) =>
      Buffer.of(programIndex, accounts.length, data.length & 0xff, data.length >> 8),
    ),
    ...instructions.flatMap(({ accounts, data }) => [accounts, data]),
    ...signatures,
  ]);
}

function configBytes(mask: number): number {
  let bytes = 0;
  for (let bits = mask; bits !== 0; bits >>>= 1) bytes += (bits & 1) * 4;
  return bytes;
}

function readU16(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8);
}

function readU32(bytes: Uint8Array, at: number): number {
  return (readU16(bytes, at) | (readU16(bytes, at + 2) << 16)) >>> 0;
}
