import {
  type SchemaOptions,
  type TInteger,
  type TNull,
  type TSchema,
  type TString,
  type TUnion,
  Type,
} from '@sinclair/typebox';
import { USDC_MINT } from './programs.ts';

/**
 * Schemas of the chain's values as JSON has them: what they look like, and a real example of each. The formats `base58-32` and
 * `base58-64` are checked by the validator of requests.
 */
const ADDRESS = '86xCnPeV69n6t3DnyGvkKobf9FdN2H9oiVDdaMpo2MMY';
const COUNTERPARTY = '9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g';
const MINT = USDC_MINT;
const SIGNATURE = '5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv2sUYv';
const HASH = '11CpUGRfTAg8vcTXNbLbXYRW9Ygo2WL1yiBHTRTmzQ5';
export const EXAMPLES = {
  address: ADDRESS,
  counterparty: COUNTERPARTY,
  mint: MINT,
  signature: SIGNATURE,
  hash: HASH,
  /** A signed transfer of one lamport to the address, in base64. Its blockhash is of no chain. */
  wire: 'AXo87P2XZiodI5JKfsN4aW6QwrbQSDWPGR7W7coOKZlvVpHo82IKtlXyAKXpQNb7G3sYWyyH2edYYacJ0QAujAABAAED6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0ixpiCGEh0llPHXQQQqVjDAJohMPnDHj34n/YcLXUqQCXwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAzEkOkozS44c7s0P8ldozF5ymD02/RsLDbpEpnVXU5rkBAgIAAQwCAAAAAQAAAAAAAAA=',
} as const;
const BASE58_32 = { format: 'base58-32', pattern: '^[1-9A-HJ-NP-Za-km-z]{32,44}$' } as const;
const BASE58_64 = { format: 'base58-64', pattern: '^[1-9A-HJ-NP-Za-km-z]{64,88}$' } as const;

export const address = (
  description = 'Address, base58',
  example: string = ADDRESS,
  options: SchemaOptions = {},
): TString => Type.String({ ...BASE58_32, ...options, description, examples: [example] });

export const mint = (description = 'Address of the mint'): TString => address(description, MINT);

export const hash = (description: string): TString => address(description, HASH);

export const signature = (description = 'Signature of the transaction, base58'): TString =>
  Type.String({ ...BASE58_64, description, examples: [SIGNATURE] });

export const slot = (description = 'Slot', options: SchemaOptions = {}): TInteger =>
  Type.Integer({ minimum: 0, ...options, description, examples: [381_204_511] });

export const unixTime = (description = 'Unix time in seconds'): TInteger =>
  Type.Integer({ minimum: 0, description, examples: [1_763_923_200] });

/** Up to 2^64 - 1, in plain digits: the format tells clients that a double does not hold it. */
export const u64 = (description: string, example = 1_000_000): TInteger =>
  Type.Integer({ minimum: 0, format: 'uint64', description, examples: [example] });

export const lamports = (description = 'Lamports', example = 1_500_000_000): TInteger => u64(description, example);

/** A count, an index or another whole number. */
export const count = (description: string, example = 1): TInteger =>
  Type.Integer({ minimum: 0, description, examples: [example] });

export const text = (description: string, example: string, options: SchemaOptions = {}): TString =>
  Type.String({ ...options, description, examples: [example] });

export const time = (description: string): TString =>
  Type.String({ format: 'date-time', description, examples: ['2026-11-23T18:40:00.000Z'] });

export const flag = (description: string, example = false) => Type.Boolean({ description, examples: [example] });

export const oneOf = <const T extends string>(values: readonly T[], description: string, example: T = values[0] as T) =>
  Type.Unsafe<T>({ type: 'string', enum: [...values], description, examples: [example] });

/** The whole has the description of the value: readers of the documents look for it there. */
export const orNull = <S extends TSchema>(schema: S, options: SchemaOptions = {}): TUnion<[S, TNull]> =>
  Type.Union([schema, Type.Null()], {
    ...(schema.description === undefined ? {} : { description: schema.description }),
    ...options,
  });

/** The schema without examples at any depth: of a member that others exclude. Forms and clients send the examples of all members together. */
export function withoutExamples<S extends TSchema>(schema: S): S {
  const plain = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(plain);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Reflect.ownKeys(value).flatMap((name) =>
      name === 'examples' ? [] : [[name, plain((value as Readonly<Record<PropertyKey, unknown>>)[name])] as const],
    );
    return Object.fromEntries(entries);
  };
  return plain(schema) as S;
}
