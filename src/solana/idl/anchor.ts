/** Interfaces of Anchor, before and since 0.30, and of Shank: types by name, accounts in groups, discriminators by hash or as given. */
import { createHash } from 'node:crypto';
import { byteList, isPlainObject } from '../../lib/json.ts';
import {
  type AccountName,
  type CallShape,
  demandName,
  errorsOf,
  type InterfaceParts,
  MAX_ACCOUNTS,
  MAX_INSTRUCTIONS,
  nameOf,
} from './interface.ts';
import {
  bool,
  compileBudget,
  type Field,
  key,
  list,
  map,
  misfit,
  number,
  option,
  prefixed,
  type ReadValue,
  restText,
  struct,
  textOf,
  type Variant,
  variants,
} from './read-values.ts';

type Members = Readonly<Record<string, unknown>>;

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const membersOf = (value: unknown): Members => (isPlainObject(value) ? value : misfit());

export function readAnchor(idl: Members): InterfaceParts | null {
  const instructions = listOf(idl['instructions']);
  if (instructions.length > MAX_INSTRUCTIONS) return null;
  const metadata = isPlainObject(idl['metadata']) ? idl['metadata'] : {};
  const types = createTypes(idl);
  return {
    name: idl['name'] ?? metadata['name'],
    address: idl['address'] ?? metadata['address'],
    calls: instructions.flatMap((item) => {
      const call = isPlainObject(item) ? callOf(item, types) : null;
      return call === null ? [] : [call];
    }),
    errors: () => errorsOf(listOf(idl['errors']), 'msg'),
    events: listOf(idl['events']),
  };
}

function callOf(item: Members, types: Types): CallShape | null {
  const { name } = item;
  const bytes = typeof name === 'string' ? discriminatorOf(name, item) : null;
  if (bytes === null) return null;
  return {
    name: name as string,
    conditions: bytes.length === 0 ? [] : [{ offset: 0, bytes }],
    size: null,
    argsAt: bytes.length,
    args: () => types.fields(listOf(item['args']), NO_GENERICS, 0),
    accounts: () => accountsOf(listOf(item['accounts']), '', 0),
    // Of Shank.
    omitsAccounts: item['legacyOptionalAccountsStrategy'] === true,
  };
}

/** Null for one that is malformed. */
function discriminatorOf(name: string, { discriminator, discriminant }: Members): Uint8Array | null {
  if (discriminator !== undefined) return bytesOf(discriminator);
  if (discriminant === undefined) {
    const snake = nameOf(name);
    return snake === null ? null : createHash('sha256').update(`global:${snake}`).digest().subarray(0, 8);
  }
  if (!isPlainObject(discriminant)) return null;
  const { type = 'u8', value } = discriminant as { type?: unknown; value?: unknown };
  if (Array.isArray(value)) return bytesOf(value);
  const size = type === 'u8' ? 1 : type === 'u16' ? 2 : type === 'u32' ? 4 : type === 'u64' ? 8 : null;
  if (size === null || !Number.isSafeInteger(value) || (value as number) < 0) return null;
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value as number), true);
  return bytes.subarray(0, size);
}

function bytesOf(value: unknown): Uint8Array | null {
  return Array.isArray(value) && value.length > 64 ? null : byteList(value);
}

const MAX_GROUP_DEPTH = 16;

/** The accounts of a group carry its name before theirs. */
function accountsOf(items: readonly unknown[], prefix: string, depth: number, found: AccountName[] = []) {
  if (depth > MAX_GROUP_DEPTH) misfit();
  for (const item of items) {
    if (found.length >= MAX_ACCOUNTS) break;
    const { name, accounts, isOptional, optional } = membersOf(item);
    const own = prefix + demandName(name);
    if (own.length > MAX_PATH) misfit();
    if (Array.isArray(accounts)) accountsOf(accounts, `${own}_`, depth + 1, found);
    else found.push({ name: own, isOptional: isOptional === true || optional === true });
  }
  return found;
}

const MAX_PATH = 256;

// -------------------------------------------------------------------------------------------------------------------- types

/** What stands for a generic parameter: a type, or a count. */
interface Generics {
  /** Tells apart instances of one type. */
  readonly key: string;
  readonly reads: ReadonlyMap<string, ReadValue>;
  readonly counts: ReadonlyMap<string, number>;
}

const NO_GENERICS: Generics = { key: '', reads: new Map(), counts: new Map() };

interface Types {
  /** A struct of fields with names, or of types alone, which are numbered. */
  fields(items: readonly unknown[], generics: Generics, depth: number): ReadValue;
}

const MAX_TYPE_DEPTH = 32;
/** Instances of types that are kept compiled; a type that makes ever new ones of itself ends here. */
const MAX_COMPILED = 10_000;
const MAX_KEY = 2_048;

const u8 = number('u8')!;
const u32 = number('u32')!;

const SIMPLE: ReadonlyMap<string, ReadValue> = new Map([
  ['bool', bool()],
  ['string', prefixed(u32, restText('utf8'))],
  ['bytes', list(u32, u8)],
  ['pubkey', key],
  ['publicKey', key],
]);

function createTypes(idl: Members): Types {
  const compiled = new Map<string, ReadValue>();
  const pay = compileBudget();
  let definitions: Map<string, Members> | null = null;

  function definitionOf(name: string): Members {
    if (definitions === null) {
      definitions = new Map();
      // Before 0.30, accounts are types of their own.
      for (const item of [...listOf(idl['types']), ...listOf(idl['accounts'])])
        if (isPlainObject(item) && typeof item['name'] === 'string' && isPlainObject(item['type']))
          if (!definitions.has(item['name'])) definitions.set(item['name'], item);
    }
    return definitions.get(name) ?? misfit();
  }

  function typeOf(type: unknown, generics: Generics, depth: number): ReadValue {
    if (depth > MAX_TYPE_DEPTH) misfit();
    pay();
    if (typeof type === 'string') return SIMPLE.get(type) ?? number(type) ?? misfit();
    const members = membersOf(type);
    const inner = (item: unknown) => typeOf(item, generics, depth + 1);
    const [[kind, value] = misfit()] = Object.entries(members);
    switch (kind) {
      case 'vec':
        return list(u32, inner(value));
      case 'option':
        return option(u8, inner(value));
      case 'coption':
        return option(u32, inner(value));
      case 'array': {
        const [item, count] = listOf(value);
        return list(countOf(count, generics), inner(item));
      }
      case 'tuple':
        return fields(listOf(value), generics, depth + 1);
      case 'hashMap':
      case 'bTreeMap':
        return map(u32, inner(listOf(value)[0]), inner(listOf(value)[1]));
      case 'hashSet':
      case 'bTreeSet':
        return list(u32, inner(value));
      case 'generic':
        return generics.reads.get(textOf(value)) ?? misfit();
      case 'defined':
        return definedType(value, members['generics'], generics, depth);
      default:
        return misfit();
    }
  }

  function definedType(value: unknown, given: unknown, outer: Generics, depth: number): ReadValue {
    const { name, generics: own = given } = typeof value === 'string' ? { name: value } : membersOf(value);
    if (typeof name !== 'string') return misfit();
    const args = listOf(own);
    const id = `${name}${args.length === 0 ? '' : `${JSON.stringify(args)}${outer.key}`}`;
    if (id.length > MAX_KEY) misfit();
    const known = compiled.get(id);
    if (known !== undefined) return known;
    if (compiled.size >= MAX_COMPILED) misfit();
    const generics = args.length === 0 ? NO_GENERICS : genericsOf(definitionOf(name), args, outer, depth, id);
    // Types may contain themselves: this one is compiled when a value of it is first read.
    let read: ReadValue = (from) => {
      read = misfit;
      read = definition(membersOf(definitionOf(name)['type']), generics);
      return read(from);
    };
    const again: ReadValue = (from) => from.nested(read);
    compiled.set(id, again);
    return again;
  }

  function genericsOf(
    definition: Members,
    args: readonly unknown[],
    outer: Generics,
    depth: number,
    id: string,
  ): Generics {
    const reads = new Map<string, ReadValue>();
    const counts = new Map<string, number>();
    for (const [at, parameter] of listOf(definition['generics']).entries()) {
      const name = textOf(membersOf(parameter)['name']);
      const { kind, type, value } = membersOf(args[at]);
      if (kind === 'const') counts.set(name, countOf(typeof value === 'string' ? Number(value) : value, outer));
      else reads.set(name, typeOf(type, outer, depth + 1));
    }
    return { key: id, reads, counts };
  }

  function definition(type: Members, generics: Generics): ReadValue {
    switch (type['kind']) {
      case 'struct':
        return fields(listOf(type['fields']), generics, 0);
      case 'enum':
        return enumOf(listOf(type['variants']), generics);
      case 'type':
        return typeOf(type['alias'], generics, 0);
      case 'alias':
        return typeOf(type['value'], generics, 0);
      default:
        return misfit();
    }
  }

  /** Variants are compiled when they first occur. */
  function enumOf(items: readonly unknown[], generics: Generics): ReadValue {
    const known: (Variant | undefined)[] = [];
    return variants(u8, (tag) => {
      if (tag >= items.length) return undefined;
      known[tag] ??= variantOf(membersOf(items[tag]), generics);
      return known[tag];
    });
  }

  function variantOf({ name, fields: items }: Members, generics: Generics): Variant {
    const body = listOf(items);
    return { name: demandName(name), body: body.length === 0 ? null : fields(body, generics, 0) };
  }

  function fields(items: readonly unknown[], generics: Generics, depth: number): ReadValue {
    return struct(
      items.map((item, at): Field => {
        const isNamed = isPlainObject(item) && typeof item['name'] === 'string' && 'type' in item;
        return {
          name: isNamed ? demandName(item['name']) : String(at),
          read: typeOf(isNamed ? item['type'] : item, generics, depth + 1),
        };
      }),
    );
  }

  return { fields };
}

function countOf(count: unknown, { counts }: Generics): number {
  const found = isPlainObject(count) ? counts.get(textOf(count['generic'])) : count;
  return Number.isSafeInteger(found) && (found as number) >= 0 ? (found as number) : misfit();
}
