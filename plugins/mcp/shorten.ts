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
  const shortener = new Shortener(shortness);
  return { value: shortener.visit(value, 0, false), omitted: shortener.omitted };
}

/** A class with one path that grows and shrinks: a path of its own for each value took longer than all the rest. */
class Shortener {
  readonly omitted: Omission[] = [];
  readonly #shortness: Shortness;
  readonly #path: (string | number)[] = [];

  constructor(shortness: Shortness) {
    this.#shortness = shortness;
  }

  visit(given: unknown, depth: number, isInner: boolean): unknown {
    if (depth > MAX_DEPTH) return null;
    switch (typeof given) {
      case 'string':
        return this.#text(given);
      case 'number':
        return Number.isInteger(given) && !Number.isSafeInteger(given) ? String(given) : given;
      case 'bigint':
        return given.toString();
      case 'object':
        if (given === null) return null;
        if (given instanceof JsonNumber) return given.text;
        return Array.isArray(given) ? this.#list(given, depth, isInner) : this.#members(given, depth, isInner);
      default:
        return given ?? null;
    }
  }

  #text(given: string): string {
    const { text: most } = this.#shortness;
    if (given.length <= most || this.#isWhole()) return visible(given);
    this.#omit(most, given.length);
    return `${visible(given.slice(0, most))}…`;
  }

  #list(given: readonly unknown[], depth: number, isInner: boolean): unknown[] {
    const most = isInner ? this.#shortness.innerItems : this.#shortness.items;
    const shown = given.length <= most || this.#isWhole() ? given : given.slice(0, most);
    if (shown.length < given.length) this.#omit(shown.length, given.length);
    return shown.map((item, index) => {
      this.#path.push(index);
      const short = this.visit(item, depth + 1, true);
      this.#path.pop();
      return short;
    });
  }

  #members(given: object, depth: number, isInner: boolean): object {
    const members: Record<string, unknown> = {};
    for (const [name, member] of Object.entries(given)) {
      if (member === undefined) continue;
      this.#path.push(name);
      define(members, visible(name), this.visit(member, depth + 1, isInner));
      this.#path.pop();
    }
    return members;
  }

  #isWhole(): boolean {
    const { expand } = this.#shortness;
    if (expand.length === 0) return false;
    const path = this.#path.join('.');
    return expand.some((one) => one === '*' || path === one || path.startsWith(`${one}.`));
  }

  #omit(shown: number, total: number): void {
    if (this.omitted.length < MAX_OMISSIONS) this.omitted.push({ path: this.#path.join('.'), shown, total });
  }
}

/** Sets a member, whatever its name: strangers choose names. */
function define(members: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true });
  else members[name] = value;
}

/** Controls, marks of direction, joiners, tags and private characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu;

/** Nothing of it is unseen. */
const PLAIN = /^[\t\n -~]*$/;

/** Text of others with its unseen characters as `\u{…}`: what a person does not see, a model reads. Tabs and line ends stay. */
export function visible(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(UNSEEN, (character) =>
    character === '\n' || character === '\t' ? character : `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`,
  );
}
