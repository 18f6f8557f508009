import type { AmountScale } from './amount-scale.ts';

const YEAR_S = 60 * 60 * 24 * 365.24;
const ONE_IN_BASIS_POINTS = 10_000;
/** More places than this are not written, and not needed: beyond is below the precision of a double. */
const MOST_PLACES = 100;
/** From here on doubles are written with an exponent. */
const EXPONENT_FROM = 1e21;

/** Raw units as a decimal number in text without zeros at its end: exact for every amount. */
export function plainAmount(raw: bigint, decimals: number): string {
  const sign = raw < 0n ? '-' : '';
  const digits = (raw < 0n ? -raw : raw).toString().padStart(decimals + 1, '0');
  return sign + trimmed(`${digits.slice(0, digits.length - decimals)}.${digits.slice(digits.length - decimals)}`);
}

/**
 * An amount as people see it, with the interest or the multiplier of its mint at a time in unix seconds. `scale` null: plain. A scale
 * that leads to no number gives the plain amount.
 */
export function uiAmount(raw: bigint, decimals: number, scale: AmountScale | null, atS: number): string {
  if (scale === null) return plainAmount(raw, decimals);
  const scaled = Number(raw) * (scale.kind === 'interest' ? interest(scale, atS) : multiplier(scale, atS));
  if (!Number.isFinite(scaled)) return plainAmount(raw, decimals);
  // The program drops what is less than one raw unit of a multiplied amount, and keeps it for interest.
  const units = scale.kind === 'multiplier' ? Math.trunc(scaled) : scaled;
  return fixed(units / 10 ** decimals, decimals);
}

function interest(scale: AmountScale & { kind: 'interest' }, atS: number): number {
  const grown = (rate: number, seconds: number): number => Math.exp((rate * seconds) / (YEAR_S * ONE_IN_BASIS_POINTS));
  const before = grown(scale.averageRate, scale.lastUpdate - scale.initialized);
  return before * grown(scale.rate, atS - scale.lastUpdate);
}

function multiplier(scale: AmountScale & { kind: 'multiplier' }, atS: number): number {
  return atS >= scale.newFrom ? scale.newMultiplier : scale.multiplier;
}

function fixed(value: number, decimals: number): string {
  if (Math.abs(value) >= EXPONENT_FROM) return BigInt(Math.round(value)).toString();
  return trimmed(value.toFixed(Math.min(decimals, MOST_PLACES)));
}

function trimmed(number: string): string {
  if (!number.includes('.')) return number;
  let end = number.length;
  while (number[end - 1] === '0') end -= 1;
  if (number[end - 1] === '.') end -= 1;
  return number.slice(0, end);
}
