/** Where programs publish their interfaces on the chain: an account of the program Program Metadata, and the IDL account of Anchor. */
import { createHash } from 'node:crypto';
import { gunzipSync, inflateSync } from 'node:zlib';
import { decode32, encode32 } from '../../lib/base58.ts';
import type { KeyTable, NormalInstruction, NormalTransaction } from '../../ports/block.ts';
import { knownKey, programAddress } from '../addresses.ts';
import { MAX_IDL_BYTES } from './read-idl.ts';

const METADATA_PROGRAM = 'ProgM6JCCvbYkfKqJYHePx4xxSUSqJp7rh8Lyv7nk7S';

/** The account with the interface of a program that the program's own authority writes. Null where `program` is no key. */
export function metadataAddress(program: string): string | null {
  const key = decode32(program);
  const seed = Buffer.alloc(SEED_BYTES);
  seed.write('idl');
  return key === null ? null : encode32(programAddress([key, seed], knownKey(METADATA_PROGRAM)));
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
  if (owner !== METADATA_PROGRAM || data.length < HEADER_BYTES || data[0] !== IS_METADATA) return null;
  // A format that is not stated may be JSON too; other sources are addresses of something else.
  if (data[FORMAT_AT]! > JSON_FORMAT || data[SOURCE_AT] !== DIRECT) return null;
  const length = Buffer.from(data.buffer, data.byteOffset, data.length).readUInt32LE(LENGTH_AT);
  if (HEADER_BYTES + length > data.length) return null;
  // The encoding only says how clients show bytes that are no text.
  return textOf(data.subarray(HEADER_BYTES, HEADER_BYTES + length), data[COMPRESSION_AT]!);
}

/** Null for what does not decompress, or to more than an interface may have, and for what is not UTF-8: no text is longer than its bytes. */
function textOf(bytes: Uint8Array, compression: number): string | null {
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
  return textOf(bytes.subarray(ANCHOR_HEADER_BYTES, ANCHOR_HEADER_BYTES + length), 2);
}

/** Of all instructions that Anchor adds to a program for its IDL account. */
const ANCHOR_TAG = Buffer.from('40f4bc78a7e9690a', 'hex');
/** The account is the first one of an instruction that writes it, or the second one, behind a buffer or the payer. */
const ANCHOR_PLACES = 2;

/**
 * Whether a transaction that succeeded may have changed the interface of a program. To name the account, even as a writable one, is not
 * enough: anybody can do that. Its own program has to be called for it, which demands the signature of its authority.
 */
export function writesInterface(
  { tx, keys }: { readonly tx: NormalTransaction; readonly keys: KeyTable },
  program: string,
): boolean {
  const [metadata, anchor] = [metadataAddress(program), anchorAddress(program)];
  const keyAt = (at: number | undefined) => {
    const id = at === undefined ? undefined : tx.keys[at];
    return id === undefined ? null : keys.base58(id);
  };
  const isWrite = ({ programIndex, accounts, data }: NormalInstruction): boolean => {
    const called = keyAt(programIndex);
    if (called === METADATA_PROGRAM) return keyAt(accounts[0]) === metadata;
    if (called !== program || Buffer.compare(data.subarray(0, ANCHOR_TAG.length), ANCHOR_TAG) !== 0) return false;
    return [...accounts.subarray(0, ANCHOR_PLACES)].some((at) => keyAt(at) === anchor);
  };
  return tx.instructions.some(isWrite) || tx.innerInstructions.some(({ instructions }) => instructions.some(isWrite));
}
