import { Type } from '@sinclair/typebox';
import { decode, decode32 } from '../../../src/lib/base58.ts';
import { invalid } from './errors.ts';
import { type Field, type Fields, readFields, schemaOf, type Values } from './field.ts';

/** Most items of any list in params. */
const MOST_ITEMS = 1000;
/** base58 of the longest cursor has fewer characters. */
const MOST_CURSOR_CHARACTERS = 128;

/** 32 bytes in base58: a hash, a key or an address. */
export function key32(description: string): Field<Uint8Array> {
  return {
    schema: Type.String({ minLength: 32, maxLength: 44, description }),
    absent: null,
    read: (value, name) => {
      const bytes = typeof value === 'string' ? decode32(value) : null;
      if (bytes === null) throw invalid(`field '${name}' must be a base58 string of 32 bytes`);
      return bytes;
    },
  };
}

/** 64 bytes in base58; given back as the text, which is canonical. */
export function signature64(description: string): Field<{ readonly text: string; readonly bytes: Uint8Array }> {
  return {
    schema: Type.String({ minLength: 64, maxLength: 88, description }),
    absent: null,
    read: (value, name) => {
      const bytes = typeof value === 'string' && value.length >= 64 && value.length <= 88 ? decode(value) : null;
      if (bytes?.length !== 64) throw invalid(`field '${name}' must be a base58 string of 64 bytes`);
      return { text: value as string, bytes };
    },
  };
}

/** May be left out or null, and is null then. */
export function optional<T>(field: Field<T>): Field<T | null> {
  return { ...field, absent: { value: null } };
}

export interface IntegerRange {
  readonly least?: number;
  readonly most?: number;
  readonly description: string;
}

export function integer({ least = 0, most = Number.MAX_SAFE_INTEGER, description }: IntegerRange): Field<number> {
  const isOpen = most === Number.MAX_SAFE_INTEGER;
  const range = isOpen ? `an integer of at least ${least}` : `an integer between ${least} and ${most}`;
  return {
    schema: Type.Integer({ minimum: least, ...(isOpen ? {} : { maximum: most }), description }),
    absent: null,
    read: (value, name) => {
      if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
        throw invalid(`field '${name}' must be ${range}`);
      return value as number;
    },
  };
}

export interface ListOptions {
  /** What errors call the items: `hashes`, `addresses`. */
  readonly items: string;
  /** The sentence for an empty list; without it an empty one is fine. */
  readonly empty?: string;
}

/** A list of 1 to 1000 items. Errors name the index of a bad one. */
export function listOf<T>(field: Field<T>, { items, empty }: ListOptions): Field<readonly T[]> {
  return {
    schema: Type.Array(field.schema, { maxItems: MOST_ITEMS, ...(empty === undefined ? {} : { minItems: 1 }) }),
    absent: null,
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(`field '${name}' must be an array`);
      if (value.length === 0 && empty !== undefined) throw invalid(empty);
      if (value.length > MOST_ITEMS)
        throw invalid(`Too many ${items} requested ${value.length}. Maximum allowed: ${MOST_ITEMS}`);
      return value.map((item, at) => field.read(item, `${name}[${at}]`));
    },
  };
}

/** An object with members of its own. */
export function objectOf<F extends Fields>(fields: F): Field<Values<F>> {
  return { schema: schemaOf(fields), absent: null, read: (value, name) => readFields(fields, value, { name }) };
}

/** Rows of one page; 1000 when absent. */
export function limit(): Field<number> {
  return {
    schema: Type.Integer({ minimum: 1, maximum: MOST_ITEMS, default: MOST_ITEMS, description: 'rows of one page' }),
    absent: { value: MOST_ITEMS },
    read: (value) => {
      if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > MOST_ITEMS)
        throw invalid(`limit must be between 1 and ${MOST_ITEMS}`);
      return value as number;
    },
  };
}

/** Where the page before ended, base58 of so many bytes; null for the first page. */
export function cursor(byteCount: number): Field<Uint8Array | null> {
  return {
    schema: Type.String({ description: 'where the page before ended' }),
    absent: { value: null },
    read: (value) => {
      const bytes = typeof value === 'string' && value.length <= MOST_CURSOR_CHARACTERS ? decode(value) : null;
      if (bytes === null) throw invalid('Invalid cursor');
      if (bytes.length !== byteCount)
        throw invalid(`Invalid cursor length. Expected ${byteCount}. Received ${bytes.length}.`);
      return bytes;
    },
  };
}
