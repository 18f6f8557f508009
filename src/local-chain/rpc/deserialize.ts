import { invalidParams } from './rpc-error.ts';

/**
 * Parameters are read by the rules, and refused in the words, of the library that a node reads them with (serde): clients and
 * their authors look for these words. Each reader throws -32602.
 */
export type Read<T> = (value: unknown) => T;

/** A whole number from 0 to 2^64 - 1: a bigint where a number would not be exact. */
export type Unsigned = number | bigint;

const U64_MAX = 0xffff_ffff_ffff_ffffn;

export const text: Read<string> = (value) => (typeof value === 'string' ? value : refuse(value, 'a string'));
export const flag: Read<boolean> = (value) => (typeof value === 'boolean' ? value : refuse(value, 'a boolean'));
export const u64 = unsigned('u64', U64_MAX);
export const usize = unsigned('usize', U64_MAX);
export const u8 = unsigned('u8', 255n) as Read<number>;

function unsigned(name: string, max: bigint): Read<Unsigned> {
  return (value) => {
    if (!isInteger(value)) return refuse(value, name);
    return value >= 0 && value <= max ? value : refuse(value, name, 'value');
  };
}

function optional<T>(read: Read<T>): Read<T | undefined> {
  return (value) => (value === null || value === undefined ? undefined : read(value));
}

export function list<T>(read: Read<T>): Read<readonly T[]> {
  return (value) => (Array.isArray(value) ? value.map(read) : refuse(value, 'a sequence'));
}

/** A variant by its name, or `{"name": content}`. Variants without content are named by `null`. */
export function choice<V extends Readonly<Record<string, Read<unknown> | null>>>(variants: V) {
  type Choice = { [K in keyof V & string]: { kind: K; content: V[K] extends Read<infer T> ? T : null } }[keyof V &
    string];
  return (value: unknown): Choice => {
    const named = typeof value === 'string';
    if (!named && !isMap(value)) return refuse(value, 'string or map');
    const entries = named ? [[value, undefined] as const] : Object.entries(value as Record<string, unknown>);
    if (entries.length !== 1) throw invalid('invalid value: map, expected map with a single key');
    const [kind, content] = entries[0]!;
    if (!Object.hasOwn(variants, kind)) {
      throw invalid(`unknown variant \`${kind}\`, expected ${oneOf(Object.keys(variants))}`);
    }
    const read = variants[kind];
    if (read === null || read === undefined) {
      return named || content === null ? ({ kind, content: null } as Choice) : refuse(content, 'unit');
    }
    if (named) throw invalid('invalid type: unit variant, expected newtype variant');
    return { kind, content: read(content) } as Choice;
  };
}

/** One of a few names. */
export function name<K extends string>(...names: readonly K[]): Read<K> {
  const read = choice(Object.fromEntries(names.map((each) => [each, null])));
  return (value) => read(value).kind as K;
}

interface Field<T> {
  readonly read: Read<T>;
  /** What stands for a missing one; without it the field is required. */
  readonly missing?: () => T;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
export type Struct<F extends Fields> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never };

export const required = <T>(read: Read<T>): Field<T> => ({ read });
export const maybe = <T>(read: Read<T>): Field<T | undefined> => ({ read: optional(read), missing: () => undefined });
/** A field that a client may leave out, but not set to null. */
export const or = <T>(read: Read<T>, value: T): Field<T> => ({ read, missing: () => value });

/** An object; names that it does not know are passed over. A plain one may come as the list of its fields, too. */
export function struct<F extends Fields>(title: string, fields: F, { flat = false } = {}): Read<Struct<F>> {
  const names = Object.keys(fields);
  return (value) => {
    if (Array.isArray(value) && !flat) return fromList(title, fields, value);
    if (!isMap(value)) return refuse(value, `struct ${title}`);
    const found: Record<string, unknown> = {};
    for (const key of Object.keys(value).sort()) {
      if (Object.hasOwn(fields, key)) found[key] = fields[key]!.read(value[key]);
    }
    for (const key of names) {
      if (Object.hasOwn(found, key)) continue;
      const { missing } = fields[key]!;
      if (missing === undefined) throw invalid(`missing field \`${key}\``);
      found[key] = missing();
    }
    return found as Struct<F>;
  };
}

function fromList<F extends Fields>(title: string, fields: F, values: readonly unknown[]): Struct<F> {
  const names = Object.keys(fields);
  if (values.length < names.length) {
    const elements = names.length === 1 ? '1 element' : `${names.length} elements`;
    throw invalid(`invalid length ${values.length}, expected struct ${title} with ${elements}`);
  }
  if (values.length > names.length) throw invalid(`invalid length ${values.length}, expected fewer elements in array`);
  return Object.fromEntries(names.map((key, index) => [key, fields[key]!.read(values[index])])) as Struct<F>;
}

/** The first of two forms that fits. */
export function either<A, B>(title: string, first: Read<A>, second: Read<B>): Read<A | B> {
  return (value) => {
    for (const read of [first, second]) {
      try {
        return read(value);
      } catch {}
    }
    throw invalid(`data did not match any variant of untagged enum ${title}`);
  };
}

/** Never fails: what does not fit counts as left out, as in a struct that is merged into another. */
export function lenient<T>(read: Read<T>): Read<T | undefined> {
  return (value) => {
    try {
      return optional(read)(value);
    } catch {
      return undefined;
    }
  };
}

export function invalid(message: string): Error {
  return invalidParams(`Invalid params: ${message}.`);
}

function refuse(value: unknown, expected: string, what: 'type' | 'value' = 'type'): never {
  throw invalid(`invalid ${what}: ${shown(value)}, expected ${expected}`);
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'sequence';
  switch (typeof value) {
    case 'boolean':
      return `boolean \`${value}\``;
    case 'string':
      return `string ${JSON.stringify(value)}`;
    case 'number':
    case 'bigint':
      return isInteger(value) ? `integer \`${value}\`` : `floating point \`${floatText(Number(value))}\``;
    default:
      return 'map';
  }
}

function floatText(value: number): string {
  if (!Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1e16 ? value.toExponential() : `${value}.0`;
}

/** Whether a node reads it as an integer: what needs more than 64 bits is a floating point number to it. */
function isInteger(value: unknown): value is Unsigned {
  if (typeof value === 'bigint') return value >= -(1n << 63n) && value <= U64_MAX;
  return Number.isInteger(value) && Math.abs(value as number) <= Number.MAX_SAFE_INTEGER;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function oneOf(names: readonly string[]): string {
  const quoted = names.map((each) => `\`${each}\``);
  if (quoted.length === 1) return quoted[0]!;
  return quoted.length === 2 ? quoted.join(' or ') : `one of ${quoted.join(', ')}`;
}
