/** Interfaces of Codama: a tree of nodes that spells out sizes, byte orders and prefixes. */
import { decode } from '../../lib/base58.ts';
import { isPlainObject } from '../../lib/json.ts';
import { lazy } from '../../lib/lazy.ts';
import {
  type AccountName,
  type CallShape,
  demandName,
  type InterfaceParts,
  MAX_ACCOUNTS,
  MAX_INSTRUCTIONS,
  readProgramErrors,
} from './interface.ts';
import {
  argumentList,
  between,
  bool,
  compileBudget,
  deferred,
  demandText,
  key,
  type ListCount,
  list,
  map,
  misfit,
  moved,
  type NamedValue,
  number,
  option,
  prefixed,
  type ReadValue,
  restBytes,
  restOption,
  restText,
  sized,
  struct,
  UNREADABLE,
  untilSentinel,
  type Variant,
  variants,
  zeroableOption,
} from './read-values.ts';

type Node = Readonly<Record<string, unknown>>;

const listOrEmpty = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const nodeOf = (value: unknown): Node => (isPlainObject(value) ? value : misfit());

/** `root`: a `rootNode` or a `programNode`. */
export function readCodama(root: Node): InterfaceParts | null {
  const program = root['kind'] === 'rootNode' ? root['program'] : root;
  if (!isPlainObject(program)) return null;
  const instructions = listOrEmpty(program['instructions']);
  if (instructions.length > MAX_INSTRUCTIONS) return null;
  const others = listOrEmpty(root['additionalPrograms']).filter(isPlainObject);
  const types = new TypeCompiler(program, others);
  return {
    name: program['name'],
    address: program['publicKey'],
    calls: instructions.flatMap((item) => {
      const call = isPlainObject(item) ? callOf(item, types) : null;
      return call === null ? [] : [call];
    }),
    errors: () => readProgramErrors(listOrEmpty(program['errors']), 'message'),
    events: listOrEmpty(program['events']),
  };
}

/** Public interfaces have one or two. */
const MAX_DISCRIMINATORS = 16;

function callOf(item: Node, types: TypeCompiler): CallShape | null {
  const args = listOrEmpty(item['arguments']).filter(isPlainObject);
  const byName = new Map(args.toReversed().map((argument) => [argument['name'], argument]));
  const discriminators = listOrEmpty(item['discriminators']);
  if (discriminators.length > MAX_DISCRIMINATORS) return null;
  const conditions: { offset: number; bytes: Uint8Array }[] = [];
  let size: number | null = null;
  for (const node of discriminators) {
    if (!isPlainObject(node)) return null;
    const { offset = 0 } = node;
    if (node['kind'] === 'sizeDiscriminatorNode') {
      if (!Number.isSafeInteger(node['size'])) return null;
      size = node['size'] as number;
      continue;
    }
    const argument = byName.get(node['name']);
    const constant = isPlainObject(node['constant']) ? node['constant'] : {};
    const bytes =
      node['kind'] === 'fieldDiscriminatorNode'
        ? constantBytes(argument?.['type'], argument?.['defaultValue'])
        : constantBytes(constant['type'], constant['value']);
    if (bytes === null || !Number.isSafeInteger(offset) || (offset as number) < 0) return null;
    conditions.push({ offset: offset as number, bytes });
  }
  if (typeof item['name'] !== 'string') return null;
  return {
    name: item['name'],
    conditions,
    size,
    argsAt: 0,
    args: () =>
      argumentList(
        args.map(
          ({ name, type, defaultValueStrategy }): NamedValue => ({
            name: demandName(name),
            read: types.read(type),
            isHidden: defaultValueStrategy === 'omitted',
          }),
        ),
      ),
    accounts: () => accountsOf(listOrEmpty(item['accounts'])),
    omitsAccounts: item['optionalAccountStrategy'] === 'omitted',
  };
}

const accountsOf = (items: readonly unknown[]): AccountName[] =>
  items.slice(0, MAX_ACCOUNTS).map((item) => {
    const { name, isOptional } = nodeOf(item);
    return { name: demandName(name), isOptional: isOptional === true };
  });

const MAX_CONSTANT = 64;

/** The bytes of a value in its type; null for values that are not understood. */
function constantBytes(type: unknown, value: unknown): Uint8Array | null {
  if (!isPlainObject(type) || !isPlainObject(value)) return null;
  if (value['kind'] === 'bytesValueNode' || value['kind'] === 'stringValueNode') {
    const data = value['data'] ?? value['string'];
    if (typeof data !== 'string' || data.length > MAX_CONSTANT * 4) return null;
    return textBytes(data, value['kind'] === 'stringValueNode' ? 'utf8' : value['encoding']);
  }
  if (value['kind'] === 'publicKeyValueNode') return decode(demandText(value['publicKey']).slice(0, 44));
  if (value['kind'] === 'arrayValueNode') {
    const items = listOrEmpty(value['items']);
    if (items.length > MAX_CONSTANT) return null;
    const parts = items.map((item) => constantBytes(type['item'], item));
    return parts.includes(null) ? null : Buffer.concat(parts as Uint8Array[]);
  }
  const plain = type['kind'] === 'booleanTypeNode' ? (type['size'] as Node | undefined) : type;
  const given = value['kind'] === 'booleanValueNode' ? Number(value['boolean'] === true) : value['number'];
  if (!isPlainObject(plain) || !Number.isSafeInteger(given)) return null;
  const bits = /^[ui](8|16|32|64|128)$/.exec(demandText(plain['format']))?.[1];
  if (bits === undefined) return null;
  const bytes = new Uint8Array(Number(bits) / 8);
  let rest = BigInt.asUintN(bytes.length * 8, BigInt(given as number));
  for (let at = 0; at < bytes.length; at++, rest >>= 8n) bytes[at] = Number(rest & 0xffn);
  return plain['endian'] === 'be' ? bytes.reverse() : bytes;
}

function textBytes(text: string, encoding: unknown): Uint8Array | null {
  if (encoding === 'base58') return decode(text);
  if (encoding === 'base16') return Uint8Array.from(Buffer.from(text, 'hex'));
  if (encoding === 'base64') return Uint8Array.from(Buffer.from(text, 'base64'));
  return encoding === 'utf8' ? Uint8Array.from(Buffer.from(text, 'utf8')) : null;
}

const constantOf = (node: unknown): Uint8Array => {
  const { type, value } = nodeOf(node);
  return constantBytes(type, value) ?? misfit();
};

// -------------------------------------------------------------------------------------------------------------------- types

const MAX_TYPE_DEPTH = 32;
const NOTHING = new Uint8Array(0);

/** Compiles the types of a program, and of the others that it links to. A type that is linked is compiled once, when it is first read. */
class TypeCompiler {
  private readonly program: Node;
  /** Programs that links may lead to. */
  private readonly others: readonly Node[];
  private readonly compiled = new Map<string, ReadValue>();
  private readonly definitions = new Map<Node, Map<string, unknown>>();
  private readonly pay = compileBudget();
  /** Programs by name, the first of each. */
  private readonly homes: () => ReadonlyMap<unknown, Node>;
  private readonly places = lazy(() => new Map(this.others.map((one, at) => [one, at])));

  constructor(program: Node, others: readonly Node[]) {
    this.program = program;
    this.others = others;
    this.homes = lazy(() => {
      const byName = new Map<unknown, Node>();
      for (const one of [program, ...others]) if (!byName.has(one['name'])) byName.set(one['name'], one);
      return byName;
    });
  }

  private definitionOf(owner: Node, name: string): unknown {
    let own = this.definitions.get(owner);
    if (own === undefined) {
      own = new Map();
      for (const item of listOrEmpty(owner['definedTypes']))
        if (isPlainObject(item) && typeof item['name'] === 'string') own.set(item['name'], item['type']);
      this.definitions.set(owner, own);
    }
    return own.get(name);
  }

  /** What a link leads to: a type of the program with the link, or of the one that it names. */
  private target({ name, program: owner }: Node, home: Node): { readonly home: Node; readonly name: string } {
    if (!isPlainObject(owner)) return { home, name: demandText(name) };
    return { home: this.homes().get(demandText(owner['name'])) ?? misfit(), name: demandText(name) };
  }

  private link(node: Node, from: Node): ReadValue {
    const { home, name } = this.target(node, from);
    const id = `${this.places().get(home) ?? -1}/${name}`;
    const known = this.compiled.get(id);
    if (known !== undefined) return known;
    const type = deferred(() => this.compile(this.definitionOf(home, name), 0, home));
    this.compiled.set(id, type);
    return type;
  }

  private compile(type: unknown, depth: number, home: Node): ReadValue {
    if (depth > MAX_TYPE_DEPTH) misfit();
    this.pay();
    const node = nodeOf(type);
    const inner = (item: unknown) => this.compile(item, depth + 1, home);
    const { item, prefix } = node;
    switch (node['kind']) {
      case 'numberTypeNode':
        return numberOf(node);
      case 'amountTypeNode':
      case 'solAmountTypeNode':
      case 'dateTimeTypeNode':
        return inner(node['number']);
      case 'booleanTypeNode':
        return bool(node['size'] === undefined ? number('u8') : inner(node['size']));
      case 'publicKeyTypeNode':
        return key;
      case 'stringTypeNode':
        return restText(demandText(node['encoding'] ?? 'utf8'));
      case 'bytesTypeNode':
        return restBytes;
      case 'definedTypeLinkNode':
        return this.link(node, home);
      case 'structTypeNode':
        return this.fieldsOf(listOrEmpty(node['fields']), depth, home);
      case 'tupleTypeNode':
        return struct(listOrEmpty(node['items']).map((one, at) => ({ name: String(at), read: inner(one) })));
      case 'enumTypeNode':
        return this.enumOf(node, home);
      case 'optionTypeNode': {
        const size = node['fixed'] === true ? this.fixedSize(item, 0, home) : 0;
        return option(prefix === undefined ? number('u8')! : inner(prefix), inner(item), size);
      }
      case 'remainderOptionTypeNode':
        return restOption(inner(item));
      case 'zeroableOptionTypeNode':
        return zeroableOption(inner(item), node['zeroValue'] === undefined ? null : constantOf(node['zeroValue']));
      case 'arrayTypeNode':
      case 'setTypeNode':
        return list(this.countOf(node['count'], depth, home), inner(item));
      case 'mapTypeNode':
        return map(this.countOf(node['count'], depth, home), inner(node['key']), inner(node['value']));
      case 'fixedSizeTypeNode':
        return sized(sizeOf(node['size']), inner(node['type']));
      case 'sizePrefixTypeNode':
        return prefixed(inner(prefix), inner(node['type']));
      case 'sentinelTypeNode':
        return untilSentinel(constantOf(node['sentinel']), inner(node['type']));
      case 'hiddenPrefixTypeNode':
        return between(constantsOf(prefix), inner(node['type']), NOTHING);
      case 'hiddenSuffixTypeNode':
        return between(NOTHING, inner(node['type']), constantsOf(node['suffix']));
      case 'preOffsetTypeNode':
      case 'postOffsetTypeNode':
        return offsetOf(node, inner(node['type']));
      default:
        return misfit();
    }
  }

  private fieldsOf(items: readonly unknown[], depth: number, home: Node): ReadValue {
    return struct(
      items.map((field): NamedValue => {
        const { name, type, defaultValueStrategy } = nodeOf(field);
        return {
          name: demandName(name),
          read: this.compile(type, depth + 1, home),
          isHidden: defaultValueStrategy === 'omitted',
        };
      }),
    );
  }

  /** Variants are compiled when they first occur. */
  private enumOf(node: Node, home: Node): ReadValue {
    const items = listOrEmpty(node['variants']);
    this.pay(items.length);
    const tags = new Map<number, number>();
    let tag = 0;
    for (const [at, item] of items.entries()) {
      const own = isPlainObject(item) ? item['discriminator'] : undefined;
      if (Number.isSafeInteger(own)) tag = own as number;
      tags.set(tag++, at);
    }
    const known: (Variant | undefined)[] = [];
    return variants(node['size'] === undefined ? number('u8')! : this.compile(node['size'], 0, home), (found) => {
      const at = tags.get(found);
      if (at === undefined) return undefined;
      if (known[at] === undefined) {
        // One that does not compile is not tried again.
        known[at] = UNREADABLE;
        known[at] = this.variantOf(nodeOf(items[at]), home);
      }
      return known[at];
    });
  }

  private variantOf(node: Node, home: Node): Variant {
    const body =
      node['kind'] === 'enumEmptyVariantTypeNode' ? null : this.compile(node['struct'] ?? node['tuple'], 0, home);
    return { name: demandName(node['name']), body };
  }

  private countOf(node: unknown, depth: number, home: Node): ListCount {
    const count = nodeOf(node);
    if (count['kind'] === 'remainderCountNode') return 'rest';
    if (count['kind'] === 'prefixedCountNode') return this.compile(count['prefix'], depth + 1, home);
    return sizeOf(count['value']);
  }

  /** Bytes of a type that always has as many. */
  private fixedSize(type: unknown, depth: number, home: Node): number {
    if (depth > MAX_TYPE_DEPTH) misfit();
    // Links make a tree of exponential size out of a short text.
    this.pay();
    const node = nodeOf(type);
    const inner = (one: unknown) => this.fixedSize(one, depth + 1, home);
    const sum = (items: readonly unknown[]) => items.reduce<number>((size, one) => size + inner(one), 0);
    switch (node['kind']) {
      case 'numberTypeNode': {
        const bits = /^[uif](8|16|32|64|128)$/.exec(demandText(node['format']))?.[1];
        return bits === undefined ? misfit() : Number(bits) / 8;
      }
      case 'booleanTypeNode':
        return node['size'] === undefined ? 1 : inner(node['size']);
      case 'amountTypeNode':
      case 'solAmountTypeNode':
      case 'dateTimeTypeNode':
        return inner(node['number']);
      case 'publicKeyTypeNode':
        return 32;
      case 'fixedSizeTypeNode':
        return sizeOf(node['size']);
      case 'structTypeNode':
        return sum(listOrEmpty(node['fields']).map((field) => nodeOf(field)['type']));
      case 'tupleTypeNode':
        return sum(listOrEmpty(node['items']));
      case 'definedTypeLinkNode': {
        const linked = this.target(node, home);
        return this.fixedSize(this.definitionOf(linked.home, linked.name), depth + 1, linked.home);
      }
      case 'arrayTypeNode':
        return sizeOf(nodeOf(node['count'])['value']) * inner(node['item']);
      default:
        return misfit();
    }
  }

  /** A type of the program. */
  read(type: unknown): ReadValue {
    return this.compile(type, 0, this.program);
  }
}

const numberOf = ({ format, endian }: Node): ReadValue => number(demandText(format), endian === 'be') ?? misfit();

const sizeOf = (size: unknown): number =>
  Number.isSafeInteger(size) && (size as number) >= 0 ? (size as number) : misfit();

const constantsOf = (nodes: unknown): Uint8Array => {
  const parts = listOrEmpty(nodes);
  return parts.length > MAX_CONSTANT ? misfit() : Buffer.concat(parts.map(constantOf));
};

function offsetOf({ kind, offset, strategy }: Node, item: ReadValue): ReadValue {
  if (!Number.isSafeInteger(offset)) return misfit();
  const how = strategy === 'absolute' || strategy === 'preOffset' ? strategy : 'relative';
  return moved(item, kind === 'preOffsetTypeNode' ? 'before' : 'after', how, offset as number);
}
