import { type ByteReader, createByteReader } from '../../byte-reader.ts';
import { attempt } from '../decoded.ts';
import { type Extension, findExtension } from './extensions.ts';

/** How amounts of a mint are shown other than by its decimals. Times are unix seconds, rates basis points a year. */
export type AmountScale =
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

/** The scale of a Token-2022 mint; null for mints whose amounts are plain. */
export function readAmountScale(extensions: readonly Extension[]): AmountScale | null {
  const interest = findExtension(extensions, 'InterestBearingConfig');
  if (interest !== null) return attempt(() => readInterest(createByteReader(interest, KEY_BYTES))).value;
  const scaled = findExtension(extensions, 'ScaledUiAmount');
  return scaled === null ? null : attempt(() => readMultiplier(createByteReader(scaled, KEY_BYTES))).value;
}

function readInterest(reader: ByteReader): AmountScale {
  const [initialized, averageRate, lastUpdate, rate] = [i64(reader), i16(reader), i64(reader), i16(reader)];
  return { kind: 'interest', initialized, averageRate, lastUpdate, rate };
}

function readMultiplier(reader: ByteReader): AmountScale {
  const [multiplier, newFrom, newMultiplier] = [f64(reader), i64(reader), f64(reader)];
  return { kind: 'multiplier', multiplier, newMultiplier, newFrom };
}

/** A time: more than 2^53 seconds are as good as for ever. */
const i64 = (reader: ByteReader): number => Number(BigInt.asIntN(64, reader.u64()));
const i16 = (reader: ByteReader): number => (reader.u16() << 16) >> 16;

function f64(reader: ByteReader): number {
  const bytes = reader.bytes(8);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true);
}
