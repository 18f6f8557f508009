import { decode, decode32, encode, encode32 } from '../lib/base58.ts';
import { walkWire } from '../solana/decode/walk-wire.ts';
import { eachTableKey, emptyLayout } from '../solana/decode/wire-layout.ts';

/**
 * A reversible form of the JSON text of a block that compresses well. The text is cut into runs (punctuation, member names, `null`, `true`,
 * `false`) and the values between them. A run and the kind of the value behind it are a token, each different one written once; the values
 * of a token form a column. Keys of 32 bytes are written once per block. No member is known by name, so that nodes may add some.
 *
 * Layout, numbers as LEB128: length of the text · count of keys, keys · count of tokens, for each: kind, length and bytes of the run ·
 * length and bytes of the sequence of tokens · for each token: length and bytes of its column.
 */

/** What stands behind a run. The numbers are part of the format. */
const END = 0;
const INTEGER = 1;
const KEY = 2;
const BASE58 = 3;
const BASE64 = 4;
const TEXT = 5;
const INTEGERS = 6;
const BYTES = 7;
const DIGITS = 8;
const LITERAL = 9;
/** The number and the text that follow from the digits and decimals before them. */
const UI_NUMBER = 10;
const UI_TEXT = 11;
const WIRE = 12;
const KINDS = 13;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const BACKSLASH = 0x5c;
const isDigit = (byte: number | undefined) => byte !== undefined && byte >= 0x30 && byte <= 0x39;

/** Within texts, which hold no control characters. */
const TEXT_END = 0;
const TEXT_KEY = 1;
const TEXT_BASE64 = 2;
const ADDRESS = /[1-9A-HJ-NP-Za-km-z]{32,44}/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the marks above
const MARKS = /[\u0000-\u0002]/;
const PROGRAM_DATA = 'Program data: ';
/** Decoding base58 takes time that grows with the square of the length. */
const LONGEST_BASE58 = 512;
const SHORTEST_BASE64 = 12;
const LARGEST = 2 ** 52;

/** Bytes that grow. */
class Sink {
  bytes = Buffer.allocUnsafe(256);
  length = 0;

  private room(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.length + count));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }

  byte(value: number): void {
    this.room(1);
    this.bytes[this.length++] = value;
  }

  number(value: number): void {
    this.room(8);
    let rest = value;
    while (rest > 0x7f) {
      this.bytes[this.length++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.bytes[this.length++] = rest;
  }

  put(part: Uint8Array): void {
    this.room(part.length);
    this.bytes.set(part, this.length);
    this.length += part.length;
  }

  latin1(text: string): void {
    this.room(text.length);
    this.bytes.write(text, this.length, 'latin1');
    this.length += text.length;
  }

  sized(part: Uint8Array): void {
    this.number(part.length);
    this.put(part);
  }

  get used(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

class Source {
  at = 0;
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  byte(): number {
    if (this.at >= this.bytes.length) throw new RangeError('the encoded block ends early');
    return this.bytes[this.at++]!;
  }

  number(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  take(count: number): Buffer {
    if (this.at + count > this.bytes.length) throw new RangeError('the encoded block ends early');
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  sized(): Buffer {
    return this.take(this.number());
  }
}

const zigzag = (value: number) => (value < 0 ? -2 * value - 1 : 2 * value);
const unzigzag = (value: number) => (value % 2 === 0 ? value / 2 : -(value + 1) / 2);

/** The amount of a token as nodes write it: without trailing zeros. */
function uiText(digits: string, decimals: number): string {
  if (decimals === 0) return digits;
  const padded = digits.padStart(decimals + 1, '0');
  const fraction = padded.slice(-decimals).replace(/0+$/, '');
  const whole = padded.slice(0, -decimals);
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

function uiNumber(text: string): string {
  const number = String(Number(text));
  return /^\d+$/.test(number) ? `${number}.0` : number;
}

/** Values that later ones are compared with; the same while encoding and decoding. */
class Context {
  private readonly lists = new Map<number, readonly number[]>();
  private digits = '';
  private decimals = 0;
  private expected: string | null = null;

  sawDigits(text: string): void {
    this.digits = text;
    this.expected = null;
  }

  sawInteger(value: number): void {
    this.decimals = value;
    this.expected = null;
  }

  /** Null when no amount of a token can stand here. */
  uiText(): string | null {
    if (this.digits === '' || this.decimals > 30) return null;
    this.expected ??= uiText(this.digits, this.decimals);
    return this.expected;
  }

  listBefore(list: readonly number[]): readonly number[] | undefined {
    const before = this.lists.get(list.length);
    this.lists.set(list.length, list);
    return before;
  }
}

interface Token {
  readonly run: Buffer;
  readonly kind: number;
  readonly column: Sink;
}

class Encoder {
  private readonly ids = new Map<string, number>();
  /** Numbers of keys by their base58 text: most texts recur. */
  private readonly texts = new Map<string, number>();
  private readonly keys = new Sink();
  private readonly runs = new Map<string, number>();
  private readonly tokenOf: (number | undefined)[] = [];
  private readonly tokens: Token[] = [];
  private readonly sequence = new Sink();
  private readonly context = new Context();
  private runFrom = 0;
  private readonly text: Buffer;

  constructor(text: Buffer) {
    this.text = text;
  }

  encode(): Buffer {
    const { text } = this;
    let at = 0;
    while (at < text.length) {
      const byte = text[at]!;
      if (byte === QUOTE) at = this.string(at);
      else if (byte === OPEN && isDigit(text[at + 1])) at = this.list(at);
      else if (byte === 0x2d || isDigit(byte)) at = this.scalar(at);
      else at++;
    }
    this.column(END, text.length);
    return this.written();
  }

  private written(): Buffer {
    const out = new Sink();
    out.number(this.text.length);
    out.number(this.ids.size);
    out.put(this.keys.used);
    out.number(this.tokens.length);
    for (const { run, kind } of this.tokens) {
      out.byte(kind);
      out.sized(run);
    }
    out.sized(this.sequence.used);
    for (const { column } of this.tokens) out.sized(column.used);
    return out.used;
  }

  /** The column of a value of this kind at `at`, which ends the run. */
  private column(kind: number, at: number): Sink {
    const run = this.text.toString('latin1', this.runFrom, at);
    let known = this.runs.get(run);
    if (known === undefined) {
      known = this.runs.size;
      this.runs.set(run, known);
    }
    let id = this.tokenOf[known * KINDS + kind];
    if (id === undefined) {
      id = this.tokens.length;
      this.tokens.push({ run: Buffer.from(run, 'latin1'), kind, column: new Sink() });
      this.tokenOf[known * KINDS + kind] = id;
    }
    this.sequence.number(id);
    return this.tokens[id]!.column;
  }

  private keyId(key: Buffer): number {
    const name = key.toString('latin1', 0, 32);
    let id = this.ids.get(name);
    if (id === undefined) {
      id = this.ids.size;
      this.ids.set(name, id);
      this.keys.put(key);
    }
    return id;
  }

  /** The number of an address; -1 for another text. */
  private textId(text: string): number {
    const known = this.texts.get(text);
    if (known !== undefined) return known;
    const key = decode32(text);
    if (key === null) return -1;
    const id = this.keyId(Buffer.from(key));
    this.texts.set(text, id);
    return id;
  }

  /** As `textId` for keys that the table has already. */
  private knownId(text: string): number | undefined {
    const key = decode32(text);
    const id = key === null ? undefined : this.ids.get(Buffer.from(key).toString('latin1', 0, 32));
    if (id !== undefined) this.texts.set(text, id);
    return id;
  }

  private string(from: number): number {
    const { text } = this;
    let end = text.indexOf(QUOTE, from + 1);
    while (end > 0 && text[end - 1] === BACKSLASH && isEscaped(text, end)) end = text.indexOf(QUOTE, end + 1);
    if (end < 0) return text.length;
    if (text[end + 1] === COLON) return end + 1;
    const value = text.toString('latin1', from + 1, end);
    // No JSON text holds them; what does stays within a run.
    if (MARKS.test(value)) return end + 1;
    // The quotes belong to the runs on both sides.
    this.stringValue(value, from + 1);
    this.runFrom = end;
    return end + 1;
  }

  private stringValue(value: string, at: number): void {
    const { context } = this;
    if (value.length <= 16 && /^(0|[1-9]\d*)$/.test(value) && Number(value) < LARGEST) {
      if (context.uiText() === value) this.column(UI_TEXT, at);
      else {
        context.sawDigits(value);
        this.column(DIGITS, at).number(Number(value));
      }
      return;
    }
    if (value.length <= 40 && context.uiText() === value) {
      this.column(UI_TEXT, at);
      return;
    }
    if (value.length >= 32 && value.length <= 44) {
      const id = this.textId(value);
      if (id >= 0) {
        this.column(KEY, at).number(id);
        return;
      }
    }
    if (value.length > 1 && value.length <= LONGEST_BASE58 && !value.includes(' ')) {
      const bytes = /[=+/]/.test(value) ? null : decode(value);
      if (bytes !== null) {
        this.column(BASE58, at).sized(bytes);
        return;
      }
    }
    if (value.length >= SHORTEST_BASE64 && value.length % 4 === 0 && !value.includes(' ')) {
      const bytes = Buffer.from(value, 'base64');
      if (bytes.toString('base64') === value) {
        if (!this.wire(bytes, at)) this.column(BASE64, at).sized(bytes);
        return;
      }
    }
    this.words(value, this.column(TEXT, at));
  }

  /** Bytes of a transaction: keys and hashes become numbers of the table. */
  private wire(bytes: Buffer, at: number): boolean {
    if (bytes.length < 134) return false;
    const layout = emptyLayout();
    if (walkWire({ bytes, at: 0, end: bytes.length }, layout) !== null) return false;
    const keysAt = [layout.blockhashAt];
    for (let key = 0; key < layout.keyCount; key++) keysAt.push(layout.keysAt + key * 32);
    if (layout.lookupCount > 0) eachTableKey(bytes, layout, (place) => void keysAt.push(place));
    keysAt.sort((a, b) => a - b);
    const column = this.column(WIRE, at);
    column.number(bytes.length);
    column.number(keysAt.length);
    let from = 0;
    for (const place of keysAt) {
      column.number(place - from);
      column.put(bytes.subarray(from, place));
      column.number(this.keyId(bytes.subarray(place, place + 32)));
      from = place + 32;
    }
    column.put(bytes.subarray(from));
    return true;
  }

  private words(value: string, column: Sink): void {
    let from = 0;
    if (value.startsWith(PROGRAM_DATA)) {
      const parts = value.slice(PROGRAM_DATA.length).split(' ');
      const bytes = parts.map((part) => Buffer.from(part, 'base64'));
      if (parts.every((part, index) => bytes[index]!.toString('base64') === part)) {
        column.latin1(PROGRAM_DATA);
        for (const [index, part] of bytes.entries()) {
          if (index > 0) column.latin1(' ');
          column.byte(TEXT_BASE64);
          column.sized(part);
        }
        column.byte(TEXT_END);
        return;
      }
    }
    if (value.length >= 32)
      for (const { 0: word, index } of value.matchAll(ADDRESS)) {
        const id = this.texts.get(word) ?? this.knownId(word);
        if (id === undefined) continue;
        column.latin1(value.slice(from, index));
        column.byte(TEXT_KEY);
        column.number(id);
        from = index + word.length;
      }
    column.latin1(value.slice(from));
    column.byte(TEXT_END);
  }

  /** A list of non-negative integers, else the bracket alone is passed. */
  private list(from: number): number {
    const { text } = this;
    const list: number[] = [];
    let most = 0;
    let at = from + 1;
    for (;;) {
      let value = 0;
      const start = at;
      for (; isDigit(text[at]); at++) value = value * 10 + text[at]! - 0x30;
      const isCanonical = at > start && at - start <= 16 && (text[start] !== 0x30 || at === start + 1);
      if (!isCanonical || value >= LARGEST) return from + 1;
      list.push(value);
      most = Math.max(most, value);
      const next = text[at++];
      if (next === CLOSE) break;
      if (next !== COMMA) return from + 1;
    }
    if (most < 256) this.column(BYTES, from).sized(Uint8Array.from(list));
    else {
      const column = this.column(INTEGERS, from);
      const before = this.context.listBefore(list);
      column.number(list.length);
      for (const [index, value] of list.entries()) column.number(zigzag(value - (before?.[index] ?? 0)));
    }
    this.runFrom = at;
    return at;
  }

  private scalar(from: number): number {
    const { text, context } = this;
    let at = from;
    let value = 0;
    for (; isDigit(text[at]); at++) value = value * 10 + text[at]! - 0x30;
    const isRest = at > from && !isNumberByte(text[at]);
    const isCanonical = at - from <= 16 && (text[from] !== 0x30 || at === from + 1) && value < LARGEST;
    if (isRest && isCanonical) {
      this.column(INTEGER, from).number(value);
      context.sawInteger(value);
    } else {
      while (isNumberByte(text[at])) at++;
      const literal = text.toString('latin1', from, at);
      const expected = context.uiText();
      if (expected !== null && uiNumber(expected) === literal) this.column(UI_NUMBER, from);
      else {
        const column = this.column(LITERAL, from);
        column.latin1(literal);
        column.byte(TEXT_END);
      }
    }
    this.runFrom = at;
    return at;
  }
}

/** Digits, sign, point and exponent. */
const isNumberByte = (byte: number | undefined) =>
  isDigit(byte) || byte === 0x2d || byte === 0x2b || byte === 0x2e || byte === 0x65 || byte === 0x45;

/** Whether an odd number of backslashes stands before this place. */
function isEscaped(text: Buffer, at: number): boolean {
  let from = at;
  while (from > 0 && text[from - 1] === BACKSLASH) from--;
  return (at - from) % 2 === 1;
}

/** Always reversible, for any bytes. */
export const encodeText = (text: Buffer): Buffer => new Encoder(text).encode();

/** Throws RangeError when the bytes are not of `encodeText`. */
export function decodeText(bytes: Buffer): Buffer {
  const source = new Source(bytes);
  const length = source.number();
  const keyCount = source.number();
  const keys = source.take(keyCount * 32);
  const tokens = Array.from({ length: source.number() }, () => ({ kind: source.byte(), run: source.sized() }));
  const sequence = new Source(source.sized());
  const columns = tokens.map(() => new Source(source.sized()));
  const out = new Sink();
  out.bytes = Buffer.allocUnsafe(Math.max(1, Math.min(length, bytes.length * 64)));
  const context = new Context();
  const addresses: (string | undefined)[] = [];
  const address = (id: number) => {
    if (id >= keyCount) throw new RangeError('a key is missing');
    addresses[id] ??= encode32(keys, id * 32);
    return addresses[id]!;
  };
  const expected = () => {
    const text = context.uiText();
    if (text === null) throw new RangeError('an amount is missing');
    return text;
  };
  while (sequence.at < sequence.bytes.length) {
    const id = sequence.number();
    const token = tokens[id];
    if (token === undefined) throw new RangeError('a token is missing');
    const column = columns[id]!;
    out.put(token.run);
    switch (token.kind) {
      case END:
        break;
      case INTEGER: {
        const value = column.number();
        out.latin1(String(value));
        context.sawInteger(value);
        break;
      }
      case KEY:
        out.latin1(address(column.number()));
        break;
      case BASE58:
        out.latin1(encode(column.sized()));
        break;
      case BASE64:
        out.latin1(column.sized().toString('base64'));
        break;
      case TEXT:
        for (let byte = column.byte(); byte !== TEXT_END; byte = column.byte()) {
          if (byte === TEXT_KEY) out.latin1(address(column.number()));
          else if (byte === TEXT_BASE64) out.latin1(column.sized().toString('base64'));
          else out.byte(byte);
        }
        break;
      case BYTES:
        out.latin1(`[${column.sized().join(',')}]`);
        break;
      case INTEGERS: {
        const list: number[] = new Array(column.number()).fill(0);
        const before = context.listBefore(list);
        for (let index = 0; index < list.length; index++)
          list[index] = unzigzag(column.number()) + (before?.[index] ?? 0);
        out.latin1(`[${list.join(',')}]`);
        break;
      }
      case DIGITS: {
        const digits = String(column.number());
        out.latin1(digits);
        context.sawDigits(digits);
        break;
      }
      case LITERAL:
        for (let byte = column.byte(); byte !== TEXT_END; byte = column.byte()) out.byte(byte);
        break;
      case UI_NUMBER:
        out.latin1(uiNumber(expected()));
        break;
      case UI_TEXT:
        out.latin1(expected());
        break;
      case WIRE:
        out.latin1(wireOf(column, keys).toString('base64'));
        break;
      default:
        throw new RangeError('a kind of value is unknown');
    }
  }
  if (out.length !== length) throw new RangeError('the text has another length');
  return out.used;
}

function wireOf(column: Source, keys: Buffer): Buffer {
  const wire = Buffer.allocUnsafe(column.number());
  const count = column.number();
  let at = 0;
  for (let index = 0; index < count; index++) {
    at += column.take(column.number()).copy(wire, at);
    const key = column.number() * 32;
    at += keys.copy(wire, at, key, key + 32);
  }
  column.take(wire.length - at).copy(wire, at);
  return wire;
}
