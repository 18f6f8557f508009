/** Plants one difference into an answer, and says what a comparison has to find. */
import { isPlainObject, parseVerbatim, stringify } from '../../src/lib/json.ts';

/** Spoils what the reference answers; the kind is that of the difference seen from here. */
export const PLANTS = [
  'missing-member',
  'extra-member',
  'missing-item',
  'extra-item',
  'order',
  'type',
  'null',
  'number',
  'precision',
  'text',
  'boolean',
  'slot',
  'they-refuse',
  'we-refuse',
  'error-code',
  'status',
  'not-json',
] as const;
export type Plant = (typeof PLANTS)[number];

export interface Planted {
  readonly text: string;
  /** HTTP status; absent: that of the answer. */
  readonly status?: number;
  readonly path: string;
}

interface Spot {
  readonly path: string;
  readonly value: unknown;
  set(value: unknown): void;
}

/** Methods whose lists of accounts have no order. */
const UNORDERED = /^get(?:ProgramAccounts|TokenAccounts)/;
/** Answers that move with every block, or are estimates: compared by their form. */
const MOVING = /^get(?:Slot|BlockHeight|EpochInfo|LatestBlockhash|PriorityFeeEstimate|Supply|Version|IndexerSlot)$/;

/** The answer with the difference; null: it has no place for one of this kind. `pick` chooses below a bound. */
export function plantDifference(
  text: string,
  plant: Plant,
  pick: (below: number) => number,
  method = '',
): Planted | null {
  const value = parseVerbatim(text) as Record<string, unknown>;
  const isError = isPlainObject(value['error']);
  if (plant === 'not-json') return { text: text.trimEnd().slice(0, -1), path: '' };
  if (plant === 'error-code') {
    if (!isError) return null;
    (value['error'] as Record<string, unknown>)['code'] = -31_999;
    return { text: stringify(value), path: 'error.code' };
  }
  if (plant === 'we-refuse') {
    if (!isError) return null;
    return { text: stringify({ jsonrpc: '2.0', id: value['id'], result: 'made up' }), path: 'error' };
  }
  if (isError) return null;
  if (plant === 'status') return { text, status: 203, path: '' };
  if (plant === 'they-refuse') {
    if (!('jsonrpc' in value)) return null;
    const error = { code: -31_998, message: 'made up' };
    return { text: stringify({ jsonrpc: '2.0', id: value['id'], error }), path: 'error' };
  }
  if (MOVING.test(method) || (plant === 'order' && UNORDERED.test(method))) return null;
  const spots = spotsOf(value, 'jsonrpc' in value, method).filter((spot) => FITS[plant](spot));
  const spot = spots[pick(spots.length)];
  if (spot === undefined) return null;
  return { path: SPOILERS[plant](spot, pick), text: stringify(value) };
}

type InnerPlant = Exclude<Plant, 'not-json' | 'status' | 'error-code' | 'we-refuse' | 'they-refuse'>;

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value);
const isSlot = (path: string): boolean => path.endsWith('context.slot');
/** Whoever changes one makes another item of it. */
const isIdentifier = (path: string): boolean =>
  /\[\]$|\[\]\.(?:signature|pubkey|hash|id|address|mint|account|name|tokenAccount)$/.test(path);
const isDistinct = (items: readonly unknown[]): boolean => new Set(items.map(stringify)).size === items.length;
const isMember = (path: string): boolean => path !== '' && path !== 'result' && !path.endsWith('[]');

const FITS: Readonly<Record<InnerPlant, (spot: Spot) => boolean>> = {
  'missing-member': ({ value }) => isPlainObject(value),
  'extra-member': ({ path, value }) => isMember(path) && value !== null && !isIdentifier(path) && !isSlot(path),
  'missing-item': ({ value }) => Array.isArray(value) && value.length > 0 && isDistinct(value),
  'extra-item': ({ value }) => Array.isArray(value) && value.length > 1 && isDistinct(value),
  order: ({ value }) => Array.isArray(value) && value.length > 1 && isDistinct(value),
  type: ({ path, value }) => isNumber(value) && !path.endsWith('[]'),
  null: ({ path, value }) => value !== null && isMember(path) && !isIdentifier(path),
  number: ({ path, value }) => isNumber(value) && !isSlot(path),
  precision: ({ value }) => typeof value === 'bigint',
  text: ({ path, value }) => typeof value === 'string' && !isIdentifier(path),
  boolean: ({ value }) => typeof value === 'boolean',
  slot: ({ path }) => isSlot(path),
};

const SPOILERS: Readonly<Record<InnerPlant, (spot: Spot, pick: (below: number) => number) => string>> = {
  'missing-member': ({ path, value }) => {
    (value as Record<string, unknown>)['madeUp'] = 7;
    return path === '' ? 'madeUp' : `${path}.madeUp`;
  },
  'extra-member': ({ path, set }) => {
    set(undefined);
    return path;
  },
  'missing-item': ({ path, value }, pick) => {
    const items = value as unknown[];
    items.splice(pick(items.length + 1), 0, madeUpItem(items[0]));
    return `${path}[]`;
  },
  'extra-item': ({ path, value }, pick) => {
    const items = value as unknown[];
    items.splice(pick(items.length), 1);
    return `${path}[]`;
  },
  order: ({ path, value }) => {
    const items = value as unknown[];
    items.push(items.shift());
    return path;
  },
  type: ({ path, value, set }) => {
    set(String(value));
    return path;
  },
  null: ({ path, set }) => {
    set(null);
    return path;
  },
  number: ({ path, value, set }) => {
    set((value as number) + 1);
    return path;
  },
  precision: ({ path, value, set }) => {
    set((value as bigint) - 1n);
    return path;
  },
  text: ({ path, value, set }) => {
    set(`${String(value)}x`);
    return path;
  },
  boolean: ({ path, value, set }) => {
    set(!value);
    return path;
  },
  slot: ({ path, value, set }) => {
    set(Number(value) + 1_000);
    return path;
  },
};

/** Another item of the same form. */
function madeUpItem(item: unknown): unknown {
  if (typeof item === 'string') return `${item}y`;
  if (typeof item === 'number') return item + 987_654;
  if (!isPlainObject(item)) return 'made up';
  return Object.fromEntries(
    Object.entries(item).map(([name, value]) => [name, typeof value === 'string' ? `${value}y` : value]),
  );
}

/** Not compared, or not by its value: the version of a node, how far a transaction is confirmed, how far an index is, and cursors. */
const LENIENT =
  /apiVersion|confirmationStatus|confirmations$|last_indexed_slot|mint_extensions|nextCursor|paginationToken|paginationKey|cursor$/;
/** What the documentation lists as different on purpose. */
const LISTED: readonly (readonly [method: RegExp, path: RegExp])[] = [
  [/\/v1\/wallet\//, /(?:pricePerToken|sdValue|name|category|type|tags)$/],
  [/\/v0\/(?:transactions|addresses)/, /(?:type|source|description)$/],
  [/token-metadata$/, /share$/],
];

const isLenient = (method: string, path: string): boolean =>
  LENIENT.test(path) || LISTED.some(([name, member]) => name.test(method) && member.test(path));

function spotsOf(value: Record<string, unknown>, isRpc: boolean, method: string): readonly Spot[] {
  const spots: Spot[] = [];
  const visit = (inner: unknown, path: string, set: Spot['set']) => {
    spots.push({ path, value: inner, set });
    if (Array.isArray(inner))
      for (const [at, item] of inner.entries())
        visit(item, `${path}[]`, (other) => {
          inner[at] = other;
        });
    else if (isPlainObject(inner))
      for (const [name, member] of Object.entries(inner))
        visit(member, path === '' ? name : `${path}.${name}`, (other) => {
          inner[name] = other;
        });
  };
  visit(value, '', () => undefined);
  return spots.filter(({ path }) => (!isRpc || /^result\b/.test(path)) && !isLenient(method, path));
}
