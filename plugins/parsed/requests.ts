/** The bodies of Parsed Events. Unknown members and members that are null are refused; all readers throw RequestError 400. */

import { decode, decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { RequestError } from '../../src/plugin/plugin.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
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

const wrong = (message: string): RequestError => new RequestError(400, message);

type Members = Readonly<Record<string, unknown>>;

/** An object of known members, none of them null. */
function membersOf(value: unknown, what: string, names: readonly string[]): Members {
  if (!isPlainObject(value)) throw wrong(`${what} must be an object`);
  for (const [name, member] of Object.entries(value)) {
    if (!names.includes(name)) throw wrong(`unknown field \`${name.slice(0, 64)}\` in ${what}`);
    if (member === null) throw wrong(`${name} must not be null; leave it out`);
  }
  return value;
}

function choice<T extends string>(value: unknown, name: string, values: readonly T[], usual: T): T {
  if (value === undefined) return usual;
  if (typeof value !== 'string' || !values.includes(value as T))
    throw wrong(`${name} must be one of ${values.join(', ')}`);
  return value as T;
}

/** A whole number within bounds. */
function wholeNumber(value: unknown, name: string, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
    throw wrong(`${name} must be a whole number from ${least} to ${most}`);
  return value as number;
}

function addressOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.length > 44 || decode32(value) === null)
    throw wrong(`${name} must be an address in base58`);
  return value;
}

const SIGNATURE_BYTES = 64;
const MAX_SIGNATURE_CHARS = 88;

function signatureOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.length > MAX_SIGNATURE_CHARS || decode(value)?.length !== SIGNATURE_BYTES)
    throw wrong(`${name} must be a signature in base58`);
  return value;
}

/** `includeRawTransaction` is the older form. */
function rawFormOf({ rawTransaction, includeRawTransaction: older }: Members): RawForm {
  if (older === undefined) return choice(rawTransaction, 'rawTransaction', RAW_FORMS, 'none');
  if (rawTransaction !== undefined) throw wrong('rawTransaction and includeRawTransaction exclude each other');
  if (typeof older !== 'boolean') throw wrong('includeRawTransaction must be a boolean');
  return older ? 'json' : 'none';
}

// ------------------------------------------------------------------------------------------------------ history and scan

/** Bounds, both inclusive; null: open. */
export interface NumberBounds {
  readonly least: number | null;
  readonly most: number | null;
}

export interface HistoryRequest {
  readonly key: Uint8Array;
  readonly address: string;
  readonly limit: number;
  readonly before: string | null;
  readonly after: string | null;
  readonly token: { readonly slot: number; readonly place: number } | null;
  readonly order: 'asc' | 'desc';
  readonly commitment: Commitment;
  readonly status: 'succeeded' | 'failed' | 'any';
  readonly tokenAccounts: 'none' | 'balanceChanged' | 'all';
  readonly minContextSlot: number | null;
  readonly rawTransaction: RawForm;
  readonly slot: NumberBounds;
  readonly time: NumberBounds;
}

export const MAX_LIMIT = 100;
export const SORT_ORDERS = ['desc', 'asc'] as const;
export const STATUSES = ['succeeded', 'failed', 'any'] as const;
export const TOKEN_ACCOUNT_MODES = ['none', 'balanceChanged', 'all'] as const;
/** Positions of later slots are no safe integers. */
const MAX_SLOT = 100_000_000_000;
const MAX_TIME = 8_640_000_000_000;

const HISTORY_MEMBERS = [
  'address',
  'limit',
  'beforeSignature',
  'afterSignature',
  'paginationToken',
  'sortOrder',
  'commitment',
  'status',
  'tokenAccounts',
  'minContextSlot',
  'rawTransaction',
  'includeRawTransaction',
  'slot',
  'time',
];

export const readHistory = (body: unknown): HistoryRequest => historyOf(membersOf(body, 'the body', HISTORY_MEMBERS));

function historyOf(members: Members): HistoryRequest {
  const { limit, beforeSignature, afterSignature, minContextSlot } = members;
  const address = addressOf(members['address'], 'address');
  return {
    address,
    key: decode32(address)!,
    limit: limit === undefined ? MAX_LIMIT : wholeNumber(limit, 'limit', 1, MAX_LIMIT),
    before: beforeSignature === undefined ? null : signatureOf(beforeSignature, 'beforeSignature'),
    after: afterSignature === undefined ? null : signatureOf(afterSignature, 'afterSignature'),
    token: tokenOf(members['paginationToken']),
    order: choice(members['sortOrder'], 'sortOrder', SORT_ORDERS, 'desc'),
    commitment: choice(members['commitment'], 'commitment', COMMITMENTS, 'confirmed'),
    status: choice(members['status'], 'status', STATUSES, 'succeeded'),
    tokenAccounts: choice(members['tokenAccounts'], 'tokenAccounts', TOKEN_ACCOUNT_MODES, 'none'),
    minContextSlot:
      minContextSlot === undefined ? null : wholeNumber(minContextSlot, 'minContextSlot', 0, Number.MAX_SAFE_INTEGER),
    rawTransaction: rawFormOf(members),
    slot: boundsOf(members['slot'], 'slot', MAX_SLOT),
    time: boundsOf(members['time'], 'time', MAX_TIME),
  };
}

const BOUNDS = ['gt', 'gte', 'lt', 'lte'];

function boundsOf(value: unknown, name: string, most: number): NumberBounds {
  if (value === undefined) return { least: null, most: null };
  const members = membersOf(value, name, BOUNDS);
  const bound = (one: string, shift: number): number[] =>
    members[one] === undefined ? [] : [wholeNumber(members[one], `${name}.${one}`, 0, most) + shift];
  const [above, below] = [
    [...bound('gt', 1), ...bound('gte', 0)],
    [...bound('lt', -1), ...bound('lte', 0)],
  ];
  return {
    least: above.length === 0 ? null : Math.max(...above),
    most: below.length === 0 ? null : Math.min(...below),
  };
}

/** Places of a block are below this. */
const MAX_PLACE = 49_151;

function tokenOf(value: unknown): HistoryRequest['token'] {
  if (value === undefined) return null;
  const parts = typeof value === 'string' ? /^(\d{1,12}):(\d{1,5})$/.exec(value) : null;
  const [slot, place] = [Number(parts?.[1]), Number(parts?.[2])];
  if (!(slot <= MAX_SLOT && place <= MAX_PLACE)) throw wrong('paginationToken must be one of an earlier answer');
  return { slot, place };
}

export interface ProgramFilter {
  readonly programId: string;
  /** In snake_case. */
  readonly instructions: readonly string[];
  readonly discriminators: readonly Uint8Array[];
  readonly scope: Scope;
}

export interface MintFilter {
  readonly mint: string;
  readonly scope: Scope;
}

export type Scope = 'address' | 'transaction';

export interface ScanRequest extends HistoryRequest {
  readonly programs: readonly ProgramFilter[];
  readonly mints: readonly MintFilter[];
  readonly budget: number;
  readonly returnShape: 'transactions' | 'signatures' | 'count';
}

export const SCOPES = ['address', 'transaction'] as const;
export const SHAPES = ['transactions', 'signatures', 'count'] as const;
export const MAX_FILTERS = 20;
export const MAX_NAMES = 50;
export const MAX_BUDGET = 10_000;

export function readScan(body: unknown): ScanRequest {
  const members = membersOf(body, 'the body', [...HISTORY_MEMBERS, 'match', 'budget', 'returnShape']);
  const history = historyOf(members);
  const match = membersOf(members['match'], 'match', ['programs', 'mints']);
  const programs = filtersOf(match['programs'], 'match.programs').map(programFilter);
  const mints = filtersOf(match['mints'], 'match.mints').map(mintFilter);
  if (programs.length + mints.length === 0) throw wrong('match must name programs, mints or both');
  once(
    programs.map(({ programId }) => programId),
    'match.programs',
  );
  once(
    mints.map(({ mint }) => mint),
    'match.mints',
  );
  const budget =
    members['budget'] === undefined ? {} : membersOf(members['budget'], 'budget', ['maxScannedTransactions']);
  const most = budget['maxScannedTransactions'];
  return {
    ...history,
    programs,
    mints,
    budget: most === undefined ? MAX_BUDGET : wholeNumber(most, 'budget.maxScannedTransactions', 1, MAX_BUDGET),
    returnShape: choice(members['returnShape'], 'returnShape', SHAPES, 'transactions'),
  };
}

function listMember(value: unknown, name: string, most: number): readonly unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > most) throw wrong(`${name} must be an array of at most ${most}`);
  return value;
}

const filtersOf = (value: unknown, name: string) =>
  listMember(value, name, MAX_FILTERS).map((one, at) => [one, `${name}[${at}]`] as const);

function programFilter([value, name]: readonly [unknown, string]): ProgramFilter {
  const members = membersOf(value, name, ['programId', 'instructions', 'discriminators', 'scope']);
  return {
    programId: addressOf(members['programId'], `${name}.programId`),
    instructions: listMember(members['instructions'], `${name}.instructions`, MAX_NAMES).map((one) => {
      if (typeof one !== 'string' || one === '' || one.length > MAX_NAME)
        throw wrong(`${name}.instructions must be names of instructions`);
      return one;
    }),
    discriminators: listMember(members['discriminators'], `${name}.discriminators`, MAX_NAMES).map((one) => {
      if (typeof one !== 'string' || !DISCRIMINATOR.test(one))
        throw wrong(`${name}.discriminators must be 1 to 8 bytes in hex`);
      return Buffer.from(one.replace(/^0x/i, ''), 'hex');
    }),
    scope: choice(members['scope'], `${name}.scope`, SCOPES, 'address'),
  };
}

const MAX_NAME = 128;
const DISCRIMINATOR = /^(?:0x)?(?:[0-9a-f]{2}){1,8}$/i;

function mintFilter([value, name]: readonly [unknown, string]): MintFilter {
  const members = membersOf(value, name, ['mint', 'scope']);
  const given = members['mint'];
  return {
    mint: given === NATIVE_SOL_MINT ? NATIVE_SOL_MINT : addressOf(given, `${name}.mint`),
    scope: choice(members['scope'], `${name}.scope`, SCOPES, 'address'),
  };
}

function once(values: readonly string[], name: string): void {
  if (new Set(values).size !== values.length) throw wrong(`${name} names one twice`);
}
