/** Numbers, sizes and times as texts. */

const plain = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const number = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : plain.format(value);

export const short = (value: number): string =>
  Math.abs(value) < 1_000 ? plain.format(round(value)) : compact.format(value);

const round = (value: number): number => (Math.abs(value) < 10 ? Math.round(value * 100) / 100 : Math.round(value));

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1_000 && unit < UNITS.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

/** `340 ms`, `2.4 s`; 0 is `< 1 ms` */
export function duration(ms: number): string {
  if (ms === 0) return '< 1 ms';
  if (ms < 0.995) return `${ms.toFixed(2)} ms`;
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return span(ms);
}

const SECOND = 1_000;
const STEPS: readonly (readonly [ms: number, name: string])[] = [
  [86_400 * SECOND, 'day'],
  [3_600 * SECOND, 'hour'],
  [60 * SECOND, 'minute'],
  [SECOND, 'second'],
];

/** `3 minutes` */
export function span(ms: number): string {
  const [length, name] = STEPS.find(([step]) => ms >= step) ?? (STEPS[3] as (typeof STEPS)[number]);
  const count = Math.floor(ms / length);
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}

export function ago(at: number, now: number = Date.now()): string {
  const ms = now - at;
  if (Math.abs(ms) < 5 * SECOND) return 'just now';
  return ms < 0 ? `in ${span(-ms)}` : `${span(ms)} ago`;
}

/** When something that is planned will happen; once its time has come, it is due. */
export function planned(at: number, now: number = Date.now()): string {
  if (at <= now) return 'now';
  return at - now < 5 * SECOND ? 'in a moment' : ago(at, now);
}

/** `2026-11-23 19:04:10`, UTC */
export const utc = (at: number): string => new Date(at).toISOString().replace('T', ' ').slice(0, 19);

export const day = (at: number): string => new Date(at).toISOString().slice(0, 10);

export const count = (value: number, one: string, many = `${one}s`): string =>
  `${number(value)} ${value === 1 ? one : many}`;

/** The beginning and end of an id. */
export const middle = (text: string, kept = 6): string =>
  text.length <= 2 * kept + 1 ? text : `${text.slice(0, kept)}…${text.slice(-kept)}`;

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** US dollars; small prices keep their digits. */
export function dollars(value: number | null): string {
  if (value === null) return '–';
  const digits = value !== 0 && Math.abs(value) < 1 ? { maximumSignificantDigits: 3 } : {};
  return value.toLocaleString('en', { style: 'currency', currency: 'USD', ...digits });
}

/** A number with at most 15 digits, the precision of a double. */
export const amount = (value: number): string => value.toLocaleString('en', { maximumSignificantDigits: 15 });

/** A whole number of the smallest units, as an amount: `1,234.5`. */
export function units(value: number, decimals: number): string {
  const digits = String(BigInt(Math.abs(value))).padStart(decimals + 1, '0');
  const fraction = decimals === 0 ? '' : digits.slice(-decimals).replace(/0+$/, '');
  const whole = plain.format(BigInt(decimals === 0 ? digits : digits.slice(0, -decimals)));
  return `${value < 0 ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

const MAX_SHOWN = 2_000;
const INVISIBLE = /(?![\n\t])[\p{Cc}\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;
/** Marks stacked above and below a letter, beyond what any script has. */
const STACKED = /(\p{M}{4})\p{M}+/gu;

/**
 * A text that a stranger wrote: what would reorder, hide or overlay other text is taken out. Emoji and scripts from right to left stay.
 * Empty for anything that is no text.
 */
export function foreign(value: unknown, most: number = MAX_SHOWN): string {
  if (typeof value !== 'string') return '';
  const text = value
    .slice(0, 2 * most)
    .replace(INVISIBLE, '')
    .replace(STACKED, '$1')
    .trim();
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most).join('')}…`;
}
