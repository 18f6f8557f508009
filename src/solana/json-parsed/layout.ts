import { encode32 } from '../../lib/base58.ts';
import { SYSTEM_PROGRAM } from '../programs.ts';

export type LayoutReader = ReturnType<typeof byteReader>;

/** Reads consecutive little-endian fields. Throws RangeError at the end of the bytes. */
export function byteReader(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (size: number): number => {
    if (!(size >= 0) || at + size > bytes.length) throw new RangeError('the bytes end too early');
    at += size;
    return at - size;
  };
  const key = (): string => encode32(bytes, take(32));
  const u8 = (): number => view.getUint8(take(1));
  const u32 = (): number => view.getUint32(take(4), true);
  const u64 = (): bigint => view.getBigUint64(take(8), true);
  const raw = (size: number): Uint8Array => bytes.subarray(take(size), at);
  const list = <T>(count: number, item: () => T): T[] => {
    // Each item has at least one byte: a false length must not allocate a long list.
    if (count > bytes.length - at) throw new RangeError('the bytes end too early');
    return Array.from({ length: count }, item);
  };
  return {
    u8,
    u16: (): number => view.getUint16(take(2), true),
    i16: (): number => view.getInt16(take(2), true),
    u32,
    u64,
    f64: (): number => view.getFloat64(take(8), true),
    bool: (): boolean => u8() === 1,
    /** A number when exact, else a bigint. */
    amount: (): number | bigint => exact(u64()),
    time: (): number | bigint => exact(view.getBigInt64(take(8), true)),
    key,
    /** A key, or null for 32 zeros. */
    keyOrNone(): string | null {
      const found = key();
      return found === NO_KEY ? null : found;
    },
    /** Tag byte, then the value if the tag is 1. */
    option: <T>(read: () => T): T | null => (u8() === 1 ? read() : null),
    optionalKey: (): string | null => (u8() === 1 ? key() : null),
    raw,
    rest: (): Uint8Array => raw(bytes.length - at),
    left: (): number => bytes.length - at,
    list,
    /** u64 length, then UTF-8. */
    text: (): string => utf8(raw(Number(u64()))),
    /** u32 length, then UTF-8. */
    shortText: (): string => utf8(raw(u32())),
    /** Seven bits per byte, low bits first. */
    varint(): bigint {
      let value = 0n;
      for (let shift = 0n; shift < 64n; shift += 7n) {
        const byte = u8();
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
      throw new RangeError('a number of more than 64 bits');
    },
  };
}

const NO_KEY = SYSTEM_PROGRAM;

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

export type Info = Record<string, unknown>;

export type FieldReader = (read: LayoutReader, keys: readonly string[]) => Info;

/** How one instruction of a program is shown. */
export interface Shape {
  readonly type: string;
  /** Names of its accounts in order; `?name` is shown when present, `~name` is null when absent. */
  readonly accounts: string;
  /** Name of the authority after those accounts: a multisig when signers follow it. */
  readonly authority?: string;
  /** Fields of its data, in the order of the bytes. */
  readonly fields?: FieldReader;
}

export type InstructionParser = (data: Uint8Array, keys: readonly string[]) => { type: string; info?: unknown } | null;

/** The parser of a program whose instructions start with their number, a u32 or one byte. */
export function shapeParser(shapes: readonly (Shape | undefined)[], tag: 'u32' | 'u8' = 'u32'): InstructionParser {
  return (data, keys) => {
    const read = byteReader(data);
    return showAs(shapes[tag === 'u32' ? read.u32() : read.u8()], read, keys);
  };
}

/** Null without a shape, and when a required account is missing. */
export function showAs(shape: Shape | undefined, read: LayoutReader, keys: readonly string[]) {
  if (shape === undefined || keys.length === 0) return null;
  const accounts = namedAccounts(shape, keys);
  if (accounts === null) return null;
  const info = { ...accounts, ...shape.fields?.(read, keys) };
  return Object.keys(info).length === 0 ? { type: shape.type } : { type: shape.type, info };
}

function namedAccounts({ accounts, authority }: Shape, keys: readonly string[]): Info | null {
  const info: Info = {};
  const names = accounts.split(' ').filter(Boolean);
  for (const [index, name] of names.entries()) {
    const key = keys[index];
    const plain = name.replace(/^[?~]/, '');
    if (key !== undefined) info[plain] = key;
    else if (plain === name) return null;
    else if (name.startsWith('~')) info[plain] = null;
  }
  return authority === undefined ? info : withAuthority(info, keys.slice(names.length), authority);
}

/** The single authority, or the multisig with the signers that follow it. */
export function withAuthority(info: Info, [key, ...signers]: readonly string[], name: string): Info | null {
  if (key === undefined) return null;
  if (signers.length === 0) return { ...info, [name]: key };
  return { ...info, [`multisig${name[0]!.toUpperCase()}${name.slice(1)}`]: key, signers };
}

/** A number when exact, else a bigint, which the JSON writer prints as a bare integer. */
export function exact(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

export function base64(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}

export interface UiTokenAmount {
  readonly amount: string;
  readonly decimals: number;
  readonly uiAmount: number | null;
  readonly uiAmountString: string;
}

const MAX_POWER = 19;

/** Amount without reading the mint. The divisor is limited to what 64 bits hold. */
export function plainUiAmount(amount: bigint, decimals: number): UiTokenAmount {
  const uiAmount = decimals > MAX_POWER ? null : Number(amount) / 10 ** decimals;
  return { amount: amount.toString(), decimals, uiAmount, uiAmountString: plainText(amount, decimals) };
}

function plainText(amount: bigint, decimals: number): string {
  if (decimals === 0) return amount.toString();
  const digits = amount.toString().padStart(decimals + 1, '0');
  return withoutZeros(`${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`);
}

/** A decimal number without the zeros at its end. */
export function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
