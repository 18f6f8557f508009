import { decode, decode32Into, encode, encode32 } from '../lib/base58.ts';
import { walkWire } from '../solana/decode/walk-wire.ts';
import { eachTableKey, emptyLayout } from '../solana/decode/wire-layout.ts';
import { ByteSink, ownText, Source } from './bytes.ts';
import { type BlockUsage, type Dictionary, type DictionaryToken, MAX_PRESET_BYTES } from './dictionary.ts';

/**
 * A reversible form of JSON text that compresses well. A text is cut into runs (punctuation, member names, `null`, `true`, `false`) and the
 * values between them. A run and the kind of the value after it are a token; the values of a token form a column. Keys of 32 bytes and
 * tokens are in tables that all parts of a block share; before them come those of a dictionary that many blocks share. The format knows
 * only the members of token amounts by name, so nodes may add members.
 *
 * A part, numbers as LEB128: length of the text · sequence of tokens · keys of transactions · count of columns, then the columns in the order
 * of their first use; each of them with its length.
 */

/** The kind of value after a run. The numbers are part of the format. */
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
/** Number, decimals, digits and text of the amount of a token, of which the decimals and digits are written. */
const AMOUNT = 10;
/** The text of an amount that follows from the digits and decimals before it. */
const UI_TEXT = 11;
const WIRE = 12;
const KINDS = 13;

/** How a text is written: the first byte of its value. */
const WORDS = 0;
const LINE = 1;
/** `Program KEY invoke [1]`, and one level below the program before. */
const INVOKE_FIRST = 2;
const INVOKE = 3;
/** Log lines of the program that was invoked last. */
const SUCCESS = 4;
const FAILED = 5;
const CONSUMED = 6;
const PROGRAM_DATA = 7;
const PROGRAM_RETURN = 8;
/** A line that ends in base64. */
const TAIL = 9;

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
const ADDRESS = /[1-9A-HJ-NP-Za-km-z]{32,44}/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the marks above
const MARKS = /[\u0000-\u0002]/;
const DATA_PREFIX = 'Program data: ';
const RETURN_PREFIX = 'Program return: ';
const LOG_PREFIX = 'Program log: ';
const AMOUNT_DECIMALS = Buffer.from(',"decimals":');
const AMOUNT_DIGITS = Buffer.from(',"amount":"');
const AMOUNT_TEXT = Buffer.from('","uiAmountString":"');
/** Decoding base58 takes time that grows with the square of the length. */
const LONGEST_BASE58 = 512;
const SHORTEST_BASE64 = 12;
const LARGEST = 2 ** 52;
/** Characters of a log line that may become part of a dictionary. */
const LONGEST_LINE = 160;
const MAX_WIRE_BYTES = 65_536;
const MAX_NUMBER_BYTES = 8;

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

const NOTHING: readonly number[] = [];

/** Values that later ones are compared with; the same while encoding and decoding. */
class Context {
  private digits = '';
  private decimals = 0;
  private expected: string | null = null;
  /** Ids of the keys of the transaction, and the lists of integers since then: balances before and after. */
  private keys: readonly number[] = [];
  private before: readonly number[] | null = null;
  private lists = 0;
  /** The newest balance of each key. */
  private readonly balances = new Map<number, number>();
  /** Ids of the programs that are running. */
  readonly programs: number[] = [];
  private units = 0;
  private unitsLeft = 0;

  sawDigits(text: string): void {
    this.digits = text;
    this.expected = null;
  }

  sawInteger(value: number): void {
    this.decimals = value;
    this.expected = null;
  }

  /** Null when no token amount is possible here. */
  uiText(): string | null {
    if (this.digits === '' || this.decimals > 30) return null;
    this.expected ??= uiText(this.digits, this.decimals);
    return this.expected;
  }

  sawWire(keys: readonly number[]): void {
    this.keys = keys;
    this.before = null;
    this.lists = 0;
  }

  /** What the next list of integers is compared with; missing places count as 0. */
  expectedList(length: number): readonly number[] {
    if (this.lists === 1 && this.before?.length === length) return this.before;
    if (this.lists > 0 || length < this.keys.length) return NOTHING;
    const list: number[] = [];
    for (const key of this.keys) list.push(this.balances.get(key) ?? 0);
    return list;
  }

  sawList(list: readonly number[]): void {
    if (this.lists === 0) this.before = list;
    if (this.lists === 1 && list.length >= this.keys.length)
      for (const [index, key] of this.keys.entries()) this.balances.set(key, list[index]!);
    this.lists += 1;
  }

  get expectedUnits(): number {
    return this.programs.length === 1 ? this.unitsLeft : this.units;
  }

  sawUnits(used: number, of: number): void {
    this.units = of;
    if (this.programs.length === 1) this.unitsLeft = of - used;
  }
}

/** The keys and tokens of a block that the dictionary lacks, while it is encoded. */
export class BlockTables {
  readonly dictionary: Dictionary;
  readonly keys = new ByteSink();
  readonly tokens: DictionaryToken[];
  private readonly known: number;
  /** Ranks of the dictionary's keys that the block uses. */
  readonly used: Uint8Array;
  /** Lines of logs that are written in full, and how often. */
  readonly lines = new Map<string, number>();
  private keyCount = 0;
  private readonly scratch = Buffer.alloc(32);
  private readonly keyIds = new Map<string, number>();
  private readonly textIds = new Map<string, number>();
  /** By kind, then by run. */
  private readonly tokenIds: readonly Map<string, number>[];
  /** The token that followed each token the last time. */
  readonly next: number[] = [];
  /** Columns of parts that are written, for the next part. */
  readonly spare: ByteSink[] = [];

  constructor(dictionary: Dictionary) {
    this.dictionary = dictionary;
    this.used = new Uint8Array(dictionary.keyIds.size);
    this.tokens = [...dictionary.tokens];
    this.known = this.tokens.length;
    this.tokenIds = Array.from({ length: KINDS }, () => new Map<string, number>());
    for (const [id, { kind, run }] of this.tokens.entries()) this.tokenIds[kind]!.set(run.toString('latin1'), id);
  }

  tokenId(run: string, kind: number): number {
    const ids = this.tokenIds[kind]!;
    let id = ids.get(run);
    if (id === undefined) {
      id = this.tokens.length;
      this.tokens.push({ kind, run: Buffer.from(run, 'latin1') });
      ids.set(run, id);
    }
    return id;
  }

  /** The number of a key, given by its bytes as latin1. Even numbers are of the dictionary, odd ones of the block. */
  keyId(name: string): number {
    const known = this.knownKeyId(name);
    if (known !== undefined) return known;
    const id = this.keyCount++ * 2 + 1;
    this.keyIds.set(name, id);
    this.keys.latin1(name);
    return id;
  }

  /** Undefined for a key that no table has. */
  private knownKeyId(name: string): number | undefined {
    const rank = this.dictionary.keyIds.get(name);
    if (rank === undefined) return this.keyIds.get(name);
    this.used[rank] = 1;
    return rank * 2;
  }

  /** The number of an address; -1 for another text. */
  textId(text: string): number {
    return this.remembered(text) ?? this.read(text, (name) => this.keyId(name)) ?? -1;
  }

  /** Like `textId`, but undefined for keys that are in no table. */
  knownId(text: string): number | undefined {
    return this.remembered(text) ?? this.read(text, (name) => this.knownKeyId(name));
  }

  private remembered(text: string): number | undefined {
    const known = this.dictionary.textIds.get(text);
    if (known !== undefined) this.used[known >>> 1] = 1;
    return known ?? this.textIds.get(text);
  }

  private read(text: string, idOf: (name: string) => number | undefined): number | undefined {
    if (!decode32Into(text, this.scratch, 0)) return undefined;
    const id = idOf(this.scratch.toString('latin1'));
    if (id === undefined) return undefined;
    if (id % 2 === 0) this.dictionary.textIds.set(ownText(text), id);
    else this.textIds.set(text, id);
    return id;
  }

  /** For the dictionary of the next file. `part`: of this block, as it is before compression. */
  seen(part: Buffer): BlockUsage {
    const newTokens = this.tokens.slice(this.known);
    return {
      used: this.used,
      keys: this.keys.used,
      lines: this.lines,
      newTokens,
      part: part.subarray(0, MAX_PRESET_BYTES),
    };
  }

  written(): Buffer {
    const out = new ByteSink();
    out.number(this.tokens.length - this.known);
    for (const { kind, run } of this.tokens.slice(this.known)) {
      out.byte(kind);
      out.sized(run);
    }
    return out.used;
  }
}

/** Signatures that stand outside the parts, in the order of the transactions; each is used once. */
export interface Signatures {
  readonly bytes: Buffer;
  /** Bytes from one signature to the next. */
  readonly stride: number;
  /** Offset of the signature of the next transaction. */
  at: number;
}

class Encoder {
  private readonly columns: ByteSink[] = [];
  private readonly columnOf: (ByteSink | undefined)[] = [];
  private readonly sequence: ByteSink;
  private readonly ids: ByteSink;
  private readonly context = new Context();
  private runFrom = 0;
  private last = 0;
  private readonly text: Buffer;
  /** The text as latin1: a value of it is cut out without a copy. */
  private readonly chars: string;
  private readonly layout = emptyLayout();
  private readonly tables: BlockTables;
  private readonly signatures: Signatures;

  constructor(text: Buffer, tables: BlockTables, signatures: Signatures) {
    this.text = text;
    this.chars = text.toString('latin1');
    this.sequence = tables.spare.pop() ?? new ByteSink();
    this.ids = tables.spare.pop() ?? new ByteSink();
    this.tables = tables;
    this.signatures = signatures;
  }

  encode(): Buffer {
    const { text } = this;
    const { tokens, next } = this.tables;
    let at = 0;
    while (at < text.length) {
      // Usually the same token follows as the last time.
      const guess = next[this.last];
      if (guess !== undefined && at === this.runFrom) {
        const { run } = tokens[guess]!;
        let same = 0;
        while (same < run.length && run[same] === text[at + same]) same++;
        if (same === run.length) {
          const after = this.value(at + same, run[same - 1] === QUOTE);
          if (after >= 0) {
            at = after;
            continue;
          }
        }
      }
      const byte = text[at]!;
      if (byte === QUOTE) {
        const after = this.string(at + 1);
        at = after < 0 ? this.endOfString(at + 1) + 1 : after;
      } else if (byte === OPEN && isDigit(text[at + 1])) {
        const after = this.list(at);
        at = after < 0 ? at + 1 : after;
      } else if (byte === 0x2d || isDigit(byte)) at = this.scalar(at);
      else at++;
    }
    this.column(END, text.length);
    return this.written();
  }

  /** A value at this place; -1 when none begins here. */
  private value(at: number, isString: boolean): number {
    if (isString) return this.string(at);
    const byte = this.text[at];
    if (byte === OPEN && isDigit(this.text[at + 1])) return this.list(at);
    return byte === 0x2d || isDigit(byte) ? this.scalar(at) : -1;
  }

  private written(): Buffer {
    const { columns, ids, sequence, tables } = this;
    const sinks = [sequence, ids, ...columns];
    const out = new ByteSink(sinks.reduce((sum, { length }) => sum + length + MAX_NUMBER_BYTES, 2 * MAX_NUMBER_BYTES));
    out.number(this.text.length);
    out.sized(sequence.used);
    out.sized(ids.used);
    out.number(columns.length);
    for (const column of columns) out.sized(column.used);
    for (const sink of sinks) sink.length = 0;
    tables.spare.push(...sinks);
    return out.used;
  }

  /** The column of a value of this kind at `at`, which ends the run. */
  private column(kind: number, at: number): ByteSink {
    const { tables, text, runFrom, last } = this;
    const guess = tables.next[last];
    let id = -1;
    if (guess !== undefined) {
      const token = tables.tokens[guess]!;
      if (token.kind === kind && token.run.length === at - runFrom) {
        let same = 0;
        while (same < token.run.length && token.run[same] === text[runFrom + same]) same++;
        if (same === token.run.length) id = guess;
      }
    }
    if (id < 0) {
      id = tables.tokenId(this.chars.slice(runFrom, at), kind);
      tables.next[last] = id;
    }
    this.last = id;
    this.sequence.number(id);
    let column = this.columnOf[id];
    if (column === undefined) {
      column = tables.spare.pop() ?? new ByteSink();
      this.columnOf[id] = column;
      this.columns.push(column);
    }
    return column;
  }

  private endOfString(from: number): number {
    const { text, chars } = this;
    let end = chars.indexOf('"', from);
    while (end > 0 && text[end - 1] === BACKSLASH && isEscaped(text, end)) end = chars.indexOf('"', end + 1);
    return end < 0 ? text.length - 1 : end;
  }

  /** A text whose first character stands at `from`. -1 for a member name, and for what has to stay within a run. */
  private string(from: number): number {
    const { text } = this;
    const end = this.endOfString(from);
    if (end < from || text[end] !== QUOTE || text[end + 1] === COLON) return -1;
    const value = this.chars.slice(from, end);
    // The quotes belong to the runs on both sides.
    if (!this.stringValue(value, from)) return -1;
    this.runFrom = end;
    return end;
  }

  /** False for a text with control characters, which no JSON has. */
  private stringValue(value: string, at: number): boolean {
    const { context, tables } = this;
    const { length } = value;
    if (length <= 16 && /^(0|[1-9]\d*)$/.test(value) && Number(value) < LARGEST) {
      if (context.uiText() === value) this.column(UI_TEXT, at);
      else {
        context.sawDigits(value);
        this.column(DIGITS, at).number(Number(value));
      }
      return true;
    }
    if (length <= 40 && context.uiText() === value) {
      this.column(UI_TEXT, at);
      return true;
    }
    const isWord = !value.includes(' ');
    if (isWord && length >= 32 && length <= 44) {
      const id = tables.textId(value);
      if (id >= 0) {
        this.column(KEY, at).number(id);
        return true;
      }
    }
    if (isWord && length > 1 && length <= LONGEST_BASE58) {
      const bytes = decode(value);
      if (bytes !== null) {
        this.column(BASE58, at).sized(bytes);
        return true;
      }
    }
    if (isWord && length >= SHORTEST_BASE64 && length % 4 === 0) {
      const bytes = Buffer.from(value, 'base64');
      if (bytes.toString('base64') === value) {
        if (!this.wire(bytes, at)) this.column(BASE64, at).sized(bytes);
        return true;
      }
    }
    if (MARKS.test(value)) return false;
    this.line(value, this.column(TEXT, at));
    return true;
  }

  /** Bytes of a transaction: keys and hashes become numbers of the tables. */
  private wire(bytes: Buffer, at: number): boolean {
    if (bytes.length < 134 || bytes.length > MAX_WIRE_BYTES) return false;
    const { layout } = this;
    if (walkWire({ bytes, at: 0, end: bytes.length }, layout) !== null || layout.signatureCount === 0) return false;
    const { tables, signatures, ids } = this;
    const keysAt = [layout.blockhashAt];
    for (let key = 0; key < layout.keyCount; key++) keysAt.push(layout.keysAt + key * 32);
    if (layout.lookupCount > 0) eachTableKey(bytes, layout, (place) => void keysAt.push(place));
    keysAt.sort((a, b) => a - b);
    const column = this.column(WIRE, at);
    const { signaturesAt, keyCount } = layout;
    // Bytes of a transaction may also follow the last one: programs return arbitrary data.
    const isNext =
      signatures.at < signatures.bytes.length &&
      signatures.bytes.compare(bytes, signaturesAt, signaturesAt + 64, signatures.at, signatures.at + 64) === 0;
    if (isNext) signatures.at += signatures.stride;
    const firstKey = layout.blockhashAt < layout.keysAt ? 1 : 0;
    column.number(bytes.length);
    column.number(isNext ? signaturesAt + 1 : 0);
    column.number(keysAt.length);
    column.number(keyCount * 2 + firstKey);
    const between = (from: number, to: number) => {
      if (isNext && from <= signaturesAt && signaturesAt < to) {
        column.put(bytes.subarray(from, signaturesAt));
        column.put(bytes.subarray(signaturesAt + 64, to));
      } else column.put(bytes.subarray(from, to));
    };
    let from = 0;
    const keys: number[] = [];
    for (const place of keysAt) {
      column.number(place - from);
      between(from, place);
      const id = tables.keyId(bytes.toString('latin1', place, place + 32));
      ids.number(id);
      keys.push(id);
      from = place + 32;
    }
    between(from, bytes.length);
    this.context.sawWire(keys.slice(firstKey, firstKey + keyCount));
    return true;
  }

  /** A line of the log or any other text. */
  private line(value: string, column: ByteSink): void {
    const { context, tables } = this;
    // Most lines are the programs' own messages, which are never in a dictionary.
    if (value.startsWith('Program ')) {
      const end = value.indexOf(' ', 8);
      // `log:`, `data:` and `return:` are shorter than any key.
      const id = end < 40 ? -1 : tables.textId(value.slice(8, end));
      if (id >= 0 && this.event(id, value, end + 1, context, column)) return;
    }
    const known = tables.dictionary.lineIds.get(value);
    if (known !== undefined) {
      column.byte(LINE);
      column.number(known);
      return;
    }
    if (value.startsWith(DATA_PREFIX)) {
      const parts = value.slice(DATA_PREFIX.length).split(' ');
      const bytes = parts.map((part) => Buffer.from(part, 'base64'));
      if (parts.every((part, index) => bytes[index]!.toString('base64') === part)) {
        column.byte(PROGRAM_DATA);
        column.number(parts.length);
        for (const part of bytes) column.sized(part);
        return;
      }
    }
    if (value.startsWith(LOG_PREFIX) && this.tail(value, column)) return;
    if (value.startsWith(RETURN_PREFIX)) {
      const [key, data, ...rest] = value.slice(RETURN_PREFIX.length).split(' ');
      const id = tables.textId(key!);
      const bytes = Buffer.from(data ?? '', 'base64');
      if (id >= 0 && data !== undefined && rest.length === 0 && bytes.toString('base64') === data) {
        column.byte(PROGRAM_RETURN);
        column.number(id);
        column.sized(bytes);
        return;
      }
    }
    if (value.length <= LONGEST_LINE) tables.lines.set(value, (tables.lines.get(value) ?? 0) + 1);
    column.byte(WORDS);
    this.words(value, column);
  }

  /** What a log says, from a place on, of the program `id`. */
  private event(id: number, value: string, from: number, context: Context, column: ByteSink): boolean {
    const { programs } = context;
    if (value.startsWith('invoke [', from)) {
      const depth = value.endsWith('[1]') ? 1 : programs.length + 1;
      if (value.slice(from) !== `invoke [${depth}]`) return false;
      column.byte(depth === 1 ? INVOKE_FIRST : INVOKE);
      column.number(id);
      if (depth === 1) programs.length = 0;
      programs.push(id);
      return true;
    }
    if (programs.at(-1) !== id) return false;
    if (value.length === from + 7 && value.endsWith('success')) {
      column.byte(SUCCESS);
      programs.pop();
      return true;
    }
    if (value.startsWith('failed: ', from)) {
      column.byte(FAILED);
      this.words(value.slice(from + 8), column);
      programs.pop();
      return true;
    }
    if (!value.startsWith('consumed ', from)) return false;
    const rest = value.slice(from);
    const [, used, of] = /^consumed (\d{1,15}) of (\d{1,15}) compute units$/.exec(rest) ?? [];
    if (used === undefined || rest !== `consumed ${Number(used)} of ${Number(of)} compute units`) return false;
    column.byte(CONSUMED);
    column.number(Number(used));
    column.number(zigzag(Number(of) - context.expectedUnits));
    context.sawUnits(Number(used), Number(of));
    return true;
  }

  private tail(value: string, column: ByteSink): boolean {
    const from = value.lastIndexOf(' ') + 1;
    if (value.length - from < SHORTEST_BASE64 || (value.length - from) % 4 !== 0) return false;
    const word = value.slice(from);
    const bytes = Buffer.from(word, 'base64');
    if (bytes.toString('base64') !== word) return false;
    column.byte(TAIL);
    this.words(value.slice(0, from), column);
    column.sized(bytes);
    return true;
  }

  private words(value: string, column: ByteSink): void {
    let from = 0;
    if (value.length >= 32)
      for (const { 0: word, index } of value.matchAll(ADDRESS)) {
        const id = this.tables.knownId(word);
        if (id === undefined) continue;
        column.latin1(value.slice(from, index));
        column.byte(TEXT_KEY);
        column.number(id);
        from = index + word.length;
      }
    column.latin1(value.slice(from));
    column.byte(TEXT_END);
  }

  /** A list of non-negative integers; -1 for any other. */
  private list(from: number): number {
    const { text, context } = this;
    const list: number[] = [];
    let most = 0;
    let at = from + 1;
    for (;;) {
      let value = 0;
      const start = at;
      for (; isDigit(text[at]); at++) value = value * 10 + text[at]! - 0x30;
      const isCanonical = at > start && at - start <= 16 && (text[start] !== 0x30 || at === start + 1);
      if (!isCanonical || value >= LARGEST) return -1;
      list.push(value);
      most = Math.max(most, value);
      const next = text[at++];
      if (next === CLOSE) break;
      if (next !== COMMA) return -1;
    }
    if (most < 256) this.column(BYTES, from).sized(Uint8Array.from(list));
    else {
      const column = this.column(INTEGERS, from);
      const expected = context.expectedList(list.length);
      column.number(list.length);
      for (let index = 0; index < list.length; index++) column.number(zigzag(list[index]! - (expected[index] ?? 0)));
      context.sawList(list);
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
      const end = startsAt(text, at, AMOUNT_DECIMALS) ? this.amount(from, at) : -1;
      if (end >= 0) at = end;
      else {
        const column = this.column(LITERAL, from);
        column.latin1(this.chars.slice(from, at));
        column.byte(TEXT_END);
      }
    }
    this.runFrom = at;
    return at;
  }

  /** The amount of a token whose number stands before `at`; -1 when its members do not follow from each other. */
  private amount(from: number, at: number): number {
    const { text, chars } = this;
    const decimalsAt = at + AMOUNT_DECIMALS.length;
    const decimalsEnd = text[decimalsAt + 1] === COMMA ? decimalsAt + 1 : decimalsAt + 2;
    const decimals = chars.slice(decimalsAt, decimalsEnd);
    if (!/^(\d|[12]\d|30)$/.test(decimals) || !startsAt(text, decimalsEnd, AMOUNT_DIGITS)) return -1;
    const digitsAt = decimalsEnd + AMOUNT_DIGITS.length;
    const digitsEnd = chars.indexOf('"', digitsAt);
    const digits = chars.slice(digitsAt, digitsEnd);
    if (digits.length > 16 || !/^[1-9]\d*$/.test(digits) || Number(digits) >= LARGEST) return -1;
    const shown = uiText(digits, Number(decimals));
    const textAt = digitsEnd + AMOUNT_TEXT.length;
    const end = textAt + shown.length;
    if (!startsAt(text, digitsEnd, AMOUNT_TEXT) || text[end] !== QUOTE) return -1;
    if (chars.slice(textAt, end) !== shown || chars.slice(from, at) !== uiNumber(shown)) return -1;
    const column = this.column(AMOUNT, from);
    column.byte(Number(decimals));
    column.number(Number(digits));
    return end;
  }
}

function startsAt(text: Buffer, at: number, part: Buffer): boolean {
  for (let index = 0; index < part.length; index++) if (text[at + index] !== part[index]) return false;
  return true;
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

/** Always reversible, for any bytes, with the same tables and signatures. */
export const encodePart = (text: Buffer, tables: BlockTables, signatures: Signatures): Buffer =>
  new Encoder(text, tables, signatures).encode();

/** The tables of a block while it is decoded. */
export class ReadTables {
  readonly tokens: readonly DictionaryToken[];
  private readonly dictionary: Dictionary;
  private readonly keys: Buffer;
  private readonly addresses: (string | undefined)[] = [];

  /** `keys`, `tokens`: as `Tables` wrote them. Throws RangeError when they are not of it. */
  constructor(dictionary: Dictionary, keys: Buffer, tokens: Buffer) {
    this.dictionary = dictionary;
    this.keys = keys;
    const source = new Source(tokens);
    const own = Array.from({ length: source.number() }, () => ({ kind: source.byte(), run: source.sized() }));
    this.tokens = [...dictionary.tokens, ...own];
  }

  /** The 32 bytes of a key. */
  key(id: number): Buffer {
    const from = id % 2 === 0 ? this.dictionary.keys : this.keys;
    const at = (id >>> 1) * 32;
    if (at + 32 > from.length) throw new RangeError('a key is missing');
    return from.subarray(at, at + 32);
  }

  address(id: number): string {
    const known = id % 2 === 0 ? this.dictionary.addresses : this.addresses;
    known[id >>> 1] ??= encode32(this.key(id));
    return known[id >>> 1]!;
  }

  line(id: number): string {
    const line = this.dictionary.lines[id];
    if (line === undefined) throw new RangeError('a line is missing');
    return line;
  }
}

/** A transaction for which a part is decoded. */
export interface SoughtTransaction {
  /** Where its signature stands among the signatures. */
  readonly signatureAt: number;
  /** Set when it is found: where its bytes begin in the text. */
  wireAt: number;
  /** Set: with what each transaction of the part begins, as far as its first value. */
  head: Buffer;
}

/**
 * Throws RangeError when the bytes are not of `encodePart`. The text is in `out`, which may be one that was used before. With `wanted` it
 * begins somewhere before that transaction, and ends with the bytes of one behind it, or with the part; without them when it is not found.
 */
export function decodePart(
  bytes: Buffer,
  tables: ReadTables,
  signatures: Signatures,
  out = new ByteSink(0),
  wanted: SoughtTransaction | null = null,
): Buffer {
  const source = new Source(bytes);
  const length = source.number();
  const sequence = new Source(source.sized());
  const ids = new Source(source.sized());
  const columns = Array.from({ length: source.number() }, () => new Source(source.sized()));
  let used = 0;
  const columnOf: (Source | undefined)[] = [];
  out.length = 0;
  if (wanted === null) out.room(Math.min(length, bytes.length * 64));
  const decoding: Decoding = { column: ids, ids, out, context: new Context(), tables, signatures };
  while (!sequence.isAtEnd) {
    const id = sequence.number();
    const token = tables.tokens[id];
    if (token === undefined) throw new RangeError('a token is missing');
    const column = columnOf[id] ?? columns[used++];
    if (wanted !== null && used === 1 && columnOf[id] === undefined) wanted.head = token.run;
    columnOf[id] = column;
    if (column === undefined) throw new RangeError('a column is missing');
    decoding.column = column;
    // The text of a transaction that ends before the wanted one starts is not needed.
    if (wanted !== null && signatures.at < wanted.signatureAt) {
      passValue(token.kind, decoding);
      continue;
    }
    out.put(token.run);
    if (wanted !== null && token.kind === WIRE) {
      if (wanted.wireAt >= 0) return out.used;
      const wireAt = out.length;
      decodeValue(WIRE, decoding);
      if (signatures.at > wanted.signatureAt) wanted.wireAt = wireAt;
      continue;
    }
    decodeValue(token.kind, decoding);
  }
  if (wanted === null && out.length !== length) throw new RangeError('the text has another length');
  return out.used;
}

interface Decoding {
  /** Column of the token whose value is read next. */
  column: Source;
  readonly ids: Source;
  readonly out: ByteSink;
  readonly context: Context;
  readonly tables: ReadTables;
  readonly signatures: Signatures;
}

function decodeValue(kind: number, { column, ids, out, context, tables, signatures }: Decoding): void {
  switch (kind) {
    case END:
      break;
    case INTEGER: {
      const value = column.number();
      out.latin1(String(value));
      context.sawInteger(value);
      break;
    }
    case KEY:
      out.latin1(tables.address(column.number()));
      break;
    case BASE58:
      out.latin1(encode(column.sized()));
      break;
    case BASE64:
      out.latin1(column.sized().toString('base64'));
      break;
    case TEXT:
      decodeLine(column, out, context, tables);
      break;
    case BYTES:
      out.latin1(`[${column.sized().join(',')}]`);
      break;
    case INTEGERS: {
      const list = readIntegers(column, context);
      context.sawList(list);
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
    case AMOUNT: {
      const decimals = column.byte();
      if (decimals > 30) throw new RangeError('an amount has too many decimals');
      const digits = String(column.number());
      const shown = uiText(digits, decimals);
      out.latin1(`${uiNumber(shown)},"decimals":${decimals},"amount":"${digits}","uiAmountString":"${shown}`);
      break;
    }
    case UI_TEXT: {
      const text = context.uiText();
      if (text === null) throw new RangeError('an amount is missing');
      out.latin1(text);
      break;
    }
    case WIRE:
      out.latin1(wireOf(column, ids, context, tables, signatures).toString('base64'));
      break;
    default:
      throw new RangeError('a kind of value is unknown');
  }
}

function readIntegers(column: Source, context: Context): number[] {
  const list: number[] = new Array(column.room(column.number())).fill(0);
  const expected = context.expectedList(list.length);
  for (let index = 0; index < list.length; index++) list[index] = unzigzag(column.number()) + (expected[index] ?? 0);
  return list;
}

function decodeLine(column: Source, out: ByteSink, context: Context, tables: ReadTables): void {
  const how = column.byte();
  const { programs } = context;
  switch (how) {
    case WORDS:
      decodeWords(column, out, tables);
      break;
    case LINE:
      out.latin1(tables.line(column.number()));
      break;
    case INVOKE_FIRST:
    case INVOKE: {
      if (how === INVOKE_FIRST) programs.length = 0;
      const id = column.number();
      programs.push(id);
      out.latin1(`Program ${tables.address(id)} invoke [${programs.length}]`);
      break;
    }
    case SUCCESS:
      out.latin1(`Program ${tables.address(topOf(programs))} success`);
      programs.pop();
      break;
    case FAILED:
      out.latin1(`Program ${tables.address(topOf(programs))} failed: `);
      decodeWords(column, out, tables);
      programs.pop();
      break;
    case CONSUMED: {
      const consumed = column.number();
      const of = unzigzag(column.number()) + context.expectedUnits;
      out.latin1(`Program ${tables.address(topOf(programs))} consumed ${consumed} of ${of} compute units`);
      context.sawUnits(consumed, of);
      break;
    }
    case PROGRAM_DATA: {
      const parts = Array.from({ length: column.room(column.number()) }, () => column.sized().toString('base64'));
      out.latin1(DATA_PREFIX + parts.join(' '));
      break;
    }
    case PROGRAM_RETURN:
      out.latin1(`${RETURN_PREFIX}${tables.address(column.number())} `);
      out.latin1(column.sized().toString('base64'));
      break;
    case TAIL:
      decodeWords(column, out, tables);
      out.latin1(column.sized().toString('base64'));
      break;
    default:
      throw new RangeError('a kind of line is unknown');
  }
}

/** Skips a value. The context still records it, because later values are compared with it. */
function passValue(kind: number, { column, ids, context, signatures }: Decoding): void {
  switch (kind) {
    case END:
    case UI_TEXT:
      break;
    case INTEGER:
      context.sawInteger(column.number());
      break;
    case KEY:
      column.pass();
      break;
    case BASE58:
    case BASE64:
    case BYTES:
      column.skip(column.number());
      break;
    case TEXT:
      passLine(column, context);
      break;
    case INTEGERS:
      context.sawList(readIntegers(column, context));
      break;
    case DIGITS:
      context.sawDigits(String(column.number()));
      break;
    case LITERAL:
      while (column.byte() !== TEXT_END);
      break;
    case AMOUNT:
      column.byte();
      column.pass();
      break;
    case WIRE:
      passWire(column, ids, context, signatures);
      break;
    default:
      throw new RangeError('a kind of value is unknown');
  }
}

function passLine(column: Source, context: Context): void {
  const how = column.byte();
  const { programs } = context;
  switch (how) {
    case WORDS:
      passWords(column);
      break;
    case LINE:
      column.pass();
      break;
    case INVOKE_FIRST:
    case INVOKE:
      if (how === INVOKE_FIRST) programs.length = 0;
      programs.push(column.number());
      break;
    case SUCCESS:
      programs.pop();
      break;
    case FAILED:
      passWords(column);
      programs.pop();
      break;
    case CONSUMED: {
      const consumed = column.number();
      context.sawUnits(consumed, unzigzag(column.number()) + context.expectedUnits);
      break;
    }
    case PROGRAM_DATA:
      for (let left = column.room(column.number()); left > 0; left--) column.skip(column.number());
      break;
    case PROGRAM_RETURN:
      column.pass();
      column.skip(column.number());
      break;
    case TAIL:
      passWords(column);
      column.skip(column.number());
      break;
    default:
      throw new RangeError('a kind of line is unknown');
  }
}

function passWords(column: Source): void {
  for (let byte = column.byte(); byte !== TEXT_END; byte = column.byte()) if (byte === TEXT_KEY) column.pass();
}

function passWire(column: Source, ids: Source, context: Context, signatures: Signatures): void {
  readWire(column, ids, context, {
    bytes: (_, count) => column.skip(count),
    signature: () => {
      signatures.at += signatures.stride;
    },
    key: () => undefined,
  });
}

function topOf(programs: readonly number[]): number {
  const id = programs.at(-1);
  if (id === undefined) throw new RangeError('a program is missing');
  return id;
}

function decodeWords(column: Source, out: ByteSink, tables: ReadTables): void {
  for (;;) {
    const { bytes, at } = column;
    let end = at;
    while (end < bytes.length && bytes[end]! > TEXT_KEY) end++;
    out.put(bytes.subarray(at, end));
    column.at = end;
    if (column.byte() === TEXT_END) return;
    out.latin1(tables.address(column.number()));
  }
}

function wireOf(column: Source, ids: Source, context: Context, tables: ReadTables, signatures: Signatures): Buffer {
  let wire = Buffer.alloc(0);
  readWire(column, ids, context, {
    begin(length) {
      wire = Buffer.alloc(length);
    },
    bytes: (at, count) => void column.take(count).copy(wire, at),
    signature(at) {
      const from = signatures.at;
      if (from + 64 > signatures.bytes.length) throw new RangeError('a signature is missing');
      signatures.bytes.copy(wire, at, from, from + 64);
      signatures.at += signatures.stride;
    },
    key: (at, id) => void tables.key(id).copy(wire, at),
  });
  return wire;
}

/** The pieces of a transaction in order, each with its place. */
interface WirePieces {
  begin?(length: number): void;
  /** Bytes from the column. */
  bytes(at: number, count: number): void;
  signature(at: number): void;
  key(at: number, id: number): void;
}

function readWire(column: Source, ids: Source, context: Context, pieces: WirePieces): void {
  const length = column.number();
  const signatureAt = column.number() - 1;
  const count = column.room(column.number());
  const keyCount = column.number();
  if (length > MAX_WIRE_BYTES) throw new RangeError('a transaction is too long');
  if (signatureAt + 64 > length) throw new RangeError('a signature is behind the end');
  pieces.begin?.(length);
  let at = 0;
  const copy = (bytes: number) => {
    pieces.bytes(at, bytes);
    at += bytes;
  };
  // The first signature comes before the message, or behind it from version 1 on.
  const fill = (to: number) => {
    if (to > length) throw new RangeError('a transaction is longer than it says');
    if (signatureAt >= at && signatureAt < to) {
      copy(signatureAt - at);
      pieces.signature(at);
      at += 64;
    }
    if (to > at) copy(to - at);
  };
  const keys: number[] = [];
  for (let index = 0; index < count; index++) {
    fill(at + column.number());
    const id = ids.number();
    keys.push(id);
    pieces.key(at, id);
    at += 32;
  }
  fill(length);
  const firstKey = keyCount % 2;
  context.sawWire(keys.slice(firstKey, firstKey + (keyCount - firstKey) / 2));
}
