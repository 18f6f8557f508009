/** The parameters of subscriptions over a websocket, as plain data that crosses threads. */

import { isPlainObject } from '../../../src/lib/json.ts';
import { RpcError } from '../../../src/plugin/plugin.ts';
import type { BankLevel } from '../../../src/ports/chain.ts';
import type { ParsedDetails, ParsedFilter, ParsedTransactions } from '../../../src/ports/parsed-transactions.ts';
import type { TransactionEncoding } from '../../../src/solana/show-transaction.ts';
import type { TransactionFilter } from '../wire/request.ts';

export const ZSTD = 'base64+zstd';
export type SocketEncoding = TransactionEncoding | typeof ZSTD;
const ENCODINGS: readonly SocketEncoding[] = ['json', 'jsonParsed', 'base58', 'base64', ZSTD];

export type TransactionDetails = 'full' | 'accounts' | 'signatures' | 'none';

interface Form {
  readonly level: BankLevel;
  readonly encoding: SocketEncoding;
  readonly details: TransactionDetails;
  readonly rewards: boolean;
  /** The newest version of transactions that the client takes; null: none is given. */
  readonly maxVersion: number | null;
}

export type SocketRequest =
  | ({ readonly kind: 'transaction'; readonly filter: TransactionFilter; readonly from: number | null } & Form)
  | ({ readonly kind: 'block'; readonly mentions: string | null; readonly from: null } & Form)
  | {
      readonly kind: 'logs';
      readonly level: BankLevel;
      readonly votes: boolean;
      readonly mentions: string | null;
      readonly from: null;
    }
  | { readonly kind: 'slot'; readonly level: BankLevel; readonly from: null }
  | {
      readonly kind: 'parsed';
      readonly level: 'confirmed';
      readonly filter: ParsedFilter;
      readonly details: ParsedDetails;
      readonly from: number | null;
    }
  | {
      readonly kind: 'account';
      readonly level: BankLevel;
      readonly address: string;
      readonly from: number;
      /** Options of `getAccountInfo`. */
      readonly options: Readonly<Record<string, unknown>>;
    };

/** Subscriptions that only this daemon has, and those that nodes may have. */
export const PARSED = 'parsedTransactionSubscribe';
const ALWAYS: readonly string[] = ['transactionSubscribe', PARSED];
const OTHERWISE: readonly string[] = ['blockSubscribe', 'logsSubscribe', 'slotSubscribe'];

/** Null for a subscription that is not served from blocks. */
export function servesFollowed(method: string, params: unknown): 'always' | 'otherwise' | null {
  if (ALWAYS.includes(method)) return 'always';
  if (OTHERWISE.includes(method)) return 'otherwise';
  if (method !== 'accountSubscribe' || !Array.isArray(params)) return null;
  const options: unknown = params[1];
  return isPlainObject(options) && isGiven(options['fromSlot']) ? 'always' : null;
}

export interface SocketRequestLimits {
  /** Addresses in each list of a filter. */
  readonly maxAddresses: number;
  /** Null: transactions are not decoded here. */
  readonly parsed: Pick<ParsedTransactions, 'readFilter'> | null;
}

/** Throws RpcError. */
export function readSocketRequest(method: string, params: unknown, limits: SocketRequestLimits): SocketRequest {
  if (params !== undefined && params !== null && !Array.isArray(params)) throw bad('params must be a list');
  const [first, second, ...more] = (params ?? []) as readonly unknown[];
  if (more.length > 0) throw bad('there are at most two parameters');
  switch (method) {
    case 'transactionSubscribe':
      return readTransactions(first, second, limits);
    case PARSED:
      return readParsed(first, second, limits);
    case 'blockSubscribe':
      return readBlocks(first, optionsOf(second));
    case 'logsSubscribe':
      return readLogs(first, optionsOf(second));
    case 'slotSubscribe':
      if (first !== undefined) throw bad('slotSubscribe has no parameters');
      return { kind: 'slot', level: 'confirmed', from: null };
    default:
      return readAccount(first, optionsOf(second));
  }
}

const bad = (details: string) => new RpcError('invalidParams', { details });
const isGiven = (value: unknown) => value !== undefined && value !== null;

function optionsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (!isGiven(value)) return {};
  if (!isPlainObject(value)) throw bad('params[1] must be an object of options');
  return value;
}

// -------------------------------------------------------------------------------------------------------- transactions

const TOKEN_ACCOUNTS: Readonly<Record<string, number | null>> = { none: null, all: 0, balanceChanged: 1 };

function readTransactions(filter: unknown, second: unknown, limits: SocketRequestLimits): SocketRequest {
  if (isGiven(filter) && !isPlainObject(filter)) throw bad('params[0] must be an object: the filter');
  const given = (filter ?? {}) as Readonly<Record<string, unknown>>;
  const options = optionsOf(second);
  const mode = choiceOf(given, 'tokenAccounts', Object.keys(TOKEN_ACCOUNTS), 'none');
  const form = readForm(options, 'finalized', 'base64');
  // Without any options a client takes what there is.
  const maxVersion = isGiven(second) ? form.maxVersion : 1;
  if (maxVersion === null && (form.details === 'full' || form.details === 'accounts'))
    throw bad(`maxSupportedTransactionVersion is required for transactionDetails ${form.details}`);
  return {
    kind: 'transaction',
    ...form,
    maxVersion,
    filter: {
      vote: flagOf(given, 'vote'),
      failed: flagOf(given, 'failed'),
      signature: textMember(given, 'signature'),
      accountInclude: addressesOf(given, 'accountInclude', limits),
      accountExclude: addressesOf(given, 'accountExclude', limits),
      accountRequired: addressesOf(given, 'accountRequired', limits),
      cuckoo: null,
      tokenAccounts: TOKEN_ACCOUNTS[mode] ?? null,
    },
    // Either place is documented by the hosted service.
    from: slotOf(options, 'fromSlot') ?? slotOf(given, 'fromSlot'),
  };
}

const LEVELS: readonly BankLevel[] = ['processed', 'confirmed', 'finalized'];
const DETAILS: readonly TransactionDetails[] = ['full', 'accounts', 'signatures', 'none'];
const LARGEST_VERSION = 255;

function readForm(options: Readonly<Record<string, unknown>>, level: BankLevel, encoding: SocketEncoding): Form {
  const maxVersion = options['maxSupportedTransactionVersion'];
  if (isGiven(maxVersion) && !isInteger(maxVersion, LARGEST_VERSION))
    throw bad('maxSupportedTransactionVersion must be a version: 0 or 1');
  return {
    level: choiceOf(options, 'commitment', LEVELS, level),
    encoding: choiceOf(options, 'encoding', ENCODINGS, encoding),
    details: choiceOf(options, 'transactionDetails', DETAILS, 'full'),
    rewards: flagOf(options, 'showRewards') ?? true,
    maxVersion: (maxVersion ?? null) as number | null,
  };
}

const isInteger = (value: unknown, largest: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= largest;

function slotOf(members: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = members[name];
  if (!isGiven(value)) return null;
  // Some clients write large numbers as text.
  const slot = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  if (!isInteger(slot, Number.MAX_SAFE_INTEGER)) throw bad(`${name} must be a slot`);
  return slot as number;
}

function flagOf(members: Readonly<Record<string, unknown>>, name: string): boolean | null {
  const value = members[name];
  if (isGiven(value) && typeof value !== 'boolean') throw bad(`${name} must be true or false`);
  return (value ?? null) as boolean | null;
}

function textMember(members: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = members[name];
  if (isGiven(value) && typeof value !== 'string') throw bad(`${name} must be a text`);
  return (value ?? null) as string | null;
}

function choiceOf<T extends string>(
  members: Readonly<Record<string, unknown>>,
  name: string,
  choices: readonly T[],
  absent: T,
): T {
  const value = members[name];
  if (!isGiven(value)) return absent;
  if (!choices.includes(value as T)) throw bad(`${name} must be one of ${choices.join(', ')}`);
  return value as T;
}

function addressesOf(
  members: Readonly<Record<string, unknown>>,
  name: string,
  { maxAddresses }: SocketRequestLimits,
): readonly string[] {
  const value = members[name];
  if (!isGiven(value)) return [];
  if (!Array.isArray(value)) throw bad(`${name} must be a list of addresses`);
  if (value.length > maxAddresses) throw bad(`Max amount of Pubkeys reached, only ${maxAddresses} allowed`);
  const wrong = value.findIndex((one) => typeof one !== 'string' || !ADDRESS.test(one));
  if (wrong >= 0) throw bad(`${name}[${wrong}] is not an address`);
  return value as readonly string[];
}

/** 32 bytes in base58; whether they are is found when the filter is made. */
const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

// -------------------------------------------------------------------------------------------------------------- parsed

const PARSED_DETAILS: readonly ParsedDetails[] = ['full', 'matched', 'raw'];
const PARSED_OPTIONS = ['commitment', 'details', 'fromSlot'];

/** Clients show the message of an error, and nothing else of it. Unknown members and members that are null are refused. */
function readParsed(filter: unknown, given: unknown, { parsed }: SocketRequestLimits): SocketRequest {
  if (parsed === null)
    throw new RpcError('methodNotFound', { details: 'the plugin parsed, which decodes transactions, is not enabled' });
  const read = parsed.readFilter(filter);
  if ('problem' in read) throw new RpcError(read.isLimit ? 'streamLimit' : 'invalidParams', { message: read.problem });
  const refuse = (message: string) => new RpcError('invalidParams', { message });
  if (given !== undefined && !isPlainObject(given)) throw refuse('options must be an object');
  const options = given ?? {};
  for (const [name, value] of Object.entries(options)) {
    if (!PARSED_OPTIONS.includes(name)) throw refuse(`unknown field \`${name.slice(0, 64)}\` in options`);
    if (value === null) throw refuse(`${name} must not be null; leave it out`);
  }
  const { commitment = 'confirmed', details = 'full', fromSlot } = options;
  if (commitment !== 'confirmed') throw refuse('commitment must be confirmed');
  if (!PARSED_DETAILS.includes(details as ParsedDetails)) throw refuse('details must be one of full, matched, raw');
  if (fromSlot !== undefined && !isInteger(fromSlot, Number.MAX_SAFE_INTEGER)) throw refuse('fromSlot must be a slot');
  return {
    kind: 'parsed',
    level: 'confirmed',
    filter: read.filter,
    details: details as ParsedDetails,
    from: (fromSlot ?? null) as number | null,
  };
}

// ---------------------------------------------------------------------------------------------------- those of nodes

function mentionOf(filter: unknown, name: string, value: unknown): string {
  if (typeof value === 'string' && ADDRESS.test(value)) return value;
  throw bad(`${name} of ${JSON.stringify(filter).slice(0, 100)} is not an address`);
}

function readBlocks(filter: unknown, options: Readonly<Record<string, unknown>>): SocketRequest {
  const form = readForm(options, 'finalized', 'base64');
  // Error texts are those of a node.
  if (form.level === 'processed')
    throw new RpcError('invalidParams', { message: 'Method does not support commitment below `confirmed`' });
  if (form.encoding === ZSTD) throw bad('encoding must be one of json, jsonParsed, base58, base64');
  if (filter === 'all') return { kind: 'block', ...form, mentions: null, from: null };
  if (!isPlainObject(filter)) throw bad('params[0] must be all or {mentionsAccountOrProgram: address}');
  const mentions = mentionOf(filter, 'mentionsAccountOrProgram', filter['mentionsAccountOrProgram']);
  return { kind: 'block', ...form, mentions, from: null };
}

function readLogs(filter: unknown, options: Readonly<Record<string, unknown>>): SocketRequest {
  const level = choiceOf(options, 'commitment', LEVELS, 'finalized');
  if (filter === 'all' || filter === 'allWithVotes')
    return { kind: 'logs', level, votes: filter === 'allWithVotes', mentions: null, from: null };
  const list: unknown = isPlainObject(filter) ? filter['mentions'] : undefined;
  if (!Array.isArray(list)) throw bad('params[0] must be all, allWithVotes or {mentions: [address]}');
  if (list.length !== 1) throw new RpcError('invalidParams', { message: 'Invalid Request: Only 1 address supported' });
  return { kind: 'logs', level, votes: true, mentions: mentionOf(filter, 'mentions[0]', list[0]), from: null };
}

function readAccount(address: unknown, options: Readonly<Record<string, unknown>>): SocketRequest {
  if (typeof address !== 'string' || !ADDRESS.test(address)) throw bad('params[0] must be an address');
  const { fromSlot: _, commitment: __, ...rest } = options;
  return {
    kind: 'account',
    level: choiceOf(options, 'commitment', LEVELS, 'finalized'),
    address,
    from: slotOf(options, 'fromSlot') ?? 0,
    options: rest,
  };
}
