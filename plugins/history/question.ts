/** The parameters of getTransactionsForAddress and getTransfersByAddress. All readers throw -32602 with the member in `data.details`. */

import { decode, decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { RpcError, Type } from '../../src/plugin/plugin.ts';
import { CHANGED, endOf, firstOf, NAMED, positionOf, TOUCHED } from '../../src/ports/address-history.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
import { address, count, EXAMPLES, oneOf, orNull, signature, text } from '../../src/solana/schemas.ts';
import type { TransactionEncoding } from '../../src/solana/show-transaction.ts';

/** Bounds of an integer, both inclusive. */
export interface IntegerBounds {
  readonly least: bigint | null;
  readonly most: bigint | null;
}

/** Where a page begins: behind a transaction, or behind a row of one. */
export type HistoryCursor =
  | { readonly kind: 'signature'; readonly signature: string }
  | { readonly kind: 'place'; readonly slot: number; readonly place: number }
  /** `row`: index among the transfers of the transaction; infinite: behind all of them. */
  | { readonly kind: 'row'; readonly slot: number; readonly place: number; readonly row: number };

interface AddressQuestion {
  readonly key: Uint8Array;
  readonly address: string;
  readonly order: 'asc' | 'desc';
  readonly limit: number;
  readonly cursor: HistoryCursor | null;
  readonly commitment: 'confirmed' | 'finalized';
  /** Positions, both exclusive, from the bounds of slots. */
  readonly above: number | null;
  readonly below: number | null;
  readonly blockTime: IntegerBounds | null;
}

export interface TransferFilter {
  readonly with: string | null;
  readonly direction: 'in' | 'out' | 'any';
  readonly mint: string | null;
  readonly amount: IntegerBounds | null;
}

export interface TransactionsQuestion extends AddressQuestion {
  readonly details: 'signatures' | 'full';
  readonly encoding: TransactionEncoding;
  readonly maxVersion: number | null;
  readonly minContextSlot: number | null;
  readonly mask: number;
  readonly status: 'any' | 'succeeded' | 'failed';
  readonly signatures: { readonly operator: 'gt' | 'gte' | 'lt' | 'lte'; readonly signature: string }[];
  readonly tokenTransfer: TransferFilter | null;
}

export interface TransfersQuestion extends AddressQuestion, TransferFilter {
  readonly solMode: 'merged' | 'separate';
  /** No failed transaction moves anything. */
  readonly isEmpty: boolean;
}

const MAX_SIGNATURES = 1_000;
export const MAX_FULL = 1_000;
const USUAL_FULL = 100;
const MAX_TRANSFERS = 100;
/** Positions of later slots are no safe integers. */
const HIGHEST_SLOT = 100_000_000_000;
const MAX_U64 = 2n ** 64n - 1n;

const MASKS = { none: NAMED, balanceChanged: NAMED | CHANGED, all: NAMED | CHANGED | TOUCHED } as const;

const invalid = (details: string): RpcError => new RpcError('invalidParams', { details });

type Members = Readonly<Record<string, unknown>>;

function optionsOf(value: unknown, name: string): Members {
  if (value === undefined || value === null) return {};
  if (!isPlainObject(value)) throw invalid(`${name} has to be an object`);
  return value;
}

function choice<T extends string>(value: unknown, name: string, values: readonly T[], usual: T): T {
  if (value === undefined || value === null) return usual;
  if (typeof value !== 'string' || !values.includes(value as T))
    throw invalid(`${name} has to be one of ${values.join(', ')}`);
  return value as T;
}

/** An integer of any size. */
function integer(value: unknown, name: string, least: bigint, most: bigint): bigint {
  const isInteger = typeof value === 'bigint' || Number.isSafeInteger(value);
  const found = isInteger ? BigInt(value as number | bigint) : null;
  if (found === null || found < least || found > most)
    throw invalid(`${name} has to be a whole number from ${least} to ${most}`);
  return found;
}

function demandKey(value: unknown, name: string): { readonly key: Uint8Array; readonly address: string } {
  const key = typeof value === 'string' && value.length <= 44 ? decode32(value) : null;
  if (key === null) throw invalid(`${name} has to be a base58 address`);
  return { key, address: value as string };
}

const maybeAddress = (value: unknown, name: string): string | null =>
  value === undefined || value === null ? null : demandKey(value, name).address;

function signatureOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.length > 88 || decode(value)?.length !== 64)
    throw invalid(`${name} has to be a base58 signature`);
  return value;
}

/** `gt`, `gte`, `lt`, `lte` and, if allowed, `eq`; null when none is given. */
function boundsOf(value: unknown, name: string, least: bigint, most: bigint, hasEqual = false): IntegerBounds | null {
  const given = optionsOf(value, name);
  let [low, high]: [bigint | null, bigint | null] = [null, null];
  const atLeast = (bound: bigint) => {
    low = low === null || bound > low ? bound : low;
  };
  const atMost = (bound: bigint) => {
    high = high === null || bound < high ? bound : high;
  };
  for (const operator of ['gt', 'gte', 'lt', 'lte', 'eq'] as const) {
    const one = given[operator];
    if (one === undefined || one === null) continue;
    if (operator === 'eq' && !hasEqual) throw invalid(`${name}.eq is not offered`);
    const bound = integer(one, `${name}.${operator}`, least, most);
    if (operator === 'gt') atLeast(bound + 1n);
    if (operator === 'gte' || operator === 'eq') atLeast(bound);
    if (operator === 'lt') atMost(bound - 1n);
    if (operator === 'lte' || operator === 'eq') atMost(bound);
  }
  return low === null && high === null ? null : { least: low, most: high };
}

export const isWithin = (value: bigint, { least, most }: IntegerBounds): boolean =>
  (least === null || value >= least) && (most === null || value <= most);

function positionsOf(slots: IntegerBounds | null): Pick<AddressQuestion, 'above' | 'below'> {
  const slot = (bound: bigint) => (bound < BigInt(HIGHEST_SLOT) ? Number(bound) : HIGHEST_SLOT);
  return {
    above: slots?.least == null ? null : firstOf(slot(slots.least)) - 1,
    below: slots?.most == null ? null : endOf(slot(slots.most)),
  };
}

const timesOf = (value: unknown, hasEqual: boolean): IntegerBounds | null =>
  boundsOf(value, 'filters.blockTime', -(2n ** 63n), 2n ** 63n - 1n, hasEqual);

function commitmentOf(value: unknown): AddressQuestion['commitment'] {
  if (value === 'processed') throw invalid('Method does not support commitment below `confirmed`');
  return choice(value, 'commitment', ['confirmed', 'finalized'], 'finalized');
}

function transferFilter(given: Members, name: string): TransferFilter {
  return {
    with: maybeAddress(given['with'], `${name}with`),
    direction: choice(given['direction'], `${name}direction`, ['in', 'out', 'any'], 'any'),
    mint: maybeAddress(given['mint'], `${name}mint`),
    amount: null,
  };
}

const PLACE = /^(\d{1,12}):(\d{1,5})$/;
const ROW = /^(\d{1,12}):(\d{1,5}):\d{1,5}:\d{1,5}:(\d{1,6}|end)$/;
const MAX_PLACE = 65_535;

function cursorOf(value: unknown, pattern: RegExp): HistoryCursor | null {
  if (value === undefined || value === null) return null;
  const wrong = () => invalid('paginationToken is not one that a page returned');
  if (typeof value !== 'string') throw wrong();
  const [whole, slotText, placeText, rowText] = pattern.exec(value) ?? [];
  if (whole === undefined) {
    if (pattern === ROW || value.length > 88 || decode(value)?.length !== 64) throw wrong();
    return { kind: 'signature', signature: value };
  }
  const [slot, place] = [Number(slotText), Number(placeText)];
  if (slot > HIGHEST_SLOT || place > MAX_PLACE) throw wrong();
  if (rowText === undefined) return { kind: 'place', slot, place };
  return { kind: 'row', slot, place, row: rowText === 'end' ? Number.POSITIVE_INFINITY : Number(rowText) };
}

/** Position of a cursor whose transaction has not moved. */
export const positionOfPlace = ({ slot, place }: { readonly slot: number; readonly place: number }): number =>
  positionOf(slot, place);

/** `[address, {…}]` of getTransactionsForAddress. */
export function readTransactionsQuestion(params: unknown): TransactionsQuestion {
  const [given, last] = Array.isArray(params) ? (params as unknown[]) : [];
  const { key, address } = demandKey(given, 'params[0]');
  const options = optionsOf(last, 'params[1]');
  const filters = optionsOf(options['filters'], 'filters');
  const details = choice(options['transactionDetails'], 'transactionDetails', ['signatures', 'full'], 'signatures');
  const order = choice(options['sortOrder'], 'sortOrder', ['asc', 'desc'], 'desc');
  const most = details === 'full' ? MAX_FULL : MAX_SIGNATURES;
  const { limit, maxSupportedTransactionVersion: version, minContextSlot, beforeSlot, untilSlot } = options;
  const encoding = choice(
    options['encoding'],
    'encoding',
    ['json', 'jsonParsed', 'base58', 'base64', 'binary'],
    'json',
  );
  const tokenTransfer = filters['tokenTransfer'];
  return {
    key,
    address,
    details,
    order,
    limit:
      limit == null
        ? details === 'full'
          ? USUAL_FULL
          : most
        : Math.min(Number(integer(limit, 'limit', 1n, MAX_U64)), most),
    cursor: cursorOf(options['paginationToken'], PLACE),
    commitment: commitmentOf(options['commitment']),
    ...positionsOf(slotBounds(filters['slot'], beforeSlot, untilSlot)),
    blockTime: timesOf(filters['blockTime'], true),
    encoding: encoding === 'binary' ? 'base58' : encoding,
    maxVersion: version == null ? null : Number(integer(version, 'maxSupportedTransactionVersion', 0n, 255n)),
    minContextSlot: minContextSlot == null ? null : Number(integer(minContextSlot, 'minContextSlot', 0n, MAX_U64)),
    mask: MASKS[choice(filters['tokenAccounts'], 'filters.tokenAccounts', ['none', 'balanceChanged', 'all'], 'none')],
    status: statusOf(filters['status']),
    signatures: signatureBounds(filters['signature']),
    tokenTransfer:
      tokenTransfer == null
        ? null
        : {
            ...transferFilter(optionsOf(tokenTransfer, 'filters.tokenTransfer'), 'filters.tokenTransfer.'),
            amount: boundsOf((tokenTransfer as Members)['amount'], 'filters.tokenTransfer.amount', 0n, MAX_U64),
          },
  };
}

function statusOf(value: unknown): TransactionsQuestion['status'] {
  const status = choice(value, 'filters.status', ['any', 'all', 'succeeded', 'failed'], 'any');
  return status === 'all' ? 'any' : status;
}

/** `beforeSlot` is another name of `lt`, `untilSlot` of `gt`; each excludes the bounds of its side. */
function slotBounds(value: unknown, beforeSlot: unknown, untilSlot: unknown): IntegerBounds | null {
  const given = optionsOf(value, 'filters.slot');
  const has = (...names: readonly string[]) => names.some((name) => given[name] != null);
  if (beforeSlot != null && has('lt', 'lte', 'eq')) throw invalid('beforeSlot excludes filters.slot.lt and lte');
  if (untilSlot != null && has('gt', 'gte', 'eq')) throw invalid('untilSlot excludes filters.slot.gt and gte');
  const lt = beforeSlot == null ? given['lt'] : integer(beforeSlot, 'beforeSlot', 0n, MAX_U64);
  const gt = untilSlot == null ? given['gt'] : integer(untilSlot, 'untilSlot', 0n, MAX_U64);
  return boundsOf({ ...given, lt, gt }, 'filters.slot', 0n, MAX_U64, true);
}

function signatureBounds(value: unknown): TransactionsQuestion['signatures'] {
  const given = optionsOf(value, 'filters.signature');
  if (given['eq'] != null) throw invalid('filters.signature.eq is not offered');
  return (['gt', 'gte', 'lt', 'lte'] as const).flatMap((operator) => {
    const one = given[operator];
    return one == null ? [] : [{ operator, signature: signatureOf(one, `filters.signature.${operator}`) }];
  });
}

/** `[address, {…}]` of getTransfersByAddress. */
export function readTransfersQuestion(params: unknown): TransfersQuestion {
  const [given, last] = Array.isArray(params) ? (params as unknown[]) : [];
  const { key, address } = demandKey(given, 'params[0]');
  const options = optionsOf(last, 'params[1]');
  const filters = optionsOf(options['filters'], 'filters');
  const { limit } = options;
  return {
    key,
    address,
    ...transferFilter(options, ''),
    order: choice(options['sortOrder'], 'sortOrder', ['asc', 'desc'], 'desc'),
    limit: limit == null ? MAX_TRANSFERS : Number(integer(limit, 'limit', 1n, BigInt(MAX_TRANSFERS))),
    cursor: cursorOf(options['paginationToken'], ROW),
    commitment: commitmentOf(options['commitment']),
    ...positionsOf(boundsOf(filters['slot'], 'filters.slot', 0n, MAX_U64)),
    blockTime: timesOf(filters['blockTime'], false),
    amount: boundsOf(filters['amount'], 'filters.amount', 0n, MAX_U64),
    solMode: choice(options['solMode'], 'solMode', ['merged', 'separate'], 'merged'),
    isEmpty: statusOf(filters['status']) === 'failed',
  };
}

/** Schemas, for the documents: the readers above check. */

const orAbsent = Type.Optional;
const range = (description: string, example: number, hasEqual = false) => {
  const bound = (what: string) => orAbsent(Type.Integer({ description: what, examples: [example] }));
  return orAbsent(
    Type.Object(
      {
        gt: bound('Above'),
        gte: bound('At least'),
        lt: bound('Below'),
        lte: bound('At most'),
        ...(hasEqual ? { eq: bound('Equal') } : {}),
      },
      { description, examples: [{ gte: example }] },
    ),
  );
};
const transferMembers = {
  with: orAbsent(address('Only with this counterparty')),
  direction: orAbsent(oneOf(['in', 'out', 'any'], 'Seen from the address; default any')),
  mint: orAbsent(address(`Only this mint; ${NATIVE_SOL_MINT} for SOL`, EXAMPLES.mint)),
};
const commonMembers = (limit: string, token: string) => ({
  sortOrder: orAbsent(oneOf(['desc', 'asc'], 'Newest first (default), or oldest first')),
  limit: orAbsent(count(limit, 10)),
  paginationToken: orAbsent(orNull(text('`paginationToken` of the page before', token))),
  commitment: orAbsent(oneOf(['finalized', 'confirmed'], 'Which transactions count; default finalized')),
});
const list = (options: ReturnType<typeof Type.Object>, example: unknown) =>
  Type.Unsafe<unknown>({
    type: 'array',
    items: [
      address('Address', EXAMPLES.address, { title: 'address' }),
      { ...orNull(options), title: 'options', examples: [example] },
    ],
    minItems: 1,
    maxItems: 2,
    examples: [[EXAMPLES.address, example]],
  });

export const transactionsParams = list(
  Type.Object(
    {
      transactionDetails: orAbsent(oneOf(['signatures', 'full'], 'How much of each transaction; default signatures')),
      ...commonMembers('At most 1,000; default 1,000 signatures or 100 full transactions', '381204511:12'),
      beforeSlot: orAbsent(count('Only older slots', 381_204_511)),
      untilSlot: orAbsent(count('Only newer slots', 381_204_000)),
      encoding: orAbsent(oneOf(['json', 'jsonParsed', 'base58', 'base64'], 'Form of full transactions; default json')),
      maxSupportedTransactionVersion: orAbsent(count('Newest version of full transactions that you can read', 1)),
      minContextSlot: orAbsent(count('Refuse to answer before this slot', 381_204_511)),
      filters: orAbsent(
        Type.Object(
          {
            slot: range('Slots', 381_204_000, true),
            blockTime: range('Unix times in seconds', 1_763_923_200, true),
            signature: orAbsent(
              Type.Object(
                {
                  gt: orAbsent(signature('Later than this transaction')),
                  gte: orAbsent(signature('This transaction and later ones')),
                  lt: orAbsent(signature('Earlier than this transaction')),
                  lte: orAbsent(signature('This transaction and earlier ones')),
                },
                { description: 'Positions on the chain, given by signatures' },
              ),
            ),
            status: orAbsent(oneOf(['any', 'all', 'succeeded', 'failed'], 'Outcome; default any')),
            tokenAccounts: orAbsent(
              oneOf(
                ['none', 'balanceChanged', 'all'],
                'Also transactions of token accounts that the address owns: those that change a balance, or all; default none',
              ),
            ),
            tokenTransfer: orAbsent(
              Type.Object(
                { ...transferMembers, amount: range('Raw units', 1_000_000) },
                { description: 'Only transactions with such a transfer to or from the address' },
              ),
            ),
          },
          { description: 'Filters', examples: [{ status: 'succeeded' }] },
        ),
      ),
    },
    { description: 'Options' },
  ),
  { limit: 10 },
);

export const transfersParams = list(
  Type.Object(
    {
      ...transferMembers,
      solMode: orAbsent(
        oneOf(
          ['merged', 'separate'],
          'merged: wrapped SOL counts as SOL, and wrapping is left out; separate: both are shown; default merged',
        ),
      ),
      filters: orAbsent(
        Type.Object(
          {
            amount: range('Raw units', 1_000_000),
            blockTime: range('Unix times in seconds', 1_763_923_200),
            slot: range('Slots', 381_204_000),
          },
          { description: 'Filters', examples: [{ amount: { gte: 1_000_000 } }] },
        ),
      ),
      ...commonMembers('1 to 100; default 100', '381204511:12:1:0:2'),
    },
    { description: 'Options' },
  ),
  { limit: 10 },
);
