/**
 * Where programs publish their interfaces on the chain: an account of the program Program Metadata, and the IDL account of Anchor. And how
 * instructions write these accounts, piece by piece or from a buffer.
 */

import { createHash } from 'node:crypto';
import { gunzipSync, inflateSync } from 'node:zlib';
import { decode32, encode32 } from '../../lib/base58.ts';
import type { KeyTable, NormalInstruction, NormalTransaction } from '../../ports/block.ts';
import { knownKey, programAddress } from '../addresses.ts';
import { PROGRAM_METADATA_PROGRAM } from '../programs.ts';
import { MAX_IDL_BYTES } from './read-idl.ts';

/** The account with the interface of a program that the program's own authority writes. Null where `program` is no key. */
export function programMetadataAddress(program: string): string | null {
  const key = decode32(program);
  const seed = Buffer.alloc(SEED_BYTES);
  seed.write('idl');
  return key === null ? null : encode32(programAddress([key, seed], knownKey(PROGRAM_METADATA_PROGRAM)));
}

/** The IDL account of an Anchor program. Null where `program` is no key. */
export function anchorAddress(program: string): string | null {
  const key = decode32(program);
  if (key === null) return null;
  const base = programAddress([], key);
  return encode32(createHash('sha256').update(base).update('anchor:idl').update(key).digest());
}

const SEED_BYTES = 16;
const IS_METADATA = 2;
const HEADER_BYTES = 96;
const [COMPRESSION_AT, FORMAT_AT, SOURCE_AT, LENGTH_AT] = [84, 85, 86, 87];
const JSON_FORMAT = 1;
const DIRECT = 0;

/** The text of an account of Program Metadata; null when it holds no JSON of its own. */
export function metadataText(owner: string, data: Uint8Array): string | null {
  if (owner !== PROGRAM_METADATA_PROGRAM || data.length < HEADER_BYTES || data[0] !== IS_METADATA) return null;
  // A format that is not stated may be JSON too; other sources are addresses of something else.
  if (data[FORMAT_AT]! > JSON_FORMAT || data[SOURCE_AT] !== DIRECT) return null;
  const length = Buffer.from(data.buffer, data.byteOffset, data.length).readUInt32LE(LENGTH_AT);
  if (HEADER_BYTES + length > data.length) return null;
  // The encoding only says how clients show bytes that are no text.
  return decompressText(data.subarray(HEADER_BYTES, HEADER_BYTES + length), data[COMPRESSION_AT]!);
}

/** Null for what does not decompress, or to more than an interface may have, and for what is not UTF-8: no text is longer than its bytes. */
function decompressText(bytes: Uint8Array, compression: number): string | null {
  try {
    const plain = uncompressed(bytes, compression);
    return plain === null || plain.length > MAX_IDL_BYTES ? null : UTF8.decode(plain);
  } catch {
    return null;
  }
}

/** A replacement character would have three bytes in the place of one. */
const UTF8 = new TextDecoder('utf-8', { fatal: true });

function uncompressed(bytes: Uint8Array, compression: number): Uint8Array | null {
  const options = { maxOutputLength: MAX_IDL_BYTES };
  if (compression === 0) return bytes;
  if (compression === 1) return gunzipSync(bytes, options);
  return compression === 2 ? inflateSync(bytes, options) : null;
}

const ANCHOR_HEADER_BYTES = 8 + 32 + 4;
const IDL_ACCOUNT = createHash('sha256').update('internal:IdlAccount').digest().subarray(0, 8);

/** The text of an IDL account of Anchor; null when it is none. */
export function anchorText(owner: string, data: Uint8Array, program: string): string | null {
  if (owner !== program || data.length < ANCHOR_HEADER_BYTES) return null;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  const length = bytes.readUInt32LE(ANCHOR_HEADER_BYTES - 4);
  if (!bytes.subarray(0, 8).equals(IDL_ACCOUNT) || ANCHOR_HEADER_BYTES + length > bytes.length) return null;
  return decompressText(bytes.subarray(ANCHOR_HEADER_BYTES, ANCHOR_HEADER_BYTES + length), 2);
}

/** The bytes of an account; null: there is none; undefined: unknown. */
export type AccountBytes = Buffer | null | undefined;

/** What an instruction does to an account with an interface, or to a buffer for one. */
export interface IdlStep {
  readonly account: string;
  /** The buffer that it copies; null: none. */
  readonly source: string | null;
  /** Whether there was no account before. */
  readonly creates: boolean;
  /** Size of the instruction data. */
  readonly bytes: number;
  /** The account after the step. */
  apply(before: AccountBytes, source: AccountBytes): AccountBytes;
}

type KeyAt = (place: number) => string;
type StepPart = Omit<IdlStep, 'bytes'>;

/** Begins the data of all instructions that Anchor adds to a program for its IDL account. */
const ANCHOR_TAG = Buffer.from('40f4bc78a7e9690a', 'hex');
/** No account is larger. */
const MAX_ACCOUNT_BYTES = 10_485_760;

/**
 * The steps of a transaction that succeeded, in the order of execution. To name an account, even as a writable one, is no step: anybody can
 * do that. Its own program has to be called for it, which demands the signature of its authority.
 */
export function idlSteps(
  { tx, keys }: { readonly tx: NormalTransaction; readonly keys: KeyTable },
  program: string,
): readonly IdlStep[] {
  const keyAt = (at: number | undefined): string => {
    const id = at === undefined ? undefined : tx.keys[at];
    return id === undefined ? '' : keys.base58(id);
  };
  const stepsOf = (item: NormalInstruction): readonly IdlStep[] =>
    parts(item).map((part) => ({ ...part, bytes: item.data.length }));
  const parts = ({ programIndex, accounts, data }: NormalInstruction): readonly StepPart[] => {
    const called = keyAt(programIndex);
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
    const at: KeyAt = (place) => keyAt(accounts[place]);
    if (called === PROGRAM_METADATA_PROGRAM) return metadataSteps(bytes, at);
    const isAnchor = called === program && bytes.subarray(0, ANCHOR_TAG.length).equals(ANCHOR_TAG);
    return isAnchor ? anchorSteps(bytes.subarray(ANCHOR_TAG.length), at) : [];
  };
  return tx.instructions.flatMap((item, index) => [
    ...stepsOf(item),
    ...tx.innerInstructions
      .filter((group) => group.index === index)
      .flatMap((group) => group.instructions.flatMap(stepsOf)),
  ]);
}

/** Whether a transaction that succeeded may have changed the interface of a program. */
export function writesInterface(
  found: { readonly tx: NormalTransaction; readonly keys: KeyTable },
  program: string,
): boolean {
  const own = [programMetadataAddress(program), anchorAddress(program)];
  return idlSteps(found, program).some(({ account }) => own.includes(account));
}

const UNKNOWN = { source: null, creates: false, apply: () => undefined } as const;

/** Anchor: create, create buffer, write, set buffer, set authority, close, resize. */
function anchorSteps(data: Buffer, at: KeyAt): readonly StepPart[] {
  const empty = () => anchorBytes(Buffer.alloc(0));
  switch (data[0]) {
    case 0:
      return [{ account: at(1), source: null, creates: true, apply: empty }];
    case 1:
      return [{ account: at(0), source: null, creates: true, apply: empty }];
    case 2: {
      if (data.length < 5) return [];
      const more = data.subarray(5, 5 + data.readUInt32LE(1));
      const apply = (before: AccountBytes) =>
        before ? anchorBytes(Buffer.concat([before.subarray(ANCHOR_HEADER_BYTES), more])) : undefined;
      return [{ account: at(0), source: null, creates: false, apply }];
    }
    case 3:
      return [
        {
          account: at(1),
          source: at(0),
          creates: false,
          apply: (_, source) => (source ? anchorBytes(source.subarray(ANCHOR_HEADER_BYTES)) : undefined),
        },
      ];
    case 4:
    case 6:
      return [];
    case 5:
      return [{ account: at(0), source: null, creates: false, apply: () => null }];
    default:
      return [0, 1].map((place) => ({ account: at(place), ...UNKNOWN }));
  }
}

function anchorBytes(content: Buffer): AccountBytes {
  if (content.length > MAX_ACCOUNT_BYTES) return undefined;
  const bytes = Buffer.alloc(ANCHOR_HEADER_BYTES + content.length);
  IDL_ACCOUNT.copy(bytes);
  bytes.writeUInt32LE(content.length, ANCHOR_HEADER_BYTES - 4);
  content.copy(bytes, ANCHOR_HEADER_BYTES);
  return bytes;
}

const IS_BUFFER = 1;

/** Program Metadata: write, initialize, set authority, set data, set immutable, trim, close, allocate, extend. */
function metadataSteps(data: Buffer, at: KeyAt): readonly StepPart[] {
  const account = at(0);
  switch (data[0]) {
    case 0: {
      if (data.length < 5) return [];
      const [offset, inline] = [data.readUInt32LE(1), data.subarray(5)];
      return [
        {
          account,
          source: inline.length > 0 ? null : at(2),
          creates: false,
          apply: (before, source) => writeBuffer(before, offset, inline.length > 0 ? inline : bufferContent(source)),
        },
      ];
    }
    case 1: {
      if (data.length < 21) return [];
      const [head, inline] = [headOf(data[18]!, data[19]!, data[20]!), data.subarray(21)];
      const isWhole = inline.length > 0;
      const apply = (before: AccountBytes) => metadataBytes(head, isWhole ? inline : bufferContent(before));
      return [{ account, source: null, creates: isWhole, apply }];
    }
    case 3: {
      if (data.length < 4) return [];
      if (data.length === 4) {
        const apply = (before: AccountBytes) =>
          before?.[0] === IS_METADATA
            ? metadataBytes(headOf(data[2]!, data[3]!, before[SOURCE_AT]!), before.subarray(HEADER_BYTES))
            : undefined;
        return [{ account, source: null, creates: false, apply }];
      }
      const [head, inline] = [headOf(data[2]!, data[3]!, data[4]!), data.subarray(5)];
      return [
        {
          account,
          source: inline.length > 0 ? null : at(2),
          creates: false,
          apply: (_, source) => metadataBytes(head, inline.length > 0 ? inline : bufferContent(source)),
        },
      ];
    }
    case 2:
    case 4:
    case 5:
      return [];
    case 6:
      return [{ account, source: null, creates: false, apply: () => null }];
    case 7: {
      const header = Buffer.alloc(HEADER_BYTES);
      header[0] = IS_BUFFER;
      return [{ account, source: null, creates: true, apply: () => header }];
    }
    case 8: {
      if (data.length < 3) return [];
      const more = Buffer.alloc(data.readUInt16LE(1));
      // The room behind the content of other accounts does not count.
      const apply = (before: AccountBytes) =>
        before?.[0] === IS_BUFFER ? writeBuffer(before, before.length - HEADER_BYTES, more) : before;
      return [{ account, source: null, creates: false, apply }];
    }
    default:
      return [{ account, ...UNKNOWN }];
  }
}

const bufferContent = (bytes: AccountBytes): AccountBytes =>
  bytes?.[0] === IS_BUFFER ? bytes.subarray(HEADER_BYTES) : undefined;

function writeBuffer(before: AccountBytes, offset: number, content: AccountBytes): AccountBytes {
  if (before?.[0] !== IS_BUFFER || !content) return undefined;
  const length = Math.max(before.length, HEADER_BYTES + offset + content.length);
  if (length > MAX_ACCOUNT_BYTES) return undefined;
  const bytes = Buffer.alloc(length);
  before.copy(bytes);
  content.copy(bytes, HEADER_BYTES + offset);
  return bytes;
}

function headOf(compression: number, format: number, source: number): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head[0] = IS_METADATA;
  head[COMPRESSION_AT] = compression;
  head[FORMAT_AT] = format;
  head[SOURCE_AT] = source;
  return head;
}

function metadataBytes(head: Buffer, content: AccountBytes): AccountBytes {
  if (!content) return undefined;
  const bytes = Buffer.concat([head, content]);
  bytes.writeUInt32LE(content.length, LENGTH_AT);
  return bytes;
}
