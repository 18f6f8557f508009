import type { TSchema } from '@sinclair/typebox';
import { decode, encode32 } from '../../src/lib/base58.ts';
import { type ByteReader, createByteReader, LayoutError } from '../../src/lib/bytes.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { RpcError, Type } from '../../src/plugin/plugin.ts';
import { EXAMPLES, orNull, text } from '../../src/solana/schemas.ts';
import { MAX_LOOKBACK_SLOTS } from './window.ts';

const PRIORITY_LEVELS = ['Min', 'Low', 'Medium', 'High', 'VeryHigh', 'UnsafeMax', 'Default'] as const;
export type PriorityLevel = (typeof PRIORITY_LEVELS)[number];

/** `binary` is the old name of base58; the documentation writes the first letter large. */
const ENCODINGS = ['base58', 'base64', 'Base58', 'Base64', 'binary', 'json', 'jsonParsed'] as const;

export interface FeeOptions {
  readonly transactionEncoding?: (typeof ENCODINGS)[number];
  readonly priorityLevel?: PriorityLevel;
  readonly includeAllPriorityFeeLevels?: boolean;
  readonly lookbackSlots?: number;
  readonly includeVote?: boolean;
  readonly recommended?: boolean;
  readonly evaluateEmptySlotAsZero?: boolean;
  readonly includeDetails?: boolean;
}

export interface FeeRequest {
  /** Account keys as given. Invalid keys are ignored. */
  readonly accountKeys: readonly string[] | null;
  readonly transaction: string | null;
  /** Null when none were given: that changes the defaults. */
  readonly options: FeeOptions | null;
}

const OPTION_CHECKS: Readonly<Record<keyof FeeOptions, (value: unknown) => boolean>> = {
  transactionEncoding: (value) => ENCODINGS.includes(value as never),
  priorityLevel: (value) => PRIORITY_LEVELS.includes(value as never),
  includeAllPriorityFeeLevels: isBoolean,
  lookbackSlots: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 0xffff_ffff,
  includeVote: isBoolean,
  recommended: isBoolean,
  evaluateEmptySlotAsZero: isBoolean,
  includeDetails: isBoolean,
};

const MAX_ACCOUNT_KEYS = 500;

/** A member that is there and not null. */
const given = (...names: readonly string[]) => ({
  required: [...names],
  properties: Object.fromEntries(names.map((name) => [name, { not: { type: 'null' } }])),
});
const orAbsent = (schema: TSchema) => Type.Optional(orNull(schema));
const flag = (description: string) => orAbsent(Type.Boolean({ description, examples: [true] }));
const options = Type.Object(
  {
    transactionEncoding: orAbsent(
      Type.Unsafe<string>({
        type: 'string',
        enum: [...ENCODINGS],
        examples: ['base64'],
        description: 'Encoding of `transaction`, default base58; of the list only base58 and base64 can be read',
      }),
    ),
    priorityLevel: orAbsent(
      Type.Unsafe<string>({
        type: 'string',
        enum: [...PRIORITY_LEVELS],
        description: 'Default Medium',
        examples: ['High'],
      }),
    ),
    includeAllPriorityFeeLevels: flag('Return all levels'),
    lookbackSlots: orAbsent(
      Type.Integer({
        minimum: 1,
        maximum: MAX_LOOKBACK_SLOTS,
        examples: [50],
        description: `Number of slots that are looked at, default ${MAX_LOOKBACK_SLOTS}`,
      }),
    ),
    includeVote: flag('Count vote transactions too'),
    recommended: flag('The recommended fee; not together with level, lookback or votes'),
    evaluateEmptySlotAsZero: flag('Slots without such transactions count as 0; default true'),
    includeDetails: flag('Return details of each account'),
  },
  {
    additionalProperties: false,
    description: 'Options',
    not: {
      ...given('recommended'),
      anyOf: ['priorityLevel', 'includeAllPriorityFeeLevels', 'lookbackSlots', 'includeVote'].map((name) =>
        given(name),
      ),
    },
    examples: [{ priorityLevel: 'High' }],
  },
);
/** A signed transfer, base58. */
const TRANSACTION =
  '4A5NGGyXqwWrQqFc7Xc3cNP2GsNywzViNxjqzVfnwHH1eyPbsxs2f1PtJpYse41Whw9b1KHq8RnQBxsSGrtcuifup32b3Lhxmwi6VWTJeWgAYEejGw7YYxk9ziQpYyJMXNVpvGJEuNLTvZ62i8NJEGW3sPFK4x8kJoBT2qXvzbNFnzpQkkyFkvkYGjqx5ohN66rBs5xcL5yaJaSxxkNZ1FQom39hYPiWHFyW1GxnzXcMDXYztHSZ81tccSfGHPX5k2TZaoTPVDfHFY6gWmFRTCbayVentjFtLXoB5';
const request = Type.Object(
  {
    transaction: orAbsent(text('A transaction, signed or not; not together with accountKeys', TRANSACTION)),
    accountKeys: orAbsent(
      Type.Union(
        [
          Type.Array(text('Address', EXAMPLES.address), { maxItems: MAX_ACCOUNT_KEYS }),
          text('A single address', EXAMPLES.address),
        ],
        {
          description: `Up to ${MAX_ACCOUNT_KEYS} accounts that the transaction writes to; texts that are not addresses are ignored`,
        },
      ),
    ),
    options: orAbsent(options),
  },
  {
    title: 'request',
    additionalProperties: false,
    description: 'A transaction or accounts, and options; without both, the fees of all accounts',
    not: given('transaction', 'accountKeys'),
    examples: [{ accountKeys: [EXAMPLES.address], options: { priorityLevel: 'High' } }],
  },
);

/** The request alone, or first in an array. Whether a transaction can be decoded is checked when it is read. */
export const feeParams = Type.Union([
  Type.Unsafe<unknown>({ type: 'array', items: [request], minItems: 1 }),
  request as TSchema,
]);
const MAX_TRANSACTION_BYTES = 4_096;

/** `[{transaction | accountKeys, options}]`, or the object alone. Members that are null count as absent. Throws -32602. */
export function readFeeRequest(params: unknown): FeeRequest {
  const given: unknown = Array.isArray(params) ? params[0] : params;
  if (!isPlainObject(given)) throw malformed('params[0] has to be an object');
  const members = present(given, ['transaction', 'accountKeys', 'options'], 'params[0]');
  const { transaction, accountKeys, options } = members;
  if (transaction !== undefined && typeof transaction !== 'string') throw malformed('transaction has to be a string');
  const keys = typeof accountKeys === 'string' ? [accountKeys] : accountKeys;
  if (keys !== undefined && !(Array.isArray(keys) && keys.every((key) => typeof key === 'string'))) {
    throw malformed('accountKeys has to be a list of strings');
  }
  const request: FeeRequest = {
    accountKeys: (keys as readonly string[] | undefined) ?? null,
    transaction: transaction ?? null,
    options: options === undefined ? null : readOptions(options),
  };
  demandConsistent(request);
  return request;
}

function readOptions(given: unknown): FeeOptions {
  if (!isPlainObject(given)) throw malformed('options has to be an object');
  const names = Object.keys(OPTION_CHECKS) as (keyof FeeOptions)[];
  const options = present(given, names, 'options');
  for (const name of names) {
    if (options[name] !== undefined && !OPTION_CHECKS[name](options[name])) {
      throw malformed(`options.${name} is not valid`);
    }
  }
  return options;
}

/** The members that are not null. */
function present(given: Readonly<Record<string, unknown>>, names: readonly string[], where: string) {
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw malformed(`unknown field ${name} of ${where}; it has ${names.join(', ')}`);
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function demandConsistent({ accountKeys, transaction, options }: FeeRequest): void {
  if (transaction !== null && accountKeys !== null) {
    // The trailing blank is the published text's.
    throw refused('transaction and account_keys cannot both be provided ');
  }
  if (accountKeys !== null && accountKeys.length > MAX_ACCOUNT_KEYS) {
    throw refused(`number of account_keys must be <= ${MAX_ACCOUNT_KEYS}`);
  }
  if (options?.recommended === undefined) return;
  const { priorityLevel, includeAllPriorityFeeLevels, lookbackSlots, includeVote } = options;
  if ([priorityLevel, includeAllPriorityFeeLevels, lookbackSlots, includeVote].every((one) => one === undefined))
    return;
  throw refused(
    'recommended cannot be used with priority_level, include_all_priority_fee_levels, lookback_slots, include_vote',
  );
}

/** Checked after the transaction was read, as the published order has it. */
export function readLookback(options: FeeOptions | null): number {
  const slots = options?.lookbackSlots ?? MAX_LOOKBACK_SLOTS;
  if (slots < 1 || slots > MAX_LOOKBACK_SLOTS) {
    throw refused(`lookback_slots must be between 1 and ${MAX_LOOKBACK_SLOTS}`);
  }
  return slots;
}

/** The message of a transaction that may lack its signatures. */
export function readDraftMessage(text: string, encoding: FeeOptions['transactionEncoding'] = 'base58'): DraftMessage {
  const bytes = decodeText(text, encoding);
  if (bytes.length > MAX_TRANSACTION_BYTES) throw refused('decoded too large');
  try {
    return readDraft(bytes);
  } catch (error) {
    throw refused(`failed to deserialize: ${(error as Error).message}`);
  }
}

function decodeText(text: string, encoding: NonNullable<FeeOptions['transactionEncoding']>): Uint8Array {
  if (encoding === 'json' || encoding === 'jsonParsed') {
    throw refused(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`);
  }
  if (encoding === 'base64' || encoding === 'Base64') {
    if (text.length > Math.ceil(MAX_TRANSACTION_BYTES / 3) * 4) throw refused('base64 encoded too large');
    const bytes = Buffer.from(text, 'base64');
    if (bytes.toString('base64') !== text)
      throw refused('invalid base64 encoding: it is not standard base64 with padding');
    return bytes;
  }
  if (text.length > MAX_TRANSACTION_BYTES * 2) throw refused('base58 encoded too large');
  const bytes = decode(text);
  if (bytes === null) throw refused('invalid base58 encoding: a character is not in the alphabet');
  return bytes;
}

/** base58 of the keys that the message itself may write to. */
export function writableKeys({ header, keys }: DraftMessage): string[] {
  const [signers, readonlySigned, readonlyUnsigned] = header;
  return keys
    .filter((_, at) => at < signers - readonlySigned || (at >= signers && at < keys.length - readonlyUnsigned))
    .map((key) => encode32(key));
}

function isBoolean(value: unknown): boolean {
  return typeof value === 'boolean';
}

const refused = (reason: string) => new RpcError('invalidParams', { message: `Invalid Request: ${reason}` });
const malformed = (details: string) => new RpcError('invalidParams', { details });

/** The accounts of a transaction. It may be a draft: with zeros as signatures, or without any. */
interface DraftMessage {
  /** Required signatures, read-only signed, read-only unsigned. */
  readonly header: readonly [number, number, number];
  /** Keys in the message itself, 32 bytes each. */
  readonly keys: readonly Uint8Array[];
  readonly lookups: readonly {
    readonly table: Uint8Array;
    readonly writable: Uint8Array;
    readonly readonly: Uint8Array;
  }[];
}

const VERSION_BIT = 0x80;
const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;

/**
 * Reads the wire bytes of a legacy, version 0 or version 1 transaction up to its last lookup and ignores the rest. Unlike
 * `peekWire` it accepts transactions that nodes reject. Throws LayoutError.
 */
function readDraft(bytes: Uint8Array): DraftMessage {
  const reader = createByteReader(bytes);
  if (bytes[0] === (VERSION_BIT | 1)) return readVersion1(reader);
  if ((bytes[0] ?? 0) >= VERSION_BIT) throw new LayoutError('an unknown transaction format');
  reader.bytes(readLength(reader) * SIGNATURE_BYTES);
  const isVersioned = reader.left > 0 && bytes[reader.offset]! >= VERSION_BIT;
  if (isVersioned && reader.u8() !== VERSION_BIT) throw new LayoutError('an unknown message version');
  const header = readHeader(reader);
  const keys = reader.list(() => reader.key(), KEY_BYTES, readLength(reader));
  reader.bytes(KEY_BYTES);
  const sized = () => reader.bytes(readLength(reader));
  reader.list(() => [reader.u8(), sized(), sized()], 3, readLength(reader));
  const lookups = isVersioned
    ? reader.list(() => ({ table: reader.key(), writable: sized(), readonly: sized() }), 34, readLength(reader))
    : [];
  return { header, keys, lookups };
}

/** Version, header, configuration mask, lifetime, two counts, addresses. */
function readVersion1(reader: ByteReader): DraftMessage {
  reader.u8();
  const header = readHeader(reader);
  reader.u32();
  reader.bytes(KEY_BYTES);
  reader.u8();
  const keys = reader.list(() => reader.key(), KEY_BYTES, reader.u8());
  return { header, keys, lookups: [] };
}

const readHeader = (reader: ByteReader) => [reader.u8(), reader.u8(), reader.u8()] as const;

/** A compact-u16. */
function readLength(reader: ByteReader): number {
  let length = 0;
  for (let shift = 0; shift <= 14; shift += 7) {
    const byte = reader.u8();
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) return length;
  }
  throw new LayoutError('a length of more than three bytes', reader.offset);
}
