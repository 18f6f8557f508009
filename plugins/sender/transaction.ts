import { decode, decode32, encode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { type ChainReader, CodedError, RpcError } from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { NormalInstruction } from '../../src/ports/block.ts';
import { peekWire, type WirePeek } from '../../src/solana/decode/walk-wire.ts';
import { MAX_VERSION_1_BYTES, VERSION_1_BYTE } from '../../src/solana/decode/wire-layout.ts';
import { hasSigned } from '../../src/solana/ed25519.ts';
import { SYSTEM_PROGRAM } from '../../src/solana/programs.ts';

/** A signed transaction, checked as far as possible without the chain. */
export interface SignedTransaction {
  readonly wire: Buffer;
  readonly peek: WirePeek;
}

interface SendCall extends SignedTransaction {
  /** Options that are forwarded; `encoding` is that of `wire`. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** Size limit of one packet: legacy and version 0. */
const MAX_PACKET_BYTES = 1_232;
/** Base58 takes quadratic time to decode, so nodes accept at most a packet in it, for any version. */
const MAX_BASE58_CHARACTERS = 1_683;
const MAX_BASE64_CHARACTERS = Math.ceil(MAX_VERSION_1_BYTES / 3) * 4;
const MAX_BUNDLE = 5;
/** Options of a node that are forwarded. */
const PASSED_OPTIONS = ['skipPreflight', 'preflightCommitment', 'maxRetries', 'minContextSlot'];

/** `[transaction, {encoding, skipPreflight, maxRetries, ...}]`. Throws -32602. */
export function readSendParams(params: unknown): SendCall {
  const [text, given] = Array.isArray(params) ? (params as unknown[]) : [];
  if (typeof text !== 'string') throw invalid('params[0] has to be the transaction as a string');
  if (given !== undefined && given !== null && !isPlainObject(given)) throw invalid('params[1] has to be an object');
  const options = given ?? {};
  const encoding = options['encoding'] ?? 'base58';
  if (encoding !== 'base58' && encoding !== 'base64') throw invalid('encoding has to be base58 or base64');
  const passed = PASSED_OPTIONS.filter((name) => name in options).map((name) => [name, options[name]]);
  return { ...readTransaction(text, encoding, 'params[0]'), options: Object.fromEntries(passed) };
}

/** `[[transaction, ...], {encoding}]`. Throws -32602. */
export function readBundleParams(params: unknown): readonly SignedTransaction[] {
  const [list, options] = Array.isArray(params) ? (params as unknown[]) : [];
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_BUNDLE) {
    throw invalid(`params[0] has to be a list of 1 to ${MAX_BUNDLE} transactions`);
  }
  if (options !== undefined && options !== null && !isPlainObject(options)) {
    throw invalid('params[1] has to be an object');
  }
  const encoding = options?.['encoding'] ?? 'base58';
  if (encoding !== 'base58' && encoding !== 'base64') throw invalid('encoding has to be base58 or base64');
  return list.map((text: unknown, index) => {
    const name = `params[0][${index}]`;
    if (typeof text !== 'string') throw invalid(`${name} has to be a string`);
    return readTransaction(text, encoding, name);
  });
}

function readTransaction(text: string, encoding: 'base58' | 'base64', name: string): SignedTransaction {
  if (encoding === 'base58' && text.length > MAX_BASE58_CHARACTERS)
    throw invalid(`${name} is larger than ${MAX_PACKET_BYTES} bytes, the most in base58; use base64`);
  if (text.length > MAX_BASE64_CHARACTERS) throw invalid(`${name} is larger than ${MAX_VERSION_1_BYTES} bytes`);
  const wire = encoding === 'base64' ? fromBase64(text) : fromBase58(text);
  if (wire === null) throw invalid(`${name} is not ${encoding}`);
  const most = wire[0] === VERSION_1_BYTE ? MAX_VERSION_1_BYTES : MAX_PACKET_BYTES;
  if (wire.length > most) throw invalid(`${name} is larger than ${most} bytes`);
  let peek: WirePeek;
  try {
    peek = peekWire(wire);
  } catch (error) {
    const reason = error instanceof CodedError ? error.facts['reason'] : undefined;
    throw invalid(`${name} is not a transaction${reason === undefined ? '' : `: ${String(reason)}`}`);
  }
  if (peek.signatureCount < 1 || peek.isUnsigned) throw invalid(`${name} is not signed`);
  return { wire, peek };
}

function fromBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '') ? bytes : null;
}

function fromBase58(text: string): Buffer | null {
  const bytes = decode(text);
  return bytes === null ? null : Buffer.from(bytes);
}

const invalid = (details: string) => new RpcError('invalidParams', { details });

const TRANSFER = 2;
const ADVANCE_NONCE = 4;

/** Whether the transaction uses a durable nonce instead of a recent blockhash. */
export function usesNonce(peek: WirePeek): boolean {
  const [first] = peek.instructions;
  return first !== undefined && isSystem(peek, first) && readKind(first) === ADVANCE_NONCE;
}

/**
 * Limits of a version 1 transaction that count as 0 because they are not set (SIMD-0385): it lands, fails and pays. Empty for earlier
 * versions, where a limit has a default.
 */
export function unsetLimits({ peek: { config } }: SignedTransaction): readonly string[] {
  if (config === null) return [];
  const { computeUnitLimit, loadedAccountsDataSizeLimit } = config;
  return Object.entries({ computeUnitLimit, loadedAccountsDataSizeLimit }).flatMap(([name, limit]) =>
    limit === null || limit === 0 ? [name] : [],
  );
}

/** Throws -32602 for a transaction that lacks a signature, or has one that does not verify: it can never land, and would be sent for nothing. */
export function demandSigned({ peek }: SignedTransaction): void {
  const { numRequiredSignatures } = peek.header;
  if (peek.signatureCount !== numRequiredSignatures || numRequiredSignatures > peek.staticKeyCount)
    throw invalid(`params[0] needs ${numRequiredSignatures} signatures and has ${peek.signatureCount}`);
  for (let at = 0; at < numRequiredSignatures; at += 1)
    if (!hasSigned(peek.staticKey(at), peek.message, peek.signatureAt(at)))
      throw invalid(`params[0] has a signature that does not verify, number ${at + 1}`);
}

/** Never throws: what cannot be read now counts as current. */
export type NonceCheck = (transaction: SignedTransaction, tenant: Tenant) => Promise<boolean>;

const NONCE_STATE_AT = 4;
const NONCE_INITIALIZED = 1;
const NONCE_AT = 40;

interface NonceAccount {
  readonly value: { readonly owner: string; readonly data: readonly [base64: string, encoding: string] } | null;
}

/** Compares a durable nonce with its account (layout of Agave, `nonce::versions::Versions`). */
export function createNonceCheck(reader: ChainReader | null): NonceCheck {
  return async ({ peek }, tenant) => {
    if (reader === null || !usesNonce(peek)) return true;
    const at = peek.instructions[0]?.accounts[0];
    if (at === undefined || at >= peek.staticKeyCount) return false;
    try {
      const asked = [encode32(peek.staticKey(at)), { encoding: 'base64', commitment: 'processed' }];
      const { value } = await reader.call<NonceAccount>('getAccountInfo', asked, { tenant });
      if (value === null || value.owner !== SYSTEM_PROGRAM) return false;
      const data = Buffer.from(value.data[0], 'base64');
      if (data.length < NONCE_AT + 32 || data.readUInt32LE(NONCE_STATE_AT) !== NONCE_INITIALIZED) return false;
      return encode32(data, NONCE_AT) === peek.recentBlockhash;
    } catch {
      return true;
    }
  };
}

/**
 * The largest transfer of lamports to one of the accounts; 0n without one. Only keys in the message itself count: the content of
 * a lookup table is not known before the transaction runs.
 */
export function largestTip(peek: WirePeek, accounts: readonly string[]): bigint {
  const receivers = accounts.map((account) => decode32(account)).filter((key) => key !== null);
  let largest = 0n;
  for (const instruction of peek.instructions) {
    if (!isSystem(peek, instruction) || readKind(instruction) !== TRANSFER || instruction.data.length < 12) continue;
    const receiver = instruction.accounts[1];
    if (receiver === undefined || receiver >= peek.staticKeyCount) continue;
    const key = Buffer.from(peek.staticKey(receiver));
    const lamports = Buffer.from(instruction.data).readBigUInt64LE(4);
    if (lamports > largest && receivers.some((other) => key.equals(other))) largest = lamports;
  }
  return largest;
}

function isSystem(peek: WirePeek, { programIndex }: NormalInstruction): boolean {
  return programIndex < peek.staticKeyCount && peek.staticKey(programIndex).every((byte) => byte === 0);
}

const readKind = ({ data }: NormalInstruction) => (data.length < 4 ? -1 : Buffer.from(data).readUInt32LE(0));
