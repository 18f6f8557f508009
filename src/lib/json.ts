const MAX_DEPTH = 512;

/** A number of a JSON text that is no integer and that no double holds, as it is written there. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }

  /** The native implementation would write an object. */
  toJSON(): never {
    throw new TypeError('json: `stringify` writes such numbers');
  }
}

/**
 * `JSON.stringify` that writes a bigint as a bare integer of any size, and a `JsonNumber` as its text. Undefined becomes `null`, so the
 * result is always JSON. Values without either use the native implementation. Throws TypeError for a cycle.
 */
export function stringify(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    // The native implementation throws TypeError for bigints, such numbers and cycles; the code below also detects cycles.
    if (!(error instanceof TypeError)) throw error;
  }
  return write('', value, 0) ?? 'null';
}

/** The text of one value, or undefined if JSON omits the member. */
function write(key: string, given: unknown, depth: number): string | undefined {
  if (depth > MAX_DEPTH) throw new TypeError('json: a cycle, or nested too deeply');
  if (given instanceof JsonNumber) return given.text;
  const value = hasToJson(given) ? given.toJSON(key) : given;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null || isBoxed(value)) return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, index) => write(String(index), item, depth + 1) ?? 'null').join(',')}]`;
  }
  const members: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    const text = write(name, member, depth + 1);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}

function hasToJson(value: unknown): value is { toJSON(key: string): unknown } {
  return typeof value === 'object' && value !== null && typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

function isBoxed(value: object): boolean {
  return value instanceof String || value instanceof Number || value instanceof Boolean;
}

/** Whether a value is an object, but neither null nor an array. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A copy with the members of every object sorted by name. */
export function withSortedMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSortedMembers);
  if (!isPlainObject(value) || value instanceof JsonNumber) return value;
  const members = Object.entries(value).map(([name, member]) => [name, withSortedMembers(member)] as const);
  return Object.fromEntries(members.sort(([left], [right]) => (left < right ? -1 : 1)));
}

/** The bytes of a list of integers from 0 to 255; null for everything else. */
export function byteList(value: unknown): Uint8Array | null {
  if (!Array.isArray(value)) return null;
  return value.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255) ? Uint8Array.from(value) : null;
}

/** Integers that a double may not hold exactly, and strings, which are skipped. */
const LONG_INTEGERS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** A long number as a value. Log messages often have an address of many ones, which is none. */
const LONG_INTEGER = /(?:^|[:,[-])[ \t\n\r]*\d{16}/;

/** Parses JSON text; integers that a double cannot hold exactly become bigints. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text);
  return parseMarked(text, LONG_INTEGERS, (token) => !Number.isSafeInteger(Number(token)), BigInt);
}

/**
 * A number that a double may not hold, at the beginning or behind a bracket, colon or comma; also inside of strings, which few addresses
 * are that contain a digit and an `e`.
 */
const ODD_NUMBER = /(?:^|[[:,])\s*-?(?:[\d.]{16}|\d+(?:\.\d+)?[eE]|(?<=-)0)/;
const NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Like `parseExact`; other numbers that a double cannot hold exactly, such as 1e400, become `JsonNumber`. */
export function parseVerbatim(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  if (!ODD_NUMBER.test(text)) return parsed;
  return parseMarked(
    text,
    NUMBERS,
    (token) => !isDouble(token),
    (token) => (/^-?[1-9]\d*$/.test(token) ? BigInt(token) : new JsonNumber(token)),
  );
}

/** Whether the double of a JSON number has its value; 0 and -0 are different values. */
function isDouble(token: string): boolean {
  const double = Number(token);
  return String(double) === token || (Number.isFinite(double) && decimalOf(String(double)) === decimalOf(token));
}

/** The digits and the power of ten of a finite number, in one form for each value. */
function decimalOf(token: string): string {
  const [sign, unsigned] = token.startsWith('-') ? ['-', token.slice(1)] : ['', token];
  const [mantissa = '', power = '0'] = unsigned.split(/[eE]/);
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  let end = digits.length;
  while (end > 0 && digits[end - 1] === '0') end--;
  const exponent = end === 0 ? 0 : Number(power) - fraction.length + digits.length - end;
  return `${sign}${digits.slice(0, end)}e${exponent}`;
}

/** Stand in place of values, as texts that begin with a character that texts of JSON have only escaped. */
const [NUMBER_MARK, TEXT_MARK] = ['\\u0000n', '\\u0000t'];
const NAME_END = /\s*:/y;

/** Parses JSON text with other values in place of some numbers. Throws SyntaxError. */
function parseMarked(
  text: string,
  tokens: RegExp,
  isOther: (token: string) => boolean,
  make: (token: string) => unknown,
): unknown {
  let isMarked = false;
  const marked = text.replace(tokens, (token, at: number) => {
    const isText = token.startsWith('"');
    // Leading zeros are no JSON, and stay so.
    if (isText ? !token.startsWith('"\\u0000') : /^-?0\d/.test(token) || !isOther(token)) return token;
    // A name stays a name, and a number in its place no JSON.
    NAME_END.lastIndex = at + token.length;
    if (NAME_END.test(text)) return token;
    isMarked ||= !isText;
    return isText ? `"${TEXT_MARK}${token.slice('"\\u0000'.length)}` : `"${NUMBER_MARK}${token}"`;
  });
  if (!isMarked) return JSON.parse(text);
  return JSON.parse(marked, (_key, value: unknown) => {
    if (typeof value !== 'string' || !value.startsWith('\0')) return value;
    return value[1] === 'n' ? make(value.slice(2)) : `\0${value.slice(2)}`;
  });
}

/**
 * Locates and cuts parts of JSON texts without parsing them, and without checking what is inside them; `json-cursor.ts` checks.
 */

/** The value of one member of an object, as a range of the scanned bytes. */
export interface JsonMember {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COLON = 0x3a;
const COMMA = 0x2c;
/** Up to this length strings are scanned byte by byte; for longer ones the native search is faster despite its call overhead. */
const SHORT_STRING = 64;

/**
 * The members of the JSON object that fills `bytes` between `start` and `end`, in order and with duplicates, without parsing
 * the values: integers of any size, escapes and blanks stay unchanged. Null if the range does not contain exactly one
 * complete object. Brackets, strings and separators of the object itself are checked; the inside of values only for balance.
 */
export function objectMembers(bytes: Buffer, start = 0, end = bytes.length): JsonMember[] | null {
  let at = skipBlanks(bytes, start, end);
  if (bytes[at] !== OPEN_OBJECT || at >= end) return null;
  const members: JsonMember[] = [];
  at = skipBlanks(bytes, at + 1, end);
  if (at < end && bytes[at] === CLOSE_OBJECT) return skipBlanks(bytes, at + 1, end) === end ? members : null;
  for (;;) {
    const nameEnd = at < end && bytes[at] === QUOTE ? skipString(bytes, at, end) : -1;
    if (nameEnd < 0) return null;
    const name = memberName(bytes, at, nameEnd);
    at = skipBlanks(bytes, nameEnd, end);
    if (name === null || at >= end || bytes[at] !== COLON) return null;
    const valueStart = skipBlanks(bytes, at + 1, end);
    const valueEnd = skipValue(bytes, valueStart, end);
    if (valueEnd < 0) return null;
    members.push({ name, start: valueStart, end: valueEnd });
    at = skipBlanks(bytes, valueEnd, end);
    if (at >= end) return null;
    if (bytes[at] === CLOSE_OBJECT) return skipBlanks(bytes, at + 1, end) === end ? members : null;
    if (bytes[at] !== COMMA) return null;
    at = skipBlanks(bytes, at + 1, end);
  }
}

/** The items of the JSON array that fills the range, like `objectMembers` for objects. */
export function arrayItems(
  bytes: Buffer,
  start = 0,
  end = bytes.length,
): { readonly start: number; readonly end: number }[] | null {
  let at = skipBlanks(bytes, start, end);
  if (bytes[at] !== OPEN_ARRAY || at >= end) return null;
  const items: { start: number; end: number }[] = [];
  at = skipBlanks(bytes, at + 1, end);
  if (at < end && bytes[at] === CLOSE_ARRAY) return skipBlanks(bytes, at + 1, end) === end ? items : null;
  for (;;) {
    const itemEnd = skipValue(bytes, at, end);
    if (itemEnd < 0) return null;
    items.push({ start: at, end: itemEnd });
    at = skipBlanks(bytes, itemEnd, end);
    if (at >= end) return null;
    if (bytes[at] === CLOSE_ARRAY) return skipBlanks(bytes, at + 1, end) === end ? items : null;
    if (bytes[at] !== COMMA) return null;
    at = skipBlanks(bytes, at + 1, end);
  }
}

/** The text without the blanks between its tokens; blanks inside strings stay. Meant for small, valid JSON. */
export function withoutBlanks(text: string): string {
  if (!/[ \t\r\n]/.test(text)) return text;
  return text.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, (_, string: string | undefined) => string ?? '');
}

/** Whether containers are nested deeper than this, or there are more values (members and items). Counts what is outside strings, of valid JSON. */
export function exceeds(bytes: Buffer, max: { readonly depth: number; readonly values?: number }): boolean {
  const maxValues = max.values ?? Number.POSITIVE_INFINITY;
  let depth = 0;
  let values = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = skipString(bytes, at, bytes.length);
      if (at < 0) return false;
      continue;
    }
    at++;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      depth++;
      values++;
      if (depth > max.depth || values > maxValues) return true;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
    else if (byte === COMMA) {
      values++;
      if (values > maxValues) return true;
    }
  }
  return false;
}

function memberName(bytes: Buffer, start: number, end: number): string | null {
  for (let i = start; i < end; i++) if (bytes[i] === BACKSLASH) return unescaped(bytes.toString('utf8', start, end));
  return bytes.toString('utf8', start + 1, end - 1);
}

function unescaped(text: string): string | null {
  try {
    return JSON.parse(text) as string;
  } catch {
    return null;
  }
}

/** The first position that is not a blank, at most `end`. */
export function skipBlanks(bytes: Buffer, from = 0, end = bytes.length): number {
  let at = from;
  while (at < end) {
    const byte = bytes[at]!;
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    at++;
  }
  return at;
}

/** End of the string that starts at `start` (after its quote), or -1. */
function skipString(bytes: Buffer, start: number, end: number): number {
  const near = Math.min(end, start + 1 + SHORT_STRING);
  let at = start + 1;
  while (at < near) {
    const byte = bytes[at]!;
    if (byte === QUOTE) return at + 1;
    at += byte === BACKSLASH ? 2 : 1;
  }
  for (;;) {
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0 || quote >= end) return -1;
    // A quote after an odd number of backslashes belongs to the string; `at` is never inside an escape.
    let slashes = 0;
    while (quote - slashes > at && bytes[quote - slashes - 1] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** End of the value that starts at `start`, or -1. */
function skipValue(bytes: Buffer, start: number, end: number): number {
  if (start >= end) return -1;
  const first = bytes[start]!;
  if (first === QUOTE) return skipString(bytes, start, end);
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) return skipContainer(bytes, start, end);
  let at = start;
  while (at < end && isScalarByte(bytes[at]!)) at++;
  return at === start ? -1 : at;
}

function skipContainer(bytes: Buffer, start: number, end: number): number {
  let depth = 0;
  let at = start;
  while (at < end) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = skipString(bytes, at, end);
      if (at < 0) return -1;
      continue;
    }
    at++;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      depth--;
      if (depth === 0) return at;
    }
  }
  return -1;
}

/** Letters, digits, plus, minus, point: the characters of numbers and of the three literals. */
function isScalarByte(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x45 ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e
  );
}
