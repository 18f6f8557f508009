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

/** `2026-11-23 19:04:10`, UTC */
export const utc = (at: number): string => new Date(at).toISOString().replace('T', ' ').slice(0, 19);

export const day = (at: number): string => new Date(at).toISOString().slice(0, 10);

export const count = (value: number, one: string, many = `${one}s`): string =>
  `${number(value)} ${value === 1 ? one : many}`;

/** The beginning and end of an id. */
export const middle = (text: string, kept = 6): string =>
  text.length <= 2 * kept + 1 ? text : `${text.slice(0, kept)}…${text.slice(-kept)}`;

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
