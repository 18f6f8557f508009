import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { invalid } from './errors.ts';

/** A member of the params: how it is documented, and how it is read. */
export interface Field<T = unknown> {
  readonly schema: TSchema;
  /** What an absent or null one stands for; null makes it required. */
  readonly absent: { readonly value: T } | null;
  /** `name` is what errors call it. Errors: -32602. */
  readonly read: (value: unknown, name: string) => T;
}

// biome-ignore lint/suspicious/noExplicitAny: fields of all types; `Values` gives each its own back.
export type Fields = Readonly<Record<string, Field<any>>>;

/** What is read from an object of such fields. */
export type Values<F extends Fields> = { readonly [Name in keyof F]: F[Name] extends Field<infer T> ? T : never };

export interface ReadOptions {
  /** Name of the object itself, where it is a member of another one. */
  readonly name?: string;
  /** Whether unknown members are fine. */
  readonly tolerant?: boolean;
}

/** Reads an object. Errors: -32602 that names the member. */
export function readFields<F extends Fields>(fields: F, given: unknown, options: ReadOptions = {}): Values<F> {
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
  return values as Values<F>;
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
