import { decode32, encode32 } from '../../src/lib/base58.ts';
import { RequestError } from '../../src/plugin/request.ts';
import type { ParsedTransactions } from '../../src/ports/parsed-transactions.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../../src/solana/programs.ts';
import { transactionTypes } from '../../src/solana/transaction-types.ts';
import {
  type BodyKind,
  effectiveStatus,
  formOf,
  ON_INACTIVE,
  type OnInactive,
  PARSED_DETAILS,
  type ParsedSelection,
  RETRY_PRESETS,
  type RetryPreset,
  TXN_STATUSES,
  type TxnStatus,
  WEBHOOK_TYPES,
  type Webhook,
  type WebhookType,
} from './model.ts';

/** The fields of a request; a missing one was not in the request. */
export interface WebhookInput {
  url?: string;
  type?: WebhookType;
  transactionTypes?: readonly string[];
  addresses?: readonly Uint8Array[];
  authHeader?: string | null;
  txnStatus?: TxnStatus;
  encoding?: string;
  active?: boolean;
  matchTokenOwners?: boolean;
  retryPreset?: RetryPreset;
  batchSize?: number;
  ordered?: boolean;
  onInactive?: OnInactive;
  parsedFilter?: ParsedSelection['filter'];
  parsedDetails?: ParsedSelection['details'];
  name?: string | null;
  description?: string | null;
}

export interface InputRules {
  /** Why the address cannot be delivered to, as a sentence; null when it can. */
  urlRefusal(url: string): string | null;
  /** Canonical spelling by lower-case form. */
  readonly typeNames: ReadonlyMap<string, string>;
  readonly hasDevnet: boolean;
  /** Forms that can be built. */
  readonly forms: ReadonlySet<BodyKind>;
  /** Absent where transactions cannot be parsed. */
  readonly readFilter?: ParsedTransactions['readFilter'];
}

const MAX_URL_CHARS = 2_048;
/** A lone surrogate has no bytes, and a URL drops or escapes control characters: the stored text would differ from the text sent. */
const UNSTORABLE = /[\p{Cc}\p{Cs}]/u;
const MAX_AUTH_CHARS = 4_096;
export const MAX_NAME_CHARS = 100;
export const MAX_DESCRIPTION_CHARS = 1_000;
const MAX_TYPES = 1_000;
const MAX_BATCH = 100;
const NAMED_TYPES = 5;

const refuse = (text: string): never => {
  throw new RequestError(400, text);
};

/** Checks every known field of a create or edit request. Unknown fields are ignored: clients send whole objects back. */
export function parseInput(body: unknown, rules: InputRules): WebhookInput {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) refuse('the body must be a JSON object');
  const given = body as Record<string, unknown>;
  const input: WebhookInput = {};
  if (given.webhookURL !== undefined) input.url = parseUrl(given.webhookURL, rules);
  if (given.webhookType !== undefined) input.type = parseType(given.webhookType, rules);
  if (given.transactionTypes !== undefined) {
    input.transactionTypes = parseTransactionTypes(given.transactionTypes, rules.typeNames);
  }
  if (given.authHeader !== undefined) input.authHeader = parseAuthHeader(given.authHeader);
  if (isSet(given.txnStatus)) input.txnStatus = oneOf('txnStatus', given.txnStatus, TXN_STATUSES);
  if (isSet(given.encoding)) input.encoding = oneOf('encoding', given.encoding, ['jsonParsed', 'json']);
  if (isSet(given.active)) input.active = parseBoolean('active', given.active);
  if (isSet(given.matchTokenOwners)) input.matchTokenOwners = parseBoolean('matchTokenOwners', given.matchTokenOwners);
  if (isSet(given.retryPreset)) input.retryPreset = oneOf('retryPreset', given.retryPreset, RETRY_PRESETS);
  if (isSet(given.batchSize)) input.batchSize = parseBatchSize(given.batchSize);
  if (isSet(given.ordered)) input.ordered = parseBoolean('ordered', given.ordered);
  if (isSet(given.onInactive)) input.onInactive = oneOf('onInactive', given.onInactive, ON_INACTIVE);
  if (isSet(given.parsedFilter)) input.parsedFilter = parseFilter(given.parsedFilter, rules);
  if (isSet(given.parsedDetails)) input.parsedDetails = oneOf('parsedDetails', given.parsedDetails, PARSED_DETAILS);
  if (given.name !== undefined) input.name = parseText('name', given.name, MAX_NAME_CHARS);
  if (given.description !== undefined)
    input.description = parseText('description', given.description, MAX_DESCRIPTION_CHARS);
  if (given.accountAddresses !== undefined) input.addresses = parseAddresses(given.accountAddresses);
  return input;
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

/** The address of a receiver; `name` is that of the member. Errors: 400. */
export function parseUrl(value: unknown, rules: InputRules, name = 'webhookURL'): string {
  if (typeof value !== 'string' || value === '') return refuse(`${name} must be a string`);
  if (value.length > MAX_URL_CHARS) return refuse(`${name}: at most ${MAX_URL_CHARS} characters`);
  if (UNSTORABLE.test(value)) return refuse(`${name}: control characters are not allowed`);
  const reason = rules.urlRefusal(value);
  if (reason !== null) return refuse(`${name}: ${reason}`);
  if (new URL(value).hash !== '' || value.includes('#')) return refuse(`${name}: a fragment is not allowed`);
  return value;
}

function parseType(value: unknown, rules: InputRules): WebhookType {
  const type = oneOf('webhookType', value, WEBHOOK_TYPES);
  if (type.endsWith('Devnet') && !rules.hasDevnet) return refuse('webhookType: no devnet upstream is configured');
  return refuseUnavailable(type, rules);
}

/** A webhook that cannot fire is not stored. */
export function refuseUnavailable(type: WebhookType, { forms }: InputRules): WebhookType {
  const form = formOf(type);
  return forms.has(form) ? type : refuse(`webhookType: ${form} webhooks are not available`);
}

function parseFilter(value: unknown, { readFilter }: InputRules): ParsedSelection['filter'] {
  if (readFilter === undefined) return refuse('parsedFilter: parsed webhooks are not available');
  const read = readFilter(value);
  return 'filter' in read ? read.filter : refuse(`parsedFilter: ${read.problem}`);
}

/**
 * What a parsed webhook gets after a request; null for other types. `before` is the webhook that is edited, `type` its new type. Errors: 400
 * for members that have no meaning for the type, so that nobody waits for transactions that never come.
 */
export function parsedSelection(
  input: WebhookInput,
  type: WebhookType,
  before: Pick<Webhook, 'type' | 'txnStatus' | 'parsed' | 'addressCount'> | null,
): ParsedSelection | null {
  const { parsedFilter, parsedDetails } = input;
  if (type !== 'parsed') {
    if (parsedFilter !== undefined || parsedDetails !== undefined)
      refuse('parsedFilter and parsedDetails are only for webhooks of type parsed');
    return null;
  }
  const filter =
    parsedFilter ?? before?.parsed?.filter ?? refuse('parsedFilter is required for webhooks of type parsed');
  if ((input.addresses?.length ?? before?.addressCount ?? 0) > 0)
    refuse('accountAddresses must be empty for webhooks of type parsed: use parsedFilter.accounts.include');
  if (input.transactionTypes?.some((name) => name !== 'ANY') === true)
    refuse('transactionTypes must be ANY for webhooks of type parsed: use parsedFilter.instructionNames');
  const selection = { filter, details: parsedDetails ?? before?.parsed?.details ?? 'full' };
  if (!filter.includeFailed && storedStatusOf(input, before, selection) === 'failed')
    refuse('txnStatus: failed transactions need parsedFilter.includeFailed');
  return selection;
}

/**
 * The status to store. Clients send whole objects back: a default that a response showed is not stored as a given value, so that
 * `includeFailed` of a parsed webhook keeps its meaning.
 */
export function storedStatusOf(
  { txnStatus }: WebhookInput,
  before: Pick<Webhook, 'type' | 'txnStatus' | 'parsed'> | null,
  parsed: ParsedSelection | null,
): TxnStatus | null {
  const stored = before?.txnStatus ?? null;
  if (txnStatus === undefined) return stored;
  const isShown = parsed !== null && before !== null && stored === null && txnStatus === effectiveStatus(before);
  return isShown ? null : txnStatus;
}

function parseTransactionTypes(value: unknown, names: ReadonlyMap<string, string>): readonly string[] {
  if (!Array.isArray(value) || value.some((item) => typeof item !== 'string')) {
    return refuse('transactionTypes must be an array of strings');
  }
  if (value.length > MAX_TYPES) return refuse(`transactionTypes: at most ${MAX_TYPES} entries`);
  const known = new Set<string>();
  const unknown = new Set<string>();
  for (const item of value as string[]) {
    const name = names.get(item.toLowerCase());
    if (name === undefined) unknown.add(item.slice(0, 64));
    else known.add(name);
  }
  if (unknown.size > 0) return refuse(`invalid transaction type: ${[...unknown].slice(0, NAMED_TYPES).join(', ')}`);
  return [...known];
}

/** Bytes allowed in an HTTP header: printable ASCII and the upper half of Latin-1, no line breaks. */
const HEADER_TEXT = /^[\x20-\x7e\xa0-\xff]*$/;

function parseAuthHeader(value: unknown): string | null {
  if (value === null || value === '') return null;
  if (typeof value !== 'string' || !HEADER_TEXT.test(value)) return refuse('authHeader must be a string');
  if (value.length > MAX_AUTH_CHARS) return refuse(`authHeader: at most ${MAX_AUTH_CHARS} characters`);
  // HTTP strips whitespace at the ends: the receiver would compare with another value.
  if (value.trim() !== value) return refuse('authHeader must not begin or end with a blank');
  return value;
}

/** Text for people; null and an empty one remove it. */
function parseText(name: string, value: unknown, maxChars: number): string | null {
  if (value === null || value === '') return null;
  if (typeof value !== 'string') return refuse(`${name} must be a string`);
  if (value.length > maxChars) return refuse(`${name}: at most ${maxChars} characters`);
  if (UNSTORABLE.test(value.replaceAll('\n', ''))) return refuse(`${name}: control characters are not allowed`);
  return value;
}

function parseBoolean(name: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse(`${name} must be a boolean`);
}

function oneOf<T extends string>(name: string, value: unknown, allowed: readonly T[]): T {
  return allowed.find((item) => item === value) ?? refuse(`${name}: must be one of ${allowed.join(', ')}`);
}

function parseBatchSize(value: unknown): number {
  const isFine = typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_BATCH;
  return isFine ? value : refuse(`batchSize must be an integer from 1 to ${MAX_BATCH}`);
}

const SHOWN_CHARS = 64;

/**
 * The 32-byte keys of a list of base58 addresses, without duplicates, in the order of first appearance.
 * Throws 400 with the position of the first invalid entry. `what` names the field.
 */
export function parseAddresses(value: unknown, what = 'accountAddresses'): Uint8Array[] {
  if (!Array.isArray(value)) throw new RequestError(400, `${what} must be an array of strings`);
  const seen = new Set<string>();
  const keys: Uint8Array[] = [];
  for (let at = 0; at < value.length; at += 1) {
    const text: unknown = value[at];
    if (typeof text === 'string' && seen.has(text)) continue;
    const key = typeof text === 'string' ? decode32(text) : null;
    if (key === null) {
      throw new RequestError(400, `${what}[${at}]: '${shown(text)}' is not a valid Solana address`);
    }
    // Each key has exactly one base58 spelling, so equal texts are the only duplicates.
    seen.add(text as string);
    keys.push(key);
  }
  return keys;
}

export function refuseTooMany(count: number, max: number): void {
  if (count > max) {
    throw new RequestError(400, `accountAddresses: at most ${max} addresses per webhook, got ${count}`);
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}

export function createInputRules(
  urlRefusal: (url: string) => string | null,
  hasDevnet: boolean,
  plainForms: ReadonlySet<BodyKind>,
  parsed: Pick<ParsedTransactions, 'readFilter'> | null = null,
): InputRules {
  return {
    urlRefusal,
    hasDevnet,
    forms: parsed === null ? plainForms : new Set([...plainForms, 'parsed']),
    ...(parsed !== null && { readFilter: parsed.readFilter }),
    typeNames: new Map(transactionTypes().map((name) => [name.toLowerCase(), name])),
  };
}

/** Programs that almost every transaction names: watching one matches most of the chain. */
const BUSY: ReadonlyMap<string, string> = new Map([
  [SYSTEM_PROGRAM, 'System'],
  [TOKEN_PROGRAM, 'Token'],
  [TOKEN_2022_PROGRAM, 'Token-2022'],
  [ASSOCIATED_TOKEN_PROGRAM, 'Associated Token Account'],
  [COMPUTE_BUDGET_PROGRAM, 'Compute Budget'],
  [VOTE_PROGRAM, 'Vote'],
]);
/** Far more than are listed by mistake; checking a hundred thousand takes too long. */
const CHECKED = 1_000;

/** Names of such programs among the addresses. */
export function busyPrograms(addresses: readonly Uint8Array[]): readonly string[] {
  return addresses.slice(0, CHECKED).flatMap((key) => BUSY.get(encode32(key)) ?? []);
}

const DATE = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/i;
const ZONED = /(Z|[+-]\d{2}:?\d{2})$/i;

/** A time as unix seconds or as an ISO 8601 date (UTC without a zone), in unix milliseconds. Errors: 400. */
export function instantOf(name: string, value: unknown, now: number): number {
  const ms = typeof value === 'number' && Number.isInteger(value) ? value * 1_000 : parseDate(value);
  if (ms === null || ms < 0) throw new RequestError(400, `${name} must be unix seconds or an ISO 8601 date`);
  if (ms > now) throw new RequestError(400, `${name} must not be in the future`);
  return ms;
}

const DAY_MS = 86_400_000;

/** The start of a period; null: as long as deliveries are kept. Errors: 400. */
export function sinceOf(value: unknown, now: number, keptDays: number): number {
  const oldest = now - keptDays * DAY_MS;
  if (value === null) return oldest;
  const sinceMs = instantOf('since', value, now);
  if (sinceMs < oldest) throw new RequestError(400, `since: deliveries are kept for ${keptDays} days`);
  return sinceMs;
}

/** The end of a range; default: now. Errors: 400. */
export function untilOf(value: unknown, now: number, sinceMs: number): number {
  if (value === undefined || value === null) return now + 1;
  const untilMs = instantOf('until', value, now);
  if (untilMs < sinceMs) throw new RequestError(400, 'until must not be before since');
  return untilMs + 1;
}

function parseDate(value: unknown): number | null {
  if (typeof value !== 'string' || !DATE.test(value)) return null;
  const hasTime = value.length > 10;
  const ms = Date.parse(hasTime && !ZONED.test(value) ? `${value}Z` : value);
  return Number.isNaN(ms) ? null : ms;
}
