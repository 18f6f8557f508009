import { JsonNumber } from '../../src/lib/json.ts';

/** A list or text of which an answer shows only the start. */
export interface Omission {
  /** Path of its name: `instructions`, `transactions.0.logs`. */
  readonly path: string;
  readonly shown: number;
  /** Items of the list, or characters of the text. */
  readonly total: number;
}

export interface ShortAnswer {
  readonly value: unknown;
  /** The first of them. */
  readonly omitted: readonly Omission[];
}

export interface Shortness {
  /** Items that are shown of a list of the first level, and of lists inside lists. */
  readonly items: number;
  readonly innerItems: number;
  /** Characters that are shown of a text. */
  readonly text: number;
  /** Paths that are shown whole; `*`: all. Numbers of paths are positions in lists. */
  readonly expand: readonly string[];
}

const MAX_OMISSIONS = 20;
const MAX_DEPTH = 64;

/**
 * An answer as agents read it: long lists and texts are cut, and what was cut is listed; integers that a double cannot hold become decimal
 * text; characters that nobody sees become visible. Pure.
 */
export function shorten(value: unknown, shortness: Shortness): ShortAnswer {
  const omitted: Omission[] = [];
  const isWhole = (path: string) =>
    shortness.expand.some((one) => one === '*' || path === one || path.startsWith(`${one}.`));
  const omit = (path: string, shown: number, total: number) => {
    if (omitted.length < MAX_OMISSIONS) omitted.push({ path, shown, total });
  };
  const visit = (given: unknown, path: string, depth: number, isInner: boolean): unknown => {
    if (depth > MAX_DEPTH) return null;
    if (typeof given === 'string') {
      if (given.length <= shortness.text || isWhole(path)) return visible(given);
      omit(path, shortness.text, given.length);
      return `${visible(given.slice(0, shortness.text))}…`;
    }
    if (typeof given === 'bigint') return given.toString();
    if (given instanceof JsonNumber) return given.text;
    if (typeof given === 'number')
      return Number.isInteger(given) && !Number.isSafeInteger(given) ? String(given) : given;
    if (Array.isArray(given)) {
      const most = isInner ? shortness.innerItems : shortness.items;
      const shown = given.length <= most || isWhole(path) ? given : given.slice(0, most);
      if (shown.length < given.length) omit(path, shown.length, given.length);
      return shown.map((item, index) => visit(item, joined(path, String(index)), depth + 1, true));
    }
    if (typeof given === 'object' && given !== null)
      return Object.fromEntries(
        Object.entries(given)
          .filter(([, member]) => member !== undefined)
          .map(([name, member]) => [visible(name), visit(member, joined(path, name), depth + 1, isInner)]),
      );
    return given ?? null;
  };
  return { value: visit(value, '', 0, false), omitted };
}

const joined = (path: string, name: string) => (path === '' ? name : `${path}.${name}`);

/** Controls, marks of direction, joiners, tags and private characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu;

/** Text of others with its unseen characters as `\u{…}`: what a person does not see, a model reads. Tabs and line ends stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) =>
    character === '\n' || character === '\t' ? character : `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`,
  );
}
