import type { Sfc32 } from './sfc32.ts';

/** How often each liberty of JSON is taken, from 0 to 1. */
export interface Mess {
  /** Blanks between tokens. */
  readonly blanks: number;
  /** Characters written as escapes. */
  readonly escapes: number;
  /** Members in another order. */
  readonly order: number;
  /** Members written twice, first with another value. */
  readonly twice: number;
  /** Numbers in another form of the same value. */
  readonly numbers: number;
}

/** JSON text of `value` written in another of its many ways. */
export function messyJson(value: unknown, random: Sfc32, mess: Mess): string {
  const blank = (): string => (random.float() < mess.blanks ? [' ', '\n', '\t', '\r\n  '][random.below(4)]! : '');
  const text = (plain: string): string => {
    const escaped = Array.from(plain, (char) => {
      if (random.float() >= mess.escapes || char.length > 1) return JSON.stringify(char).slice(1, -1);
      return char === '/' ? '\\/' : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
    });
    return `"${escaped.join('')}"`;
  };
  const number = (plain: number): string => {
    if (random.float() >= mess.numbers) return JSON.stringify(plain);
    if (plain === 0) return ['-0', '0.0', '0e5'][random.below(3)]!;
    return Number.isInteger(plain) ? [`${plain}.0`, `${plain}e0`, `${plain}E+0`][random.below(3)]! : String(plain);
  };
  const member = ([name, inner]: [string, unknown]): string => {
    const one = (content: unknown) => `${text(name)}${blank()}:${blank()}${write(content)}`;
    return random.float() < mess.twice ? `${one([1, { a: 'x' }, null][random.below(3)])},${one(inner)}` : one(inner);
  };
  const write = (given: unknown): string => {
    if (typeof given === 'string') return text(given);
    if (typeof given === 'number') return number(given);
    if (typeof given !== 'object' || given === null) return JSON.stringify(given);
    if (Array.isArray(given)) return `[${blank()}${given.map((one) => write(one) + blank()).join(`,${blank()}`)}]`;
    const members = Object.entries(given).filter(([, inner]) => inner !== undefined);
    if (random.float() < mess.order) members.sort(() => random.float() - 0.5);
    return `{${blank()}${members.map((one) => member(one) + blank()).join(`,${blank()}`)}}`;
  };
  return blank() + write(value) + blank();
}
