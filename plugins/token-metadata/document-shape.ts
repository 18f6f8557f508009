/** What is kept of the JSON that metadata points to: always this shape. */
export interface OffChainDocument {
  /** The members that answers show, as the document has them; others are dropped. */
  readonly original: Readonly<Record<string, unknown>>;
  readonly name: string;
  readonly symbol: string;
  readonly description: string;
  readonly image: string;
  readonly attributes: readonly { readonly traitType: string; readonly value: string }[] | null;
  readonly sellerFeeBasisPoints: number;
  readonly properties: {
    readonly category: string | null;
    readonly creators: readonly { readonly address: string; readonly share: number }[] | null;
    readonly files: readonly { readonly uri: string; readonly type: string }[] | null;
  };
}

type Json = Readonly<Record<string, unknown>>;

/** Brings a JSON text into the fixed shape; null when it is no JSON object. A byte order mark is skipped. */
export function shapeDocument(text: string): OffChainDocument | null {
  const value = parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  if (!isObject(value)) return null;
  const properties = isObject(value['properties']) ? value['properties'] : {};
  return {
    original: originalOf(value),
    name: textOf(value['name']),
    symbol: textOf(value['symbol']),
    description: textOf(value['description']),
    image: textOf(value['image']),
    attributes: listOf(value['attributes'], (item) => ({
      traitType: textOf(item['trait_type'] ?? item['traitType']),
      value: textOf(item['value']),
    })),
    sellerFeeBasisPoints: numberOf(value['seller_fee_basis_points'] ?? value['sellerFeeBasisPoints']),
    properties: {
      category: typeof properties['category'] === 'string' ? properties['category'] : null,
      creators: listOf(properties['creators'], (item) => ({
        address: textOf(item['address']),
        share: numberOf(item['share']),
      })),
      files: listOf(properties['files'], (item) => ({ uri: textOf(item['uri']), type: textOf(item['type']) })),
    },
  };
}

const SHOWN = [
  ...['name', 'symbol', 'description', 'image', 'animation_url', 'external_url', 'attributes'],
  ...['seller_fee_basis_points', 'sellerFeeBasisPoints'],
] as const;
const SHOWN_PROPERTIES = ['category', 'creators', 'files'] as const;

/** Empty when the document is nested more deeply than can be written. */
function originalOf(value: Json): Json {
  const members = pick(value, SHOWN);
  const properties = isObject(value['properties']) ? pick(value['properties'], SHOWN_PROPERTIES) : undefined;
  const original = properties === undefined ? members : { ...members, properties };
  try {
    JSON.stringify(original);
    return original;
  } catch {
    return {};
  }
}

function pick(value: Json, names: readonly string[]): Json {
  return Object.fromEntries(names.filter((name) => value[name] !== undefined).map((name) => [name, value[name]]));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Null when it is no list; items that are no objects are left out. */
function listOf<T>(value: unknown, make: (item: Json) => T): readonly T[] | null {
  return Array.isArray(value) ? value.filter(isObject).map(make) : null;
}

/** Scalars as text; lists and objects as their JSON; nothing as an empty text. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  if (typeof value !== 'object') return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    // Nested more deeply than can be written.
    return '';
  }
}

/** A whole number; texts of digits count, everything else is 0. */
function numberOf(value: unknown): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? Math.trunc(number) + 0 : 0;
}
