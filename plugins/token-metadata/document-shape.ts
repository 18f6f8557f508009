import { exceeds, isPlainObject, JsonNumber, parseVerbatim, stringify } from '../../src/lib/json.ts';

/** What is kept of the JSON that metadata points to: always this shape. `stringify` writes it. */
export interface OffChainDocument {
  /** The members that answers show, as the document has them; others are dropped. */
  readonly original: Readonly<Record<string, unknown>>;
  readonly name: string;
  readonly symbol: string;
  readonly description: string;
  readonly image: string;
  readonly attributes: readonly { readonly traitType: string; readonly value: string }[] | null;
  readonly sellerFeeBasisPoints: number | bigint;
  readonly properties: {
    readonly category: string | null;
    readonly creators: readonly { readonly address: string; readonly share: number | bigint }[] | null;
    readonly files: readonly { readonly uri: string; readonly type: string }[] | null;
  };
}

type Json = Readonly<Record<string, unknown>>;

/** Brings a JSON text into the fixed shape; null when it is no JSON object. A byte order mark is skipped. */
export function shapeDocument(text: string): OffChainDocument | null {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  // Numbers of other people are answered as they are. What is nested deeply is read for its texts alone.
  const isDeep = exceeds(Buffer.from(json), { depth: MAX_DEPTH });
  const value = parse(json, isDeep ? JSON.parse : parseVerbatim);
  if (!isObject(value)) return null;
  const properties = isObject(value['properties']) ? value['properties'] : {};
  return {
    original: isDeep ? {} : originalOf(value),
    name: textOrEmpty(value['name']),
    symbol: textOrEmpty(value['symbol']),
    description: textOrEmpty(value['description']),
    image: textOrEmpty(value['image']),
    attributes: mapList(value['attributes'], (item) => ({
      traitType: textOrEmpty(item['trait_type'] ?? item['traitType']),
      value: textOrEmpty(item['value']),
    })),
    sellerFeeBasisPoints: numberOf(value['seller_fee_basis_points'] ?? value['sellerFeeBasisPoints']),
    properties: {
      category: typeof properties['category'] === 'string' ? properties['category'] : null,
      creators: mapList(properties['creators'], (item) => ({
        address: textOrEmpty(item['address']),
        share: numberOf(item['share']),
      })),
      files: mapList(properties['files'], (item) => ({
        uri: textOrEmpty(item['uri']),
        type: textOrEmpty(item['type']),
      })),
    },
  };
}

const SHOWN = [
  'name',
  'symbol',
  'description',
  'image',
  'animation_url',
  'external_url',
  'attributes',
  'seller_fee_basis_points',
  'sellerFeeBasisPoints',
] as const;
const SHOWN_PROPERTIES = ['category', 'creators', 'files'] as const;

/** A document that is nested more deeply cannot be written as a part of every answer. */
const MAX_DEPTH = 256;

function originalOf(value: Json): Json {
  const members = pick(value, SHOWN);
  const properties = isObject(value['properties']) ? pick(value['properties'], SHOWN_PROPERTIES) : undefined;
  return properties === undefined ? members : { ...members, properties };
}

function pick(value: Json, names: readonly string[]): Json {
  return Object.fromEntries(names.filter((name) => value[name] !== undefined).map((name) => [name, value[name]]));
}

function parse(text: string, read: (text: string) => unknown): unknown {
  try {
    return read(text);
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is Json => isPlainObject(value) && !(value instanceof JsonNumber);

/** Null when it is no list; items that are no objects are left out. */
function mapList<T>(value: unknown, make: (item: Json) => T): readonly T[] | null {
  return Array.isArray(value) ? value.filter(isObject).map(make) : null;
}

/** Scalars as text; lists and objects as their JSON; nothing as an empty text. */
function textOrEmpty(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  if (typeof value !== 'object') return String(value);
  try {
    return stringify(value);
  } catch {
    // Nested more deeply than can be written.
    return '';
  }
}

/** A whole number; texts of digits count, everything else is 0. */
function numberOf(value: unknown): number | bigint {
  if (typeof value === 'bigint') return value;
  const isText = typeof value === 'string' || value instanceof JsonNumber;
  const text = isText ? String(value).trim() : '';
  const number = isText && text !== '' ? Number(text) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) return 0;
  const whole = /^-?\d+(?=$|\.)/.exec(text)?.[0];
  const isExact = Number.isSafeInteger(Math.trunc(number));
  return whole === undefined || isExact ? Math.trunc(number) + 0 : BigInt(whole);
}
