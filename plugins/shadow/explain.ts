/** Says why an answer may differ without being wrong: lag, another dialect, or a difference that the documentation lists. */
import { isDeepStrictEqual } from 'node:util';
import { isPlainObject } from '../../src/lib/json.ts';
import type { Difference, DifferenceKind, ReadAnswer } from './compare.ts';

/**
 * Empty: unexplained. `lag`: one of the two saw a later slot. `dialect`: the same in other words. `unavailable`: one side had no answer at
 * that time. Others are in `KNOWN`.
 */
export type Reason = string;

interface KnownDifference {
  readonly reason: string;
  /** Matches the JSON-RPC method or route. */
  readonly method: RegExp;
  fits(difference: Difference): boolean;
}

const hasCode = (value: unknown, code: number): boolean => isPlainObject(value) && value['code'] === code;

/** Intentional differences, as listed in docs/how-to/from-hosted.md; `reason` is the row. */
const KNOWN: readonly KnownDifference[] = [
  {
    reason: 'known: our JSON-RPC codes are -32001 and -32005',
    method: /./,
    fits: ({ kind, ours, theirs }) =>
      kind === 'error-code' && ((ours === -32_001 && theirs === -32_401) || (ours === -32_005 && theirs === -32_429)),
  },
  {
    reason: 'known: an unknown path is 404 here',
    method: /^(?:GET|POST) /,
    fits: ({ kind, ours, theirs }) => kind === 'error-code' && ours === 404 && theirs === 400,
  },
  {
    reason: 'known: the first call for an address starts its index',
    method: /^getTransactionsForAddress$|^getTransfersByAddress$|^(?:GET|POST) \/v1\/wallet\/|^(?:GET|POST) \/v0\//,
    fits: ({ kind, ours }) => kind === 'we-refuse' && (hasCode(ours, 503) || hasCode(ours, -32_002)),
  },
  {
    reason: 'known: share is a text here (token-metadata.shareAsNumber)',
    method: /token-metadata$/,
    fits: ({ kind, path }) => kind === 'type' && path.endsWith('.share'),
  },
  {
    reason: 'known: identities and prices come from the sources of the operator',
    method: /^(?:GET|POST) \/v1\/wallet\//,
    fits: ({ path }) => /(?:^|\.|\[\]\.)(?:pricePerToken|usdValue|totalUsdValue|name|category|type|tags)$/.test(path),
  },
  {
    reason: 'known: lists of assets need an index that an upstream has',
    method: /^(?:getAssetsBy|searchAssets|getNftEditions)/,
    fits: ({ kind, ours }) => kind === 'we-refuse' && (hasCode(ours, -32_601) || hasCode(ours, -32_602)),
  },
  {
    reason: 'known: the mark of transactions without a parser',
    method: /\/v0\/(?:transactions|addresses)/,
    fits: ({ path, ours }) =>
      /(?:^|\.|\])\.?(?:type|source|description)$/.test(path) && (ours === 'UNKNOWN' || ours === ''),
  },
];

/** Kinds that a later slot can cause; the form of an answer does not change with it. */
const MOVING: ReadonlySet<DifferenceKind> = new Set([
  'we-refuse',
  'they-refuse',
  'missing-item',
  'extra-item',
  'order',
  'null',
  'number',
  'precision',
  'text',
  'boolean',
]);

/** Methods whose answers never change once given: a later slot explains only that one side has none yet. */
const STABLE = /^(?:getBlock|getTransaction|getGenesisHash|getBlockTime|getInflationReward)$/;

/** Statuses and codes that say that the daemon has no answer now: nothing is wrong in it, and clients ask again. */
const UNAVAILABLE: ReadonlySet<unknown> = new Set([429, 503, 504, -32_002, -32_003, -32_005]);

const isUnavailable = ({ kind, ours }: Difference): boolean => {
  if (kind === 'error-code') return UNAVAILABLE.has(ours);
  return kind === 'we-refuse' && isPlainObject(ours) && UNAVAILABLE.has(ours['code']);
};

const isLate = (section: unknown): boolean => isPlainObject(section) && section['error'] === 'TIMEOUT';

/**
 * A section of token metadata that says on one side that it was not read in time; its other members are empty then. A path does not say of
 * which token it is: that section has to be equal for all tokens that have it on both sides.
 */
function isLateSection(method: string, { path }: Difference, ours: ReadAnswer, theirs: ReadAnswer): boolean {
  const section = /^\[\]\.(\w+)\./.exec(path)?.[1];
  if (method !== 'POST /v0/token-metadata' || section === undefined) return false;
  const [one, other] = [sectionsOf(ours, section), sectionsOf(theirs, section)];
  if (one.length !== other.length) return false;
  const late = one.map((part, at) => isLate(part) || isLate(other[at]));
  return late.includes(true) && late.every((is, at) => is || isDeepStrictEqual(one[at], other[at]));
}

const sectionsOf = ({ value }: ReadAnswer, section: string): readonly unknown[] =>
  Array.isArray(value) ? value.map((item) => (isPlainObject(item) ? item[section] : undefined)) : [];

/** The explanation of a difference. */
export function explain(method: string, difference: Difference, ours: ReadAnswer, theirs: ReadAnswer): Reason {
  if (difference.kind === 'error-text') return 'dialect';
  if (isAbsence(difference)) return 'dialect';
  const known = KNOWN.find((one) => one.method.test(method) && one.fits(difference));
  if (known !== undefined) return known.reason;
  if (isUnavailable(difference) || isLateSection(method, difference, ours, theirs)) return 'unavailable';
  return isLag(method, difference, ours, theirs) ? 'lag' : '';
}

/** A member that is null on one side and absent on the other. */
function isAbsence({ kind, ours, theirs }: Difference): boolean {
  return (kind === 'missing-member' && theirs === null) || (kind === 'extra-member' && ours === null);
}

function isLag(method: string, difference: Difference, ours: ReadAnswer, theirs: ReadAnswer): boolean {
  const { kind, path } = difference;
  if (STABLE.test(method)) return kind === 'null' && path === 'result';
  const [ourSlot, theirSlot] = [slotOf(ours), slotOf(theirs)];
  if (ourSlot === null || theirSlot === null || ourSlot === theirSlot) return false;
  return MOVING.has(kind);
}

/** The slot that an answer says it is as of; null: it says none. */
function slotOf({ value }: ReadAnswer): number | null {
  const result = isPlainObject(value) && 'result' in value ? value['result'] : value;
  if (!isPlainObject(result)) return null;
  const context = result['context'];
  const slot = isPlainObject(context) ? context['slot'] : result['last_indexed_slot'];
  return typeof slot === 'number' ? slot : null;
}
