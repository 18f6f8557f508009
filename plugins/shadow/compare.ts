/**
 * Finds how two answers to one request differ. Numbers are compared by their exact decimal value, also beyond 2^53; arrays item by item, by
 * the member that identifies an item where there is one. Paths name array items `[]`: `result.value[].pubkey`.
 */
import { isPlainObject, JsonNumber, parseVerbatim, stringify } from '../../src/lib/json.ts';
import { matchesPattern, type Rules } from './rules.ts';

/**
 * What differs. `we-refuse`: an error here, an answer there; `they-refuse`: the reverse. `missing-…`: only the reference has it;
 * `extra-…`: only we have it. `precision`: two integers or decimals that one double stands for. `slot`: farther apart than allowed.
 */
const DIFFERENCE_KINDS = [
  'we-refuse',
  'they-refuse',
  'status',
  'error-code',
  'error-text',
  'not-json',
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
] as const;
export type DifferenceKind = (typeof DIFFERENCE_KINDS)[number];

export interface Difference {
  readonly path: string;
  readonly kind: DifferenceKind;
  /** The value here; undefined: absent. */
  readonly ours: unknown;
  readonly theirs: unknown;
}

export interface AnswerText {
  /** HTTP status. */
  readonly status: number;
  readonly text: string;
}

/** An answer whose text is parsed; `value` is undefined if the text is no JSON. */
export interface ReadAnswer {
  readonly status: number;
  readonly value: unknown;
}

/** Differences that are reported of one answer; the first ones say enough. */
const MAX_DIFFERENCES = 50;
const SHOWN_LETTERS = 200;

export function readAnswer({ status, text }: AnswerText): ReadAnswer {
  try {
    return { status, value: parseVerbatim(text) };
  } catch {
    return { status, value: undefined };
  }
}

/** The differences of two answers, at most `MAX_DIFFERENCES`; none: they are equal in the normal form of the method. */
export function compareAnswers(
  ours: ReadAnswer,
  theirs: ReadAnswer,
  rules: Rules,
  maxSlotDistance: number,
): readonly Difference[] {
  const comparison = new Comparison(rules, maxSlotDistance);
  comparison.answers(ours, theirs);
  return comparison.found;
}

/** The error that an answer is; null: it is a result. */
export function errorOf({ status, value }: ReadAnswer): { readonly code: number; readonly text: string } | null {
  const error = isPlainObject(value) ? value['error'] : undefined;
  if (isPlainObject(error) && typeof error['code'] === 'number')
    return { code: error['code'], text: String(error['message'] ?? '') };
  if (status < 400) return null;
  const message = isPlainObject(value) ? (value['message'] ?? error) : value;
  return { code: status, text: typeof message === 'string' ? message : '' };
}

/** A short text of a value for lists and reports. */
export function shownValue(value: unknown): string {
  if (value === undefined) return '(absent)';
  const text = stringify(value);
  return text.length <= SHOWN_LETTERS ? text : `${text.slice(0, SHOWN_LETTERS)}…`;
}

class Comparison {
  readonly found: Difference[] = [];
  readonly #rules: Rules;
  readonly #maxSlotDistance: number;

  constructor(rules: Rules, maxSlotDistance: number) {
    this.#rules = rules;
    this.#maxSlotDistance = maxSlotDistance;
  }

  answers(ours: ReadAnswer, theirs: ReadAnswer): void {
    if (ours.value === undefined || theirs.value === undefined) {
      if (ours.value !== theirs.value) this.#add('', 'not-json', ours.value, theirs.value);
      return;
    }
    const [ourError, theirError] = [errorOf(ours), errorOf(theirs)];
    if (ourError !== null && theirError === null) this.#add('error', 'we-refuse', ourError, undefined);
    else if (ourError === null && theirError !== null) this.#add('error', 'they-refuse', undefined, theirError);
    else if (ourError !== null && theirError !== null) {
      if (ourError.code !== theirError.code) this.#add('error.code', 'error-code', ourError.code, theirError.code);
      if (ourError.text !== theirError.text) this.#add('error.message', 'error-text', ourError.text, theirError.text);
    } else {
      if (ours.status !== theirs.status) this.#add('', 'status', ours.status, theirs.status);
      this.#values(withoutEnvelope(ours.value), withoutEnvelope(theirs.value), '');
    }
  }

  #add(path: string, kind: DifferenceKind, ours: unknown, theirs: unknown): void {
    if (this.found.length < MAX_DIFFERENCES) this.found.push({ path, kind, ours, theirs });
  }

  #values(ours: unknown, theirs: unknown, path: string): void {
    if (this.found.length >= MAX_DIFFERENCES || matchesPattern(this.#rules.ignored, path)) return;
    const [ourType, theirType] = [typeOf(ours), typeOf(theirs)];
    if (ourType !== theirType) {
      const kind = ourType === 'null' || theirType === 'null' ? 'null' : 'type';
      this.#add(path, kind, ours, theirs);
      return;
    }
    if (ourType === 'object') this.#members(ours as Members, theirs as Members, path);
    else if (matchesPattern(this.#rules.shapeOnly, path)) return;
    else if (ourType === 'array') this.#arrays(ours as unknown[], theirs as unknown[], path);
    else if (ourType === 'number') this.#numbers(ours as JsonNumeric, theirs as JsonNumeric, path);
    else if (ours !== theirs) this.#add(path, ourType === 'boolean' ? 'boolean' : 'text', ours, theirs);
  }

  #members(ours: Members, theirs: Members, path: string): void {
    for (const name of Object.keys(theirs)) {
      const inner = path === '' ? name : `${path}.${name}`;
      if (Object.hasOwn(ours, name)) this.#values(ours[name], theirs[name], inner);
      else if (!this.#isOneSided(inner)) this.#add(inner, 'missing-member', undefined, theirs[name]);
    }
    for (const name of Object.keys(ours)) {
      if (Object.hasOwn(theirs, name)) continue;
      const inner = path === '' ? name : `${path}.${name}`;
      if (!this.#isOneSided(inner)) this.#add(inner, 'extra-member', ours[name], undefined);
    }
  }

  #isOneSided(path: string): boolean {
    return matchesPattern(this.#rules.oneSided, path) || matchesPattern(this.#rules.ignored, path);
  }

  #numbers(ours: JsonNumeric, theirs: JsonNumeric, path: string): void {
    if (String(ours) === String(theirs)) return;
    if (matchesPattern(this.#rules.slots, path)) {
      const distance = Math.abs(Number(ours) - Number(theirs));
      if (distance > this.#maxSlotDistance) this.#add(path, 'slot', ours, theirs);
      return;
    }
    const isOneDouble = Number(String(ours)) === Number(String(theirs));
    this.#add(path, isOneDouble ? 'precision' : 'number', ours, theirs);
  }

  #arrays(ours: readonly unknown[], theirs: readonly unknown[], path: string): void {
    const items = `${path}[]`;
    const isOrdered = !matchesPattern(this.#rules.unordered, path);
    const name = identifierOf(ours, theirs);
    if (name !== null) {
      this.#identified(ours, theirs, { path, items, name, isOrdered });
      return;
    }
    const [ourTexts, theirTexts] = [ours.map(stringify), theirs.map(stringify)];
    if (ours.length === theirs.length && sorted(ourTexts).join() === sorted(theirTexts).join()) {
      if (isOrdered && ourTexts.join() !== theirTexts.join()) this.#add(path, 'order', ours, theirs);
      return;
    }
    const { start, ourEnd, theirEnd } = unequalPart(ourTexts, theirTexts);
    const common = Math.min(ourEnd, theirEnd);
    for (let at = start; at < common; at += 1) this.#values(ours[at], theirs[at], items);
    for (let at = Math.max(start, common); at < theirEnd; at += 1)
      this.#add(items, 'missing-item', undefined, theirs[at]);
    for (let at = Math.max(start, common); at < ourEnd; at += 1) this.#add(items, 'extra-item', ours[at], undefined);
  }

  #identified(
    ours: readonly unknown[],
    theirs: readonly unknown[],
    { path, items, name, isOrdered }: { path: string; items: string; name: string; isOrdered: boolean },
  ): void {
    const ourItems = new Map(ours.map((item) => [idOf(item, name), item]));
    const theirItems = new Map(theirs.map((item) => [idOf(item, name), item]));
    for (const [id, item] of theirItems) {
      const own = ourItems.get(id);
      if (own === undefined) this.#add(items, 'missing-item', undefined, item);
      else this.#values(own, item, items);
    }
    for (const [id, item] of ourItems) if (!theirItems.has(id)) this.#add(items, 'extra-item', item, undefined);
    if (!isOrdered) return;
    const ourOrder = [...ourItems.keys()].filter((id) => theirItems.has(id)).join();
    const theirOrder = [...theirItems.keys()].filter((id) => ourItems.has(id)).join();
    if (ourOrder !== theirOrder) this.#add(path, 'order', ourOrder, theirOrder);
  }
}

type Members = Readonly<Record<string, unknown>>;
type JsonNumeric = number | bigint | JsonNumber;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint' || value instanceof JsonNumber) return 'number';
  return typeof value;
}

/** A JSON-RPC answer without the members that belong to the call. */
function withoutEnvelope(value: unknown): unknown {
  if (!isPlainObject(value) || !('result' in value) || !('jsonrpc' in value)) return value;
  return { result: value['result'] };
}

/** Members that identify an item of a list, the strongest first. */
const IDENTIFIERS = ['signature', 'pubkey', 'hash', 'id', 'tokenAccount', 'address', 'mint', 'account', 'name'];
/** The item is its own identifier. */
const ITSELF = '';

/** The member by which the items of both lists are told apart; null: there is none. */
function identifierOf(ours: readonly unknown[], theirs: readonly unknown[]): string | null {
  const all = [...ours, ...theirs];
  if (all.length === 0) return null;
  if (all.every((item) => typeof item === 'string'))
    return isDistinct(ours) && isDistinct(theirs) && hasOverlap(ours, theirs) ? ITSELF : null;
  if (!all.every(isPlainObject)) return null;
  return (
    IDENTIFIERS.find((name) => {
      const [ourIds, theirIds] = [ours.map((item) => idOf(item, name)), theirs.map((item) => idOf(item, name))];
      const areTexts = [...ourIds, ...theirIds].every((id) => typeof id === 'string');
      if (!areTexts || !isDistinct(ourIds) || !isDistinct(theirIds)) return false;
      return ours.length === 0 || theirs.length === 0 || hasOverlap(ourIds, theirIds);
    }) ?? null
  );
}

const idOf = (item: unknown, name: string): unknown => (name === ITSELF ? item : (item as Members)[name]);
const isDistinct = (ids: readonly unknown[]): boolean => new Set(ids).size === ids.length;
/** Without a common item they are compared by position: a changed identifier is one difference, not two. */
const hasOverlap = (a: readonly unknown[], b: readonly unknown[]): boolean => {
  const known = new Set(a);
  return b.some((id) => known.has(id));
};
const sorted = (texts: readonly string[]): string[] => [...texts].sort();

/** Where two lists differ: without their equal beginnings and ends. */
function unequalPart(ours: readonly string[], theirs: readonly string[]) {
  let start = 0;
  while (start < ours.length && start < theirs.length && ours[start] === theirs[start]) start += 1;
  let [ourEnd, theirEnd] = [ours.length, theirs.length];
  while (ourEnd > start && theirEnd > start && ours[ourEnd - 1] === theirs[theirEnd - 1]) {
    ourEnd -= 1;
    theirEnd -= 1;
  }
  return { start, ourEnd, theirEnd };
}
