/** The bodies of Parsed Events. Unknown members and members that are null are refused; all readers throw RequestError 400. */
import { decode, decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { RequestError } from '../../src/plugin/plugin.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { RawForm } from './transactions.ts';

export const MAX_TRANSACTIONS = 100;

export interface TransactionsRequest {
  readonly signatures: readonly string[];
  readonly commitment: Commitment;
  readonly rawTransaction: RawForm;
}

export function readTransactions(body: unknown): TransactionsRequest {
  const members = membersOf(body, 'the body', TRANSACTIONS_MEMBERS);
  const given = members['transactions'];
  if (!Array.isArray(given)) throw wrong(`transactions must be an array of at most ${MAX_TRANSACTIONS} signatures`);
  if (given.length > MAX_TRANSACTIONS)
    throw wrong(`at most ${MAX_TRANSACTIONS} transactions per request, got ${given.length}`);
  return {
    signatures: given.map((one, at) => signatureOf(one, `transactions[${at}]`)),
    commitment: choice(members['commitment'], 'commitment', COMMITMENTS, 'confirmed'),
    rawTransaction: rawFormOf(members),
  };
}

const TRANSACTIONS_MEMBERS = ['transactions', 'commitment', 'rawTransaction', 'includeRawTransaction'];
export const COMMITMENTS = ['confirmed', 'finalized'] as const;
export const RAW_FORMS = ['none', 'json', 'jsonParsed', 'base64'] as const;

export const wrong = (message: string): RequestError => new RequestError(400, message);

type Members = Readonly<Record<string, unknown>>;

/** An object of known members, none of them null. */
export function membersOf(value: unknown, what: string, names: readonly string[]): Members {
  if (!isPlainObject(value)) throw wrong(`${what} must be an object`);
  for (const [name, member] of Object.entries(value)) {
    if (!names.includes(name)) throw wrong(`unknown field \`${name.slice(0, 64)}\` in ${what}`);
    if (member === null) throw wrong(`${name} must not be null; leave it out`);
  }
  return value;
}

export function choice<T extends string>(value: unknown, name: string, values: readonly T[], usual: T): T {
  if (value === undefined) return usual;
  if (typeof value !== 'string' || !values.includes(value as T))
    throw wrong(`${name} must be one of ${values.join(', ')}`);
  return value as T;
}

/** A whole number within bounds. */
export function wholeNumber(value: unknown, name: string, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
    throw wrong(`${name} must be a whole number from ${least} to ${most}`);
  return value as number;
}

export function addressOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.length > 44 || decode32(value) === null)
    throw wrong(`${name} must be an address in base58`);
  return value;
}

const SIGNATURE_BYTES = 64;
const MAX_SIGNATURE_CHARS = 88;

export function signatureOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.length > MAX_SIGNATURE_CHARS || decode(value)?.length !== SIGNATURE_BYTES)
    throw wrong(`${name} must be a signature in base58`);
  return value;
}

/** `includeRawTransaction` is the older form. */
export function rawFormOf({ rawTransaction, includeRawTransaction: older }: Members): RawForm {
  if (older === undefined) return choice(rawTransaction, 'rawTransaction', RAW_FORMS, 'none');
  if (rawTransaction !== undefined) throw wrong('rawTransaction and includeRawTransaction exclude each other');
  if (typeof older !== 'boolean') throw wrong('includeRawTransaction must be a boolean');
  return older ? 'json' : 'none';
}
