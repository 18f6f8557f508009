/** Interfaces of Anchor, before and since 0.30, and of Shank: types by name, accounts in groups, discriminators by hash or as given. */
import { createHash } from 'node:crypto';
import { byteList, isPlainObject } from '../../lib/json.ts';
import {
  type AccountName,
  type CallShape,
  demandName,
  type InterfaceParts,
  MAX_ACCOUNTS,
  MAX_INSTRUCTIONS,
  readProgramErrors,
  snakeName,
} from './interface.ts';
import {
  argumentList,
  bool,
  compileBudget,
  deferred,
  demandText,
  key,
  list,
  map,
  misfit,
  type NamedValue,
  number,
  option,
  prefixed,
  type ReadValue,
  restText,
  struct,
  UNREADABLE,
  type Variant,
  variants,
} from './read-values.ts';

type Members = Readonly<Record<string, unknown>>;

const listOrEmpty = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const membersOf = (value: unknown): Members => (isPlainObject(value) ? value : misfit());

export function readAnchor(idl: Members): InterfaceParts | null {
  const instructions = listOrEmpty(idl['instructions']);
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
    errors: () => readProgramErrors(listOrEmpty(idl['errors']), 'msg'),
    events: listOrEmpty(idl['events']),
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
    args: () => argumentList(types.fields(listOrEmpty(item['args']))),
    accounts: () => accountsOf(listOrEmpty(item['accounts']), '', 0),
    // Only Shank writes this member.
    omitsAccounts: item['legacyOptionalAccountsStrategy'] === true,
  };
}

/** Null for one that is malformed. */
function discriminatorOf(name: string, { discriminator, discriminant }: Members): Uint8Array | null {
  if (discriminator !== undefined) return bytesOf(discriminator);
  if (discriminant === undefined) {
    const snake = snakeName(name);
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
  /** Fields with names, or types alone, which are numbered. */
  fields(items: readonly unknown[]): readonly NamedValue[];
}

const MAX_TYPE_DEPTH = 32;
/** Instances of types that are kept compiled; a type that makes ever new ones of itself ends here. */
const MAX_COMPILED = 10_000;
const MAX_KEY = 2_048;
/** Characters of a key that cost as much as a node. */
const BYTES_A_NODE = 64;
/** Least characters of a value in JSON. */
const VALUE_CHARACTERS = 2;

const u8 = number('u8')!;
const u32 = number('u32')!;

const SIMPLE: ReadonlyMap<string, ReadValue> = new Map([
  ['bool', bool()],
  ['string', prefixed(u32, restText('utf8'))],
  ['bytes', list(u32, u8)],
  ['pubkey', key],
  ['publicKey', key],
]);

/** Generic arguments as JSON, which is not written further than a key may be long. */
function argumentTypes(args: readonly unknown[]): string {
  let left = MAX_KEY;
  return JSON.stringify(args, (name, value: unknown) => {
    left -= name.length + (typeof value === 'string' ? value.length : VALUE_CHARACTERS);
    return left < 0 ? misfit() : value;
  });
}

function createTypes(idl: Members): Types {
  const compiled = new Map<string, ReadValue>();
  const pay = compileBudget();
  let definitions: Map<string, Members> | null = null;

  function definitionOf(name: string): Members {
    if (definitions === null) {
      definitions = new Map();
      // Before 0.30, accounts are types of their own.
      for (const item of [...listOrEmpty(idl['types']), ...listOrEmpty(idl['accounts'])])
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
    const kinds = Object.keys(members);
    pay(kinds.length);
    const [kind = misfit()] = kinds;
    const value = members[kind];
    switch (kind) {
      case 'vec':
        return list(u32, inner(value));
      case 'option':
        return option(u8, inner(value));
      case 'coption':
        return option(u32, inner(value));
      case 'array': {
        const [item, count] = listOrEmpty(value);
        return list(countOf(count, generics), inner(item));
      }
      case 'tuple':
        return struct(fieldsOf(listOrEmpty(value), generics, depth + 1));
      case 'hashMap':
      case 'bTreeMap':
        return map(u32, inner(listOrEmpty(value)[0]), inner(listOrEmpty(value)[1]));
      case 'hashSet':
      case 'bTreeSet':
        return list(u32, inner(value));
      case 'genericLenArray': {
        // Anchor 0.29; later versions write `array` with a generic count.
        const [item, generic] = listOrEmpty(value);
        return list(countOf({ generic }, generics), inner(item));
      }
      case 'generic':
        return generics.reads.get(demandText(value)) ?? misfit();
      case 'definedWithTypeArgs': {
        const { name, args } = membersOf(value);
        return definedType({ name, generics: listOrEmpty(args).map(laterGeneric) }, undefined, generics, depth);
      }
      case 'defined':
        return definedType(value, members['generics'], generics, depth);
      default:
        return misfit();
    }
  }

  function definedType(value: unknown, given: unknown, outer: Generics, depth: number): ReadValue {
    const { name, generics: own = given } = typeof value === 'string' ? { name: value } : membersOf(value);
    if (typeof name !== 'string') return misfit();
    const args = listOrEmpty(own);
    const id = args.length === 0 ? name : `${name}${argumentTypes(args)}${outer.key}`;
    if (id.length > MAX_KEY) misfit();
    pay(Math.ceil(id.length / BYTES_A_NODE));
    const known = compiled.get(id);
    if (known !== undefined) return known;
    if (compiled.size >= MAX_COMPILED) misfit();
    const generics = args.length === 0 ? NO_GENERICS : genericsOf(definitionOf(name), args, outer, depth, id);
    const type = deferred(() => definition(membersOf(definitionOf(name)['type']), generics));
    compiled.set(id, type);
    return type;
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
    for (const [at, parameter] of listOrEmpty(definition['generics']).entries()) {
      // Anchor 0.29 has names alone.
      const name = demandText(typeof parameter === 'string' ? parameter : membersOf(parameter)['name']);
      const { kind, type, value, generic } = membersOf(args[at]);
      if (typeof generic === 'string' && outer.counts.has(generic)) counts.set(name, outer.counts.get(generic)!);
      else if (kind === 'const') counts.set(name, countOf(typeof value === 'string' ? Number(value) : value, outer));
      else reads.set(name, typeOf(type, outer, depth + 1));
    }
    return { key: id, reads, counts };
  }

  function definition(type: Members, generics: Generics): ReadValue {
    switch (type['kind']) {
      case 'struct':
        return struct(fieldsOf(listOrEmpty(type['fields']), generics, 0));
      case 'enum':
        return enumOf(listOrEmpty(type['variants']), generics);
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
      if (known[tag] === undefined) {
        // One that does not compile is not tried again.
        known[tag] = UNREADABLE;
        known[tag] = variantOf(membersOf(items[tag]), generics);
      }
      return known[tag];
    });
  }

  function variantOf({ name, fields: items }: Members, generics: Generics): Variant {
    const body = listOrEmpty(items);
    return { name: demandName(name), body: body.length === 0 ? null : struct(fieldsOf(body, generics, 0)) };
  }

  const fieldsOf = (items: readonly unknown[], generics: Generics, depth: number): readonly NamedValue[] =>
    items.map((item, at): NamedValue => {
      const isNamed = isPlainObject(item) && typeof item['name'] === 'string' && 'type' in item;
      return {
        name: isNamed ? demandName(item['name']) : String(at),
        read: typeOf(isNamed ? item['type'] : item, generics, depth + 1),
      };
    });

  return { fields: (items) => fieldsOf(items, NO_GENERICS, 0) };
}

/** An argument for a generic parameter as Anchor 0.29 writes it, `{type}`, `{value}` or `{generic}`, in the form of later versions. */
function laterGeneric(arg: unknown): Members {
  const { type, value, generic } = membersOf(arg);
  if (value !== undefined) return { kind: 'const', value };
  return generic === undefined ? { kind: 'type', type } : { kind: 'type', type: { generic }, generic };
}

function countOf(count: unknown, { counts }: Generics): number {
  const found = isPlainObject(count) ? counts.get(demandText(count['generic'])) : count;
  return Number.isSafeInteger(found) && (found as number) >= 0 ? (found as number) : misfit();
}
