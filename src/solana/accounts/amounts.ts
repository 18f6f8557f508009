import { type ByteReader, createByteReader } from '../../lib/bytes.ts';
import { nullableKey, tryDecode } from './decoded.ts';
import { type Extension, findExtension } from './token.ts';

/** How amounts of a mint are shown in addition to its decimals. Times are unix seconds, rates basis points per year. */
type AmountScale =
  | {
      readonly kind: 'interest';
      readonly initialized: number;
      readonly averageRate: number;
      readonly lastUpdate: number;
      readonly rate: number;
    }
  | {
      readonly kind: 'multiplier';
      readonly multiplier: number;
      readonly newMultiplier: number;
      readonly newFrom: number;
    };

const KEY_BYTES = 32;

/** The scale of a Token-2022 mint; null for mints with plain amounts. */
export function readAmountScale(extensions: readonly Extension[]): AmountScale | null {
  const interest = findExtension(extensions, 'InterestBearingConfig');
  if (interest !== null) return tryDecode(() => readInterest(createByteReader(interest, KEY_BYTES))).value;
  const scaled = findExtension(extensions, 'ScaledUiAmount');
  return scaled === null ? null : tryDecode(() => readMultiplier(createByteReader(scaled, KEY_BYTES))).value;
}

function readInterest(reader: ByteReader): AmountScale {
  const [initialized, averageRate, lastUpdate, rate] = [i64(reader), i16(reader), i64(reader), i16(reader)];
  return { kind: 'interest', initialized, averageRate, lastUpdate, rate };
}

function readMultiplier(reader: ByteReader): AmountScale {
  const [multiplier, newFrom, newMultiplier] = [f64(reader), i64(reader), f64(reader)];
  return { kind: 'multiplier', multiplier, newMultiplier, newFrom };
}

/** A time: values above 2^53 seconds are effectively infinite. */
export const i64 = (reader: ByteReader): number => Number(BigInt.asIntN(64, reader.u64()));
export const i16 = (reader: ByteReader): number => (reader.u16() << 16) >> 16;

export function f64(reader: ByteReader): number {
  const bytes = reader.bytes(8);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true);
}

const YEAR_S = 60 * 60 * 24 * 365.24;
const ONE_IN_BASIS_POINTS = 10_000;
/** Maximum number of decimals written: more are below the precision of a double. */
const MAX_PLACES = 100;
/** From here on doubles are formatted with an exponent. */
const EXPONENT_FROM = 1e21;

/** Raw units as a decimal text without trailing zeros: exact for every amount. */
export function plainAmount(raw: bigint, decimals: number): string {
  const sign = raw < 0n ? '-' : '';
  const digits = (raw < 0n ? -raw : raw).toString().padStart(decimals + 1, '0');
  return sign + trimmed(`${digits.slice(0, digits.length - decimals)}.${digits.slice(digits.length - decimals)}`);
}

/**
 * A displayed amount, with the interest or the multiplier of its mint at a time in unix seconds. `scale` null: plain. A scale
 * without a finite result gives the plain amount.
 */
export function uiAmount(raw: bigint, decimals: number, scale: AmountScale | null, atS: number): string {
  if (scale === null) return plainAmount(raw, decimals);
  const scaled = Number(raw) * (scale.kind === 'interest' ? interest(scale, atS) : multiplier(scale, atS));
  if (!Number.isFinite(scaled)) return plainAmount(raw, decimals);
  // The program drops fractions of a raw unit of a multiplied amount, and keeps them for interest.
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
  return trimmed(value.toFixed(Math.min(decimals, MAX_PLACES)));
}

function trimmed(number: string): string {
  if (!number.includes('.')) return number;
  let end = number.length;
  while (number[end - 1] === '0') end -= 1;
  if (number[end - 1] === '.') end -= 1;
  return number.slice(0, end);
}

/** A fee on transfers, from an epoch on. */
interface TransferFee {
  readonly epoch: bigint;
  /** Raw units. */
  readonly maximum: bigint;
  readonly basisPoints: number;
}

/** The fees of a Token-2022 mint. Keys are base58. */
interface TransferFeeConfig {
  readonly feeAuthority: string | null;
  readonly withdrawAuthority: string | null;
  /** Raw units withheld in the mint itself. */
  readonly withheld: bigint;
  readonly older: TransferFee;
  readonly newer: TransferFee;
}

const BASIS_POINTS = 10_000n;

/** The fees of a mint; null when it has none. */
export function readTransferFeeConfig(extensions: readonly Extension[]): TransferFeeConfig | null {
  const value = findExtension(extensions, 'TransferFeeConfig');
  if (value === null) return null;
  return tryDecode(() => {
    const reader = createByteReader(value);
    const fee = (): TransferFee => ({ epoch: reader.u64(), maximum: reader.u64(), basisPoints: reader.u16() });
    const [feeAuthority, withdrawAuthority] = [nullableKey(reader), nullableKey(reader)];
    return { feeAuthority, withdrawAuthority, withheld: reader.u64(), older: fee(), newer: fee() };
  }).value;
}

/** The fee withheld from a transfer of `amount` raw units in `epoch`: rounded up, and at most the maximum. */
export function transferFee(config: Pick<TransferFeeConfig, 'older' | 'newer'>, amount: bigint, epoch: bigint): bigint {
  const { basisPoints, maximum } = epoch >= config.newer.epoch ? config.newer : config.older;
  const fee = (amount * BigInt(basisPoints) + BASIS_POINTS - 1n) / BASIS_POINTS;
  return fee < maximum ? fee : maximum;
}
