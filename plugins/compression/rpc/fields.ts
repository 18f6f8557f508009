import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { decode, decode32, encode } from '../../../src/lib/base58.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { JsonText, RpcError } from '../../../src/plugin/plugin.ts';
import * as s from '../../../src/solana/schemas.ts';

/** Most items of any list in params. */
const MAX_ITEMS = 1000;
/** base58 of the longest cursor has fewer characters. */
const MAX_CURSOR_CHARACTERS = 128;

/** 32 bytes in base58: a hash, a key or an address. */
export function key32(description: string): ParamField<Uint8Array> {
  return {
    schema: s.address(description, s.EXAMPLES.hash),
    absent: null,
    read: (value, name) => {
      const bytes = typeof value === 'string' ? decode32(value) : null;
      if (bytes === null) throw invalid(`field '${name}' must be a base58 string of 32 bytes`);
      return bytes;
    },
  };
}

/** 64 bytes in base58; given back as the text, which is canonical. */
export function signature64(description: string): ParamField<{ readonly text: string; readonly bytes: Uint8Array }> {
  return {
    schema: s.signature(description),
    absent: null,
    read: (value, name) => {
      const bytes = typeof value === 'string' && value.length >= 64 && value.length <= 88 ? decode(value) : null;
      if (bytes?.length !== 64) throw invalid(`field '${name}' must be a base58 string of 64 bytes`);
      return { text: value as string, bytes };
    },
  };
}

/** May be missing or null, and is null then. */
export function optional<T>(field: ParamField<T>): ParamField<T | null> {
  return { ...field, schema: s.orNull(field.schema), absent: { value: null } };
}

interface IntegerRange {
  readonly least?: number;
  readonly most?: number;
  readonly description: string;
}

export function integer({ least = 0, most = Number.MAX_SAFE_INTEGER, description }: IntegerRange): ParamField<number> {
  const isOpen = most === Number.MAX_SAFE_INTEGER;
  const range = isOpen ? `an integer of at least ${least}` : `an integer between ${least} and ${most}`;
  return {
    schema: Type.Integer({
      minimum: least,
      maximum: most,
      description,
      examples: [Math.max(least, Math.min(most, 100))],
    }),
    absent: null,
    read: (value, name) => {
      if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
        throw invalid(`field '${name}' must be ${range}`);
      return value as number;
    },
  };
}

interface ListOptions {
  /** Name of the items in errors: `hashes`, `addresses`. */
  readonly items: string;
  /** Error for an empty list; without it an empty list is allowed. */
  readonly empty?: string;
  /** Message of the error for a list that is too long. */
  readonly tooMany?: string;
}

/** A list of 1 to 1000 items. Errors name the index of an invalid item. */
export function listField<T>(field: ParamField<T>, { items, empty, tooMany }: ListOptions): ParamField<readonly T[]> {
  return {
    schema: Type.Array(field.schema, {
      maxItems: MAX_ITEMS,
      ...(empty === undefined ? {} : { minItems: 1 }),
      description: `Up to ${MAX_ITEMS} ${items}`,
    }),
    absent: null,
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(`field '${name}' must be an array`);
      if (value.length === 0 && empty !== undefined) throw invalid(empty);
      if (value.length > MAX_ITEMS)
        throw invalid(`Too many ${items} requested ${value.length}. Maximum allowed: ${MAX_ITEMS}`, tooMany);
      return value.map((item, at) => field.read(item, `${name}[${at}]`));
    },
  };
}

/** A nested object. */
export function objectOf<F extends Fields>(fields: F, description?: string): ParamField<ParamValues<F>> {
  const schema = description === undefined ? schemaOf(fields) : { ...schemaOf(fields), description };
  return { schema, absent: null, read: (value, name) => readFields(fields, value, { name }) };
}

/** Rows of one page; 1000 when absent. */
export function limit(): ParamField<number> {
  return {
    schema: s.orNull(
      Type.Integer({
        minimum: 1,
        maximum: MAX_ITEMS,
        description: `rows of one page; default ${MAX_ITEMS}`,
        examples: [100],
      }),
    ),
    absent: { value: MAX_ITEMS },
    read: (value) => {
      if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > MAX_ITEMS)
        throw invalid(`limit must be between 1 and ${MAX_ITEMS}`);
      return value as number;
    },
  };
}

/** End of the page before, base58 of this many bytes; null for the first page. */
export function cursor(byteCount: number): ParamField<Uint8Array | null> {
  return {
    // The number of bytes is checked when it is read.
    schema: s.orNull(
      s.text('`cursor` of the page before', encode(new Uint8Array(byteCount).fill(7)), {
        maxLength: MAX_CURSOR_CHARACTERS,
      }),
    ),
    absent: { value: null },
    read: (value) => {
      const bytes = typeof value === 'string' && value.length <= MAX_CURSOR_CHARACTERS ? decode(value) : null;
      if (bytes === null) throw invalid('Invalid cursor');
      if (bytes.length !== byteCount)
        throw invalid(`Invalid cursor length. Expected ${byteCount}. Received ${bytes.length}.`);
      return bytes;
    },
  };
}

/** A member of the params: its documentation and its parser. */
export interface ParamField<T = unknown> {
  readonly schema: TSchema;
  /** Default for absent or null; null makes it required. */
  readonly absent: { readonly value: T } | null;
  /** `name` is used in errors. Errors: -32602. */
  readonly read: (value: unknown, name: string) => T;
}

// biome-ignore lint/suspicious/noExplicitAny: fields of all types; `Values` restores the type of each.
export type Fields = Readonly<Record<string, ParamField<any>>>;

/** The values read from an object of such fields. */
export type ParamValues<F extends Fields> = {
  readonly [Name in keyof F]: F[Name] extends ParamField<infer T> ? T : never;
};

interface ReadOptions {
  /** Name of the object itself, when it is a member of another one. */
  readonly name?: string;
  /** Whether unknown members are allowed. */
  readonly tolerant?: boolean;
}

/** Reads an object. Errors: -32602 that names the member. */
export function readFields<F extends Fields>(fields: F, given: unknown, options: ReadOptions = {}): ParamValues<F> {
  const { name = '', tolerant = false } = options;
  const prefix = name === '' ? '' : `${name}.`;
  if (!isPlainObject(given))
    throw invalid(name === '' ? 'params must be an object' : `field '${name}' must be an object`);
  if (!tolerant) {
    const unknown = Object.keys(given).find((member) => !Object.hasOwn(fields, member));
    if (unknown !== undefined) throw invalid(`unknown field '${prefix}${unknown.slice(0, 64)}'`);
  }
  const values: Record<string, unknown> = {};
  for (const [member, field] of Object.entries(fields)) {
    const value = Object.hasOwn(given, member) ? given[member] : undefined;
    if (value !== undefined && value !== null) values[member] = field.read(value, prefix + member);
    else if (field.absent !== null) values[member] = field.absent.value;
    else throw invalid(`field '${prefix}${member}' is required`);
  }
  return values as ParamValues<F>;
}

/** The schema of such an object, for the documents. */
export function schemaOf(fields: Fields, options: Pick<ReadOptions, 'tolerant'> = {}): TObject {
  const members = Object.entries(fields).map(([name, { schema, absent }]) => [
    name,
    absent === null ? schema : Type.Optional(schema),
  ]);
  return Type.Object(Object.fromEntries(members) as Record<string, TSchema>, {
    additionalProperties: options.tolerant === true,
  });
}

/** Rows of one page: `rows` holds one more than requested when another page follows. */
interface Page<T> {
  readonly rows: readonly T[];
  /** Start of the next page (exclusive); null at the end. */
  readonly cursor: string | null;
}

/** Cuts rows that were read up to `limit + 1`. */
export function pageOf<T>(rows: readonly T[], limit: number, cursorOf: (last: T) => string): Page<T> {
  const kept = rows.slice(0, limit);
  const last = kept[kept.length - 1];
  return { rows: kept, cursor: rows.length > limit && last !== undefined ? cursorOf(last) : null };
}

/** JSON of a page whose items are JSON texts. */
export function pageText(items: readonly string[], cursor: string | null): JsonText {
  return new JsonText(`{"items":[${items.join(',')}],"cursor":${JSON.stringify(cursor)}}`);
}

/** A constant in the text: indexes on unspent rows are not used with a parameter. */
export const unspent = (column: string): RawBuilder<SqlBool> => sql<SqlBool>`${sql.ref(column)} = 0`;

/** Whether a row comes after a position, in the order of two columns. */
export function after(
  columns: readonly [string, string],
  direction: 'asc' | 'desc',
  place: readonly [number | Uint8Array, number | Uint8Array],
): RawBuilder<SqlBool> {
  const sign = sql.raw(direction === 'asc' ? '>' : '<');
  return sql<SqlBool>`(${sql.ref(columns[0])}, ${sql.ref(columns[1])}) ${sign} (${place[0]}, ${place[1]})`;
}

/** The request is invalid. */
export const invalid = (details: string, message?: string) =>
  new RpcError('invalidParams', { details, ...(message === undefined ? {} : { message }) });

/** The requested item does not exist. */
export const recordNotFound = (detail: string) => new RpcError('notFound', { message: `Record Not Found: ${detail}` });

export const unavailable = (details: string) => new RpcError('unavailable', { details });

export const timedOut = (details: string) => new RpcError('timeout', { details });

/** The answer is known to be wrong, or cannot be verified. */
export const withheld = (details: string) => new RpcError('internal', { details });
