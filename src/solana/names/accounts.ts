import { createPublicKey, verify } from 'node:crypto';
import { FAVOURITE_PROGRAM, NAME_PROGRAM, TOKENIZER_PROGRAM } from './keys.ts';

/** An account as the chain tells it. */
export interface NameAccount {
  /** Program that owns it, base58. */
  readonly owner: string;
  readonly data: Uint8Array;
}

/** An entry of the name registry. Keys are 32 bytes. */
export interface RegistryEntry {
  readonly parent: Uint8Array;
  readonly owner: Uint8Array;
  readonly nameClass: Uint8Array;
  /** What stands behind the header. */
  readonly content: Uint8Array;
}

const HEADER_BYTES = 96;
const KEY_BYTES = 32;

/** Null when the account is absent, of another program, or too short. */
export function decodeRegistry(account: NameAccount | null): RegistryEntry | null {
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

/** The mint whose holder owns a name; null when the name is no token at this time. */
export function activeNameMint(account: NameAccount | null, domain: Uint8Array): Uint8Array | null {
  if (account === null || account.owner !== TOKENIZER_PROGRAM || account.data.length < NFT_RECORD_BYTES) return null;
  const { data } = account;
  if (data[0] !== ACTIVE_TAG || !sameBytes(data.subarray(2, 34), domain)) return null;
  return data.subarray(66, NFT_RECORD_BYTES);
}

const RECORD_HEADER_BYTES = 8;
/** Bytes of the id that each kind of validation keeps: none, Solana, Ethereum, Solana not verified. */
const ID_BYTES: readonly number[] = [0, 32, 20, 32];
const SOLANA = 1;

/** A record of the second generation, of which only Solana's own validation counts. */
export type RecordV2 =
  | {
      readonly kind: 'address';
      readonly address: Uint8Array;
      readonly signer: Uint8Array;
      readonly associated: boolean;
    }
  /** There is a record that names no address in a way that can be trusted. */
  | { readonly kind: 'untrusted' };

/** Null when there is no record. `signer` is who owned the name when the record was signed. */
export function decodeRecordV2(account: NameAccount | null): RecordV2 | null {
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
/** An ed25519 key in DER is these bytes and the key. */
const DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** The address of a record of the first generation, when `owner` signed it for this record; else null. */
export function signedRecordV1(account: NameAccount | null, record: Uint8Array, owner: Uint8Array): Uint8Array | null {
  const content = decodeRegistry(account)?.content;
  if (content === undefined || content.length < KEY_BYTES + SIGNATURE_BYTES) return null;
  const address = content.subarray(0, KEY_BYTES);
  const signature = content.subarray(KEY_BYTES, KEY_BYTES + SIGNATURE_BYTES);
  // What is signed is the text of the bytes in hex, because wallets refuse to sign other bytes than text.
  const message = Buffer.from(Buffer.concat([address, record]).toString('hex'), 'ascii');
  try {
    const key = createPublicKey({ key: Buffer.concat([DER_PREFIX, owner]), format: 'der', type: 'spki' });
    return verify(null, message, key, signature) ? address : null;
  } catch {
    // Thirty-two bytes that are no key sign nothing.
    return null;
  }
}

const FAVOURITE_BYTES = 33;

/** The account of the name that a wallet likes best; null when it has said nothing. */
export function decodeFavourite(account: NameAccount | null): Uint8Array | null {
  if (account === null || account.owner !== FAVOURITE_PROGRAM || account.data.length < FAVOURITE_BYTES) return null;
  return account.data.subarray(1, FAVOURITE_BYTES);
}

/** The text of a name, from its reverse entry; null when there is none or it is damaged. */
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
