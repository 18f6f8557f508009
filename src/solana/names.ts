import { createHash } from 'node:crypto';
import { encode32 } from '../lib/base58.ts';
import { isOnCurve, knownKey, programAddress } from './addresses.ts';
import { hasSigned } from './ed25519.ts';
import {
  FAVOURITE_PROGRAM,
  NAME_PROGRAM,
  NAME_ROOT,
  RECORDS_CLASS,
  REVERSE_CLASS,
  SRS_CLASS,
  SRS_PROGRAM,
  TOKENIZER_PROGRAM,
} from './programs.ts';

/** The four accounts that determine the address of a name, in the order in which `resolveName` takes them. Keys are 32 bytes. */
export interface NameQuestion {
  readonly domain: Uint8Array;
  readonly keys: readonly [registry: Uint8Array, nftRecord: Uint8Array, recordV2: Uint8Array, recordV1: Uint8Array];
}

/** Which accounts to read. `labels` are the one or two parts of the name before its suffix. */
export function askName(labels: readonly string[]): NameQuestion {
  const domain = domainKey(labels);
  const records = solRecordKeys(domain);
  return { domain, keys: [domain, nftRecordKey(domain), records.v2, records.v1] };
}

export type NameAnswer =
  | { readonly kind: 'address'; readonly address: Uint8Array }
  /** The name is a token: it belongs to the holder of the only token of this mint. */
  | { readonly kind: 'holder'; readonly mint: Uint8Array }
  | { readonly kind: 'unresolved' };

const UNRESOLVED: NameAnswer = { kind: 'unresolved' };

/**
 * The address of a name. The holder of its token takes precedence, then the record of its owner, then the owner. A record of a former
 * owner is ignored; an untrusted record stops the search, since its author meant another address.
 */
export function resolveName(
  { domain, keys }: NameQuestion,
  accounts: readonly (NameAccount | null)[],
  options: { readonly allowPda: boolean },
): NameAnswer {
  const [registryAccount = null, nftRecord = null, v2 = null, v1 = null] = accounts;
  const registry = decodeRegistry(registryAccount);
  if (registry === null) return UNRESOLVED;
  const mint = activeNameMint(nftRecord, domain);
  if (mint !== null) return sameBytes(mint, nameMint(domain)) ? { kind: 'holder', mint } : UNRESOLVED;
  const record = decodeRecordV2(v2);
  if (record?.kind === 'untrusted') return UNRESOLVED;
  if (record?.kind === 'address' && sameBytes(record.signer, registry.owner))
    return record.associated ? { kind: 'address', address: record.address } : UNRESOLVED;
  const signed = signedRecordV1(v1, keys[3], registry.owner);
  if (signed !== null) return { kind: 'address', address: signed };
  if (registry.owner.every((byte) => byte === 0)) return UNRESOLVED;
  if (!options.allowPda && !isOnCurve(registry.owner)) return UNRESOLVED;
  return { kind: 'address', address: registry.owner };
}

const RECORD_BYTES = 75;
const RECORD_TAG = 2;

/** The account of a name, given without its suffix. */
export function srsRecordKey(name: string): Uint8Array {
  const hashed = createHash('sha256').update(`SRS${name}`, 'utf8').digest();
  return programAddress([Buffer.from('record'), knownKey(SRS_CLASS), hashed], knownKey(SRS_PROGRAM));
}

/** The address in the record; none for an expired name. */
export function resolveSrs(record: Uint8Array, account: NameAccount | null, unixSeconds: number): NameAnswer {
  if (account === null || account.owner !== SRS_PROGRAM || account.data.length < RECORD_BYTES) return UNRESOLVED;
  const { data } = account;
  if (data[0] !== RECORD_TAG || !sameBytes(data.subarray(1, 33), knownKey(SRS_CLASS))) return UNRESOLVED;
  const expiry = new DataView(data.buffer, data.byteOffset).getBigInt64(67, true);
  if (expiry !== 0n && expiry <= BigInt(Math.floor(unixSeconds))) return UNRESOLVED;
  const owner = data.subarray(34, 66);
  if (data[33] === 0) return { kind: 'address', address: owner };
  const mint = programAddress([Buffer.from('mint'), record], knownKey(SRS_PROGRAM));
  return data[33] === 1 && sameBytes(owner, mint) ? { kind: 'holder', mint } : UNRESOLVED;
}

const HASH_PREFIX = 'SPL Name Service';
const NONE = new Uint8Array(32);

/** The account of a name below a parent, in a class; both may be absent. Keys are 32 bytes. */
function nameKey(name: string, parent: Uint8Array | null, nameClass: Uint8Array | null = null): Uint8Array {
  const hashed = createHash('sha256')
    .update(HASH_PREFIX + name, 'utf8')
    .digest();
  return programAddress([hashed, nameClass ?? NONE, parent ?? NONE], knownKey(NAME_PROGRAM));
}

/** The account of `labels`, the parts of a name before its suffix: one for a domain, two for a subdomain. */
export function domainKey(labels: readonly string[]): Uint8Array {
  const domain = nameKey(labels[labels.length - 1] as string, knownKey(NAME_ROOT));
  return labels.length === 1 ? domain : nameKey(`\0${labels[0]}`, domain);
}

/** The two accounts in which the owner of a name may have recorded its address. */
function solRecordKeys(domain: Uint8Array): { readonly v1: Uint8Array; readonly v2: Uint8Array } {
  return { v1: nameKey('\x01SOL', domain), v2: nameKey('\x02SOL', domain, knownKey(RECORDS_CLASS)) };
}

/** The account that shows whether a name was tokenized. */
export const nftRecordKey = (domain: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('nft_record'), domain], knownKey(TOKENIZER_PROGRAM));

/** The mint of a name's token. */
export const nameMint = (domain: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('tokenized_name'), domain], knownKey(TOKENIZER_PROGRAM));

/** The account with the text of a name; `parent` is the domain of a subdomain, else null. */
export const reverseKey = (domain: Uint8Array, parent: Uint8Array | null = null): Uint8Array =>
  nameKey(encode32(domain), parent, knownKey(REVERSE_CLASS));

export const favouriteKey = (wallet: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('favourite_domain'), wallet], knownKey(FAVOURITE_PROGRAM));

/** An account as read from the chain. */
export interface NameAccount {
  /** Program that owns it, base58. */
  readonly owner: string;
  readonly data: Uint8Array;
}

/** An entry of the name registry. Keys are 32 bytes. */
interface RegistryEntry {
  readonly parent: Uint8Array;
  readonly owner: Uint8Array;
  readonly nameClass: Uint8Array;
  /** Bytes after the header. */
  readonly content: Uint8Array;
}

const HEADER_BYTES = 96;
const KEY_BYTES = 32;

/** Null when the account is absent, of another program, or too short. */
function decodeRegistry(account: NameAccount | null): RegistryEntry | null {
  if (account === null || account.owner !== NAME_PROGRAM || account.data.length < HEADER_BYTES) return null;
  const { data } = account;
  return {
    parent: data.subarray(0, 32),
    owner: data.subarray(32, 64),
    nameClass: data.subarray(64, HEADER_BYTES),
    content: data.subarray(HEADER_BYTES),
  };
}

const NFT_RECORD_BYTES = 98;
const ACTIVE_TAG = 2;

/** The mint whose holder owns a name; null when the name is not tokenized now. */
function activeNameMint(account: NameAccount | null, domain: Uint8Array): Uint8Array | null {
  if (account === null || account.owner !== TOKENIZER_PROGRAM || account.data.length < NFT_RECORD_BYTES) return null;
  const { data } = account;
  if (data[0] !== ACTIVE_TAG || !sameBytes(data.subarray(2, 34), domain)) return null;
  return data.subarray(66, NFT_RECORD_BYTES);
}

const RECORD_HEADER_BYTES = 8;
/** Length of the id for each kind of validation: none, Solana, Ethereum, Solana not verified. */
const ID_BYTES: readonly number[] = [0, 32, 20, 32];
const SOLANA = 1;

/** A record of the second generation; only Solana's own validation is accepted. */
type RecordV2 =
  | {
      readonly kind: 'address';
      readonly address: Uint8Array;
      readonly signer: Uint8Array;
      readonly associated: boolean;
    }
  /** The record names no address, or not in a trusted way. */
  | { readonly kind: 'untrusted' };

/** Null without a record. `signer` is the owner of the name when the record was signed. */
function decodeRecordV2(account: NameAccount | null): RecordV2 | null {
  const entry = decodeRegistry(account);
  if (entry === null) return null;
  const { content } = entry;
  if (content.length < RECORD_HEADER_BYTES) return { kind: 'untrusted' };
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const [staleness, association] = [view.getUint16(0, true), view.getUint16(2, true)];
  const length = view.getUint32(4, true);
  if (staleness !== SOLANA || association !== SOLANA || length !== KEY_BYTES) return { kind: 'untrusted' };
  const start = RECORD_HEADER_BYTES + (ID_BYTES[staleness] as number);
  const contentStart = start + (ID_BYTES[association] as number);
  if (content.length < contentStart + KEY_BYTES) return { kind: 'untrusted' };
  const address = content.subarray(contentStart, contentStart + KEY_BYTES);
  const associated = sameBytes(content.subarray(start, contentStart), address);
  return { kind: 'address', address, signer: content.subarray(RECORD_HEADER_BYTES, start), associated };
}

const SIGNATURE_BYTES = 64;

/** The address in a record of the first generation if `owner` signed it for this record; else null. */
function signedRecordV1(account: NameAccount | null, record: Uint8Array, owner: Uint8Array): Uint8Array | null {
  const content = decodeRegistry(account)?.content;
  if (content === undefined || content.length < KEY_BYTES + SIGNATURE_BYTES) return null;
  const address = content.subarray(0, KEY_BYTES);
  const signature = content.subarray(KEY_BYTES, KEY_BYTES + SIGNATURE_BYTES);
  // The signed message is the hex text of the bytes, because wallets refuse to sign anything but text.
  const message = Buffer.from(Buffer.concat([address, record]).toString('hex'), 'ascii');
  return hasSigned(owner, message, signature) ? address : null;
}

const FAVOURITE_BYTES = 33;

/** The account of a wallet's favourite name; null when none is set. */
export function decodeFavourite(account: NameAccount | null): Uint8Array | null {
  if (account === null || account.owner !== FAVOURITE_PROGRAM || account.data.length < FAVOURITE_BYTES) return null;
  return account.data.subarray(1, FAVOURITE_BYTES);
}

/** The text of a name from its reverse entry; null when it is missing or damaged. */
export function decodeReverse(account: NameAccount | null): string | null {
  const content = decodeRegistry(account)?.content;
  if (content === undefined || content.length < 4) return null;
  const length = new DataView(content.buffer, content.byteOffset).getUint32(0, true);
  if (length === 0 || 4 + length > content.length) return null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(content.subarray(4, 4 + length));
    return text.startsWith('\0') ? text.slice(1) : text;
  } catch {
    return null;
  }
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** A parsed name. */
export interface NameText {
  /** Lower case, otherwise as given. */
  readonly text: string;
  /** Parts before the suffix, outermost last. */
  readonly labels: readonly string[];
  /** Last part, without its dot. */
  readonly suffix: string;
}

const MAX_LENGTH = 255;

/** Null when the text cannot be a name: no dot, empty parts, blanks or control characters, or too long. */
export function parseName(given: string): NameText | null {
  if (given.length > MAX_LENGTH || !given.includes('.')) return null;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: matches the refused characters.
  if (/[\u0000-\u0020\u007f-\u00a0\u2028\u2029]/.test(given)) return null;
  const text = given.toLowerCase();
  const parts = text.split('.');
  if (parts.some((part) => part === '')) return null;
  return { text, labels: parts.slice(0, -1), suffix: parts[parts.length - 1] as string };
}
