/**
 * Readers of values in instruction data, put together once for each type of an interface. Integers of 64 bits and more become decimal
 * text, bytes lists of numbers, variants `{name: body}`. Data and interfaces may be hostile: a reader takes time and memory in
 * proportion to the data, and stops with `Misfit` where the data does not fit.
 */
import { encode, encode32 } from '../../lib/base58.ts';

export interface ReadValue {
  (from: DataReader): unknown;
  /** Whether callers may leave it out where it is the last argument. Absent: they may not. */
  readonly mayBeAbsent?: () => boolean;
}

/** What compiling the types of one interface may cost; generic types and links make more of them than the text has. */
const MAX_COMPILED_NODES = 250_000;

/** Returns a function that pays for compiling `count` nodes of one interface. */
export function compileBudget(): (count?: number) => void {
  let left = MAX_COMPILED_NODES;
  return (count = 1) => {
    left -= count;
    if (left < 0) misfit();
  };
}

/** A text of an interface; anything else never decodes. */
export const demandText = (value: unknown): string => (typeof value === 'string' ? value : misfit());

/** The data does not fit the type. Made once: it says nothing about the place, and costs nothing to throw. */
class Misfit extends Error {}
const MISFIT = new Misfit('the data does not fit the interface');

export function misfit(): never {
  throw MISFIT;
}

/** Types within types, at one time. */
const MAX_DEPTH = 128;
/** Values without a byte of their own, such as empty structs, that one instruction may hold. */
const FREE_VALUES = 1_024;
/** Values for each byte. Each byte that is read counts as one, and so do eight characters of a name. */
const VALUES_PER_BYTE = 8;
const NAME_PER_VALUE = 8;
/** The time of base58 grows with the square of the size: as many bytes of it cost as many values. */
const BASE58_BYTES = 4_096;

/** The place in the data of one instruction, with what it may still cost. */
export class DataReader {
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  end = 0;
  private values = 0;
  private depth = 0;

  /** What `read` finds from `at` on; undefined when the data does not fit. */
  run<T>(bytes: Uint8Array, at: number, read: (from: DataReader) => T): T | undefined {
    this.bytes = bytes;
    this.at = at;
    this.end = bytes.length;
    this.values = FREE_VALUES + bytes.length * VALUES_PER_BYTE;
    this.depth = 0;
    try {
      return read(this);
    } catch {
      // Besides `Misfit`: a hostile interface finds values that no reader expects.
      return undefined;
    }
  }

  /** The start of the next `size` bytes, which are then behind. They are paid for each time: offsets lead back to bytes already read. */
  take(size: number): number {
    const start = this.at;
    if (!(size >= 0 && start + size <= this.end)) misfit();
    this.at = start + size;
    this.values -= size;
    if (this.values < 0) misfit();
    return start;
  }

  /** Pays for `count` values. */
  spend(count: number): void {
    this.values -= count;
    if (!(this.values >= 0)) misfit();
  }

  /** A value within another one. */
  nested<T>(read: (from: DataReader) => T): T {
    if (++this.depth > MAX_DEPTH) misfit();
    const value = read(this);
    this.depth--;
    return value;
  }

  /** Reads within the next `size` bytes, all of which are then behind. */
  within<T>(size: number, read: (from: DataReader) => T): T {
    const { end } = this;
    const next = this.take(size) + size;
    this.at = next - size;
    this.end = next;
    const value = this.nested(read);
    this.at = next;
    this.end = end;
    return value;
  }
}

// ------------------------------------------------------------------------------------------------------------------ numbers

const scratch = new DataView(new ArrayBuffer(8));

function u32At(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}

/** The high half of a 64-bit integer that a double holds is below this. */
const EXACT_HIGH = 0x20_0000;
const WORD = 4_294_967_296;

function integerText(bytes: Uint8Array, at: number, size: number, isSigned: boolean): string {
  const low = u32At(bytes, at);
  const high = u32At(bytes, at + 4);
  if (size === 8 && high < EXACT_HIGH) return String(high * WORD + low);
  let value = 0n;
  for (let word = size - 4; word >= 0; word -= 4) value = (value << 32n) | BigInt(u32At(bytes, at + word));
  return String(isSigned ? BigInt.asIntN(size * 8, value) : value);
}

const text64 = (from: DataReader): string => integerText(from.bytes, from.take(8), 8, false);
const wide =
  (size: number, isSigned: boolean): ReadValue =>
  (from) =>
    integerText(from.bytes, from.take(size), size, isSigned);

const u8 = (from: DataReader): number => from.bytes[from.take(1)]!;
const u16 = (from: DataReader): number => {
  const at = from.take(2);
  return from.bytes[at]! | (from.bytes[at + 1]! << 8);
};
const u32 = (from: DataReader): number => u32At(from.bytes, from.take(4));

/** JSON cannot hold numbers that are not finite: they become null. */
const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** Seven bits per byte, low bits first, at most three bytes. */
function shortU16(from: DataReader): number {
  let value = 0;
  for (let shift = 0; shift < 21; shift += 7) {
    const byte = u8(from);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value <= 0xffff ? value : misfit();
  }
  return misfit();
}

/** Little-endian numbers by their names in interfaces. */
const NUMBERS: ReadonlyMap<string, ReadValue> = new Map<string, ReadValue>([
  ['u8', u8],
  ['u16', u16],
  ['u32', u32],
  ['u64', text64],
  ['u128', wide(16, false)],
  ['u256', wide(32, false)],
  ['i8', (from) => (u8(from) << 24) >> 24],
  ['i16', (from) => (u16(from) << 16) >> 16],
  ['i32', (from) => u32(from) | 0],
  ['i64', wide(8, true)],
  ['i128', wide(16, true)],
  ['i256', wide(32, true)],
  ['shortU16', shortU16],
  [
    'f32',
    (from) => {
      scratch.setUint32(0, u32(from), true);
      return finite(scratch.getFloat32(0, true));
    },
  ],
  [
    'f64',
    (from) => {
      scratch.setUint32(0, u32(from), true);
      scratch.setUint32(4, u32(from), true);
      return finite(scratch.getFloat64(0, true));
    },
  ],
]);

/** Bytes of a number; `shortU16` has no fixed size. */
const sizeOf = (format: string): number => Number(format.slice(1)) / 8;

/** Undefined for an unknown format. */
export function number(format: string, isBigEndian = false): ReadValue | undefined {
  const read = NUMBERS.get(format);
  if (read === undefined || !isBigEndian || format === 'shortU16' || sizeOf(format) === 1) return read;
  const size = sizeOf(format);
  return (from) => {
    const start = from.take(size);
    const { bytes, at, end } = from;
    from.bytes = bytes.slice(start, start + size).reverse();
    from.at = 0;
    from.end = size;
    const value = read(from);
    from.bytes = bytes;
    from.at = at;
    from.end = end;
    return value;
  };
}

/** A count or tag that is read as any number type. */
function countOf(read: ReadValue, from: DataReader): number {
  const count = Number(read(from));
  return Number.isSafeInteger(count) && count >= 0 ? count : misfit();
}

// ------------------------------------------------------------------------------------------------------------------- simple

const BOOLS = new WeakSet<ReadValue>();

export function bool(size: ReadValue = u8): ReadValue {
  const read: ReadValue = (from) => {
    const value = Number(size(from));
    return value === 0 || value === 1 ? value === 1 : misfit();
  };
  BOOLS.add(read);
  return read;
}

export const key: ReadValue = (from) => encode32(from.bytes, from.take(32));

/** All that is left, as text. */
export function restText(encoding: string): ReadValue {
  return (from) => {
    const size = from.end - from.at;
    const start = from.take(size);
    const bytes = from.bytes.subarray(start, start + size);
    if (encoding === 'base58') {
      from.spend(Math.ceil((size * size) / BASE58_BYTES));
      return encode(bytes);
    }
    const form = encoding === 'base16' ? 'hex' : encoding === 'base64' ? 'base64' : 'utf8';
    return Buffer.from(bytes.buffer, bytes.byteOffset, size).toString(form);
  };
}

/** All that is left, as a list of numbers. */
export const restBytes: ReadValue = (from) => byteList(from, from.end - from.at);

function byteList(from: DataReader, size: number): number[] {
  const start = from.take(size);
  return Array.from(from.bytes.subarray(start, start + size));
}

// ---------------------------------------------------------------------------------------------------------------- composite

export function option(tag: ReadValue, item: ReadValue, fixedSize = 0): ReadValue {
  const read = (from: DataReader) => {
    const kind = countOf(tag, from);
    if (kind > 1) misfit();
    if (kind === 1) return from.nested(item);
    from.take(fixedSize);
    return null;
  };
  return Object.assign(read, { mayBeAbsent: () => true });
}

/** Present when anything is left. */
export const restOption =
  (item: ReadValue): ReadValue =>
  (from) =>
    from.at < from.end ? from.nested(item) : null;

/** Absent when its bytes are these, or all zero. */
export function zeroableOption(item: ReadValue, zero: Uint8Array | null): ReadValue {
  return (from) => {
    const start = from.at;
    const value = from.nested(item);
    const bytes = from.bytes.subarray(start, from.at);
    const isNone = zero === null ? bytes.every((byte) => byte === 0) : Buffer.compare(bytes, zero) === 0;
    return isNone ? null : value;
  };
}

/** How many items a list has: a number, a number in the data, or all that fit. */
export type ListCount = number | ReadValue | 'rest';

export function list(count: ListCount, item: ReadValue): ReadValue {
  const isBytes = item === u8;
  return (from) => {
    if (count === 'rest') {
      if (isBytes) return restBytes(from);
      const items: unknown[] = [];
      while (from.at < from.end) {
        from.spend(1);
        items.push(from.nested(item));
      }
      return items;
    }
    const length = typeof count === 'number' ? count : countOf(count, from);
    if (isBytes) return byteList(from, length);
    // Before the list grows: a false length costs nothing.
    from.spend(length);
    const items: unknown[] = [];
    for (let at = 0; at < length; at++) items.push(from.nested(item));
    return items;
  };
}

export const map = (count: ListCount, name: ReadValue, value: ReadValue): ReadValue =>
  list(count, (from) => [from.nested(name), from.nested(value)]);

export interface NamedValue {
  readonly name: string;
  readonly read: ReadValue;
  /** It is read and left out, as a discriminator. */
  readonly isHidden?: boolean;
}

export function struct(fields: readonly NamedValue[]): ReadValue {
  const names = fields.map(({ name }) => name);
  const reads = fields.map(({ read }) => read);
  const hidden = fields.map(({ isHidden }) => isHidden === true);
  const isPlain = !names.includes('__proto__') && !hidden.includes(true);
  const { length } = fields;
  const shown = names.filter((_, at) => !hidden[at]);
  // Two fields with one name do not fit: one value would be lost.
  if (new Set(shown).size < shown.length) misfit();
  const cost = shown.reduce((sum, name) => sum + costOf(name), length - shown.length);
  const read = (from: DataReader) => {
    from.spend(cost);
    const value: Record<string, unknown> = {};
    for (let at = 0; at < length; at++) {
      const found = from.nested(reads[at]!);
      if (isPlain) value[names[at]!] = found;
      else if (!hidden[at]) put(value, names[at]!, found);
    }
    return value;
  };
  // `OptionBool` of pump.fun is a struct of one bool.
  const isOptionBool = length === 1 && BOOLS.has(reads[0]!);
  return Object.assign(read, {
    mayBeAbsent: onceKnown(() => isOptionBool || (length > 0 && reads.every(mayBeAbsent))),
  });
}

const mayBeAbsent = (read: ReadValue): boolean => read.mayBeAbsent?.() === true;

/** False within itself: a struct that contains itself has no end. */
function onceKnown(find: () => boolean): () => boolean {
  let known: boolean | null = null;
  return () => {
    if (known === null) {
      known = false;
      known = find();
    }
    return known;
  };
}

/** A type by name, compiled when a value of it is first read: types may contain themselves. One that does not compile is not tried again. */
export function deferred(compile: () => ReadValue): ReadValue {
  let compiled: ReadValue | null = null;
  const type = (): ReadValue => {
    if (compiled === null) {
      compiled = misfit;
      compiled = compile();
    }
    return compiled;
  };
  const read = (from: DataReader) => from.nested(type());
  return Object.assign(read, { mayBeAbsent: () => mayBeAbsent(type()) });
}

/**
 * The arguments of an instruction of a program that reads its own data. Programs add arguments at the end, and callers of before leave
 * them out: where the data ends between two arguments, those that may be absent are null, if one that may not be is there.
 */
export function argumentList(fields: readonly NamedValue[]): ReadValue {
  const kept = (count: number) =>
    fields.slice(0, count).some(({ read, isHidden }) => isHidden !== true && !mayBeAbsent(read));
  return struct(
    fields.map((field, at): NamedValue => {
      const { read } = field;
      const isAbsent = (from: DataReader) => from.at === from.end && mayBeAbsent(read) && kept(at);
      return { ...field, read: (from) => (isAbsent(from) ? null : read(from)) };
    }),
  );
}

/** Cost of a named value, see `NAME_PER_VALUE`. */
const costOf = (name: string): number => 1 + Math.ceil(name.length / NAME_PER_VALUE);

/** A member of any name. */
function put(target: Record<string, unknown>, name: string, value: unknown): Record<string, unknown> {
  if (name !== '__proto__') target[name] = value;
  else Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  return target;
}

export interface Variant {
  readonly name: string;
  /** Null: nothing follows. */
  readonly body: ReadValue | null;
}

/** What the interface describes badly: data with it does not decode. */
export const UNREADABLE: Variant = { name: '', body: misfit };

/** `variantOf` gives the variant of a tag; undefined for an unknown one. */
export function variants(tag: ReadValue, variantOf: (tag: number) => Variant | undefined): ReadValue {
  return (from) => {
    const variant = variantOf(countOf(tag, from)) ?? misfit();
    from.spend(costOf(variant.name));
    return put({}, variant.name, variant.body === null ? {} : from.nested(variant.body));
  };
}

/** Reads a value between fixed bytes, which are checked. */
export function between(before: Uint8Array, item: ReadValue, after: Uint8Array): ReadValue {
  const skip = (from: DataReader, bytes: Uint8Array) => {
    const start = from.take(bytes.length);
    if (Buffer.compare(from.bytes.subarray(start, from.at), bytes) !== 0) misfit();
  };
  return (from) => {
    skip(from, before);
    const value = from.nested(item);
    skip(from, after);
    return value;
  };
}

/** The value is all before the next occurrence of the sentinel. */
export function untilSentinel(sentinel: Uint8Array, item: ReadValue): ReadValue {
  return (from) => {
    const rest = from.bytes.subarray(from.at, from.end);
    const size = sentinel.length === 0 ? -1 : Buffer.from(rest.buffer, rest.byteOffset, rest.length).indexOf(sentinel);
    if (size < 0) misfit();
    const value = from.within(size, item);
    from.take(sentinel.length);
    return value;
  };
}

export const prefixed =
  (size: ReadValue, item: ReadValue): ReadValue =>
  (from) =>
    from.within(countOf(size, from), item);

export const sized =
  (size: number, item: ReadValue): ReadValue =>
  (from) =>
    from.within(size, item);

/** The place moves before or after the value. */
export function moved(
  item: ReadValue,
  when: 'before' | 'after',
  strategy: 'relative' | 'absolute' | 'preOffset',
  offset: number,
): ReadValue {
  const move = (from: DataReader, start: number) => {
    const base = strategy === 'relative' ? from.at : strategy === 'preOffset' ? start : offset < 0 ? from.end : 0;
    const at = base + offset;
    if (!(at >= 0 && at <= from.end)) misfit();
    from.at = at;
  };
  return (from) => {
    const start = from.at;
    if (when === 'before') move(from, start);
    const value = from.nested(item);
    if (when === 'after') move(from, start);
    return value;
  };
}
