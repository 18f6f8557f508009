import { sameId } from './json-rpc.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LETTER_N = 0x6e;

/** Up to this length strings are scanned byte by byte; for longer ones the native search is faster despite its call overhead. */
const SHORT_STRING = 64;
/** Longest text of a name or id that is kept, beyond the length of the expected id. */
const KEPT_CHARS = 256;

/** What the next byte of the response itself may be; `value`: inside the value of a member. */
type ScanState = 'start' | 'name' | 'colon' | 'value-start' | 'value' | 'after-value' | 'done';

/**
 * Checks a JSON-RPC response while it arrives, without keeping or parsing it: one object that closes, with the id of the call, exactly one
 * of result and error, and an error that is an object. Checked are brackets, strings and the members of the response; numbers and
 * literals inside of the result are not.
 */
export class RpcReplyScan {
  readonly #id: string | undefined;
  #place: ScanState = 'start';
  /** Brackets that close what is open, outermost first. */
  readonly #open: number[] = [];
  #inString = false;
  /** The next byte belongs to an escape that began in the last chunk. */
  #isEscaped = false;
  /** The current name, or the value of `id`, as far as it arrived. */
  #text = '';
  #name = '';
  #members = 0;
  #hasId = false;
  /** Also for `result: null` and `error: null`. */
  readonly #named = new Set<string>();
  #hasResult = false;
  #hasError = false;
  #fault: string | null = null;

  /** `id`: raw JSON of the call's id; undefined: any id fits. */
  constructor(id: string | undefined) {
    this.#id = id;
  }

  /** Reads the next bytes. Returns why this is not the response to the call; null: so far it is. */
  take(bytes: Buffer): string | null {
    let at = 0;
    while (at < bytes.length && this.#fault === null) {
      if (this.#inString) at = this.#string(bytes, at);
      else if (this.#place === 'value') at = this.#value(bytes, at);
      else {
        const byte = bytes[at]!;
        at += 1;
        if (!isBlank(byte)) this.#member(byte);
      }
    }
    return this.#fault;
  }

  /** After the last byte: why this is not the whole response, or null. */
  end(): string | null {
    return this.#fault ?? (this.#place === 'done' ? null : 'it is cut off');
  }

  /** Whether it has an error that is not null. */
  get hasError(): boolean {
    return this.#hasError;
  }

  /** A byte of the response itself, outside of names and values. */
  #member(byte: number): void {
    const { length } = this.#open;
    if (this.#place === 'start' && byte === OPEN_OBJECT) {
      this.#open.push(CLOSE_OBJECT);
      this.#place = 'name';
    } else if (this.#place === 'name' && byte === QUOTE) {
      this.#inString = true;
      this.#text = '"';
    } else if (this.#place === 'colon' && byte === COLON) this.#place = 'value-start';
    else if (this.#place === 'value-start') this.#begin(byte);
    else if (this.#place === 'after-value' && byte === COMMA) this.#place = 'name';
    else if (
      byte === CLOSE_OBJECT &&
      (this.#place === 'after-value' || (this.#place === 'name' && this.#members === 0))
    )
      this.#close();
    else this.#fault = length === 0 && this.#place === 'done' ? 'text follows it' : 'it is not JSON';
  }

  /** The first byte of a member's value. */
  #begin(byte: number): void {
    const isNull = byte === LETTER_N;
    if (this.#name === 'error' && !isNull) {
      if (byte !== OPEN_OBJECT) this.#fault = 'its error is no object';
      this.#hasError = true;
    }
    // Old nodes send `error: null` with a result, and `result: null` with an error.
    if (this.#name === 'result' && !isNull) this.#hasResult = true;
    if (this.#hasError && this.#hasResult) this.#fault = 'it has a result and an error';
    this.#text = '';
    this.#place = 'value';
    if (byte === QUOTE) {
      this.#inString = true;
      this.#text = '"';
    } else if (byte === OPEN_OBJECT) this.#open.push(CLOSE_OBJECT);
    else if (byte === OPEN_ARRAY) this.#open.push(CLOSE_ARRAY);
    else if (isScalarByte(byte)) this.#keep(String.fromCharCode(byte));
    else this.#fault = 'it is not JSON';
  }

  /** Bytes of a value outside of its strings. Returns where it stopped. */
  #value(bytes: Buffer, from: number): number {
    const open = this.#open;
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at]!;
      if (open.length === 1) {
        if (isScalarByte(byte)) this.#keep(String.fromCharCode(byte));
        else {
          // A number or literal ends before what follows it.
          this.#complete();
          return at;
        }
      } else if (byte === QUOTE) {
        this.#inString = true;
        return at + 1;
      } else if (byte === OPEN_OBJECT) open.push(CLOSE_OBJECT);
      else if (byte === OPEN_ARRAY) open.push(CLOSE_ARRAY);
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        if (open.pop() !== byte) this.#fault = 'its brackets do not match';
        if (open.length === 1) this.#complete();
        if (open.length === 1 || this.#fault !== null) return at + 1;
      }
    }
    return bytes.length;
  }

  /** Bytes of a string. Returns where it stopped. */
  #string(bytes: Buffer, from: number): number {
    let at = this.#isEscaped ? from + 1 : from;
    this.#isEscaped = false;
    const near = Math.min(bytes.length, at + SHORT_STRING);
    for (; at < near; at += bytes[at] === BACKSLASH ? 2 : 1)
      if (bytes[at] === QUOTE) return this.#endString(bytes, from, at + 1);
    while (at < bytes.length) {
      const quote = bytes.indexOf(QUOTE, at);
      const end = quote < 0 ? bytes.length : quote;
      // A quote after an odd number of backslashes belongs to the string; `at` is never inside an escape.
      let slashes = 0;
      while (end - slashes > at && bytes[end - slashes - 1] === BACKSLASH) slashes += 1;
      if (quote >= 0 && slashes % 2 === 0) return this.#endString(bytes, from, quote + 1);
      at = end + (slashes % 2);
    }
    this.#isEscaped = at > bytes.length;
    if (this.#open.length === 1) this.#keep(bytes.toString('latin1', from));
    return bytes.length;
  }

  #endString(bytes: Buffer, from: number, end: number): number {
    this.#inString = false;
    if (this.#open.length > 1) return end;
    this.#keep(bytes.toString('latin1', from, end));
    if (this.#place === 'name') {
      this.#name = memberName(this.#text);
      this.#place = 'colon';
    } else this.#complete();
    return end;
  }

  /** Characters are bytes here, so that none is cut in two. */
  #keep(text: string): void {
    const most = KEPT_CHARS + 4 * (this.#id?.length ?? 0);
    if (this.#text.length < most) this.#text += text.slice(0, most);
  }

  /** The value of a member ended. */
  #complete(): void {
    this.#place = 'after-value';
    this.#members += 1;
    const name = this.#name;
    if (name !== 'id' && name !== 'result' && name !== 'error') return;
    if (this.#named.has(name)) this.#fault = `it has ${name} twice`;
    this.#named.add(name);
    if (name !== 'id') return;
    this.#hasId = true;
    const text = Buffer.from(this.#text, 'latin1').toString();
    if (this.#id !== undefined && !sameId(text, this.#id)) this.#fault = 'its id is that of another call';
  }

  /** The last bracket. */
  #close(): void {
    this.#open.pop();
    this.#place = 'done';
    if (!this.#hasError && !this.#named.has('result')) this.#fault = 'it has neither a result nor an error';
    else if (this.#id !== undefined && !this.#hasId) this.#fault = 'it has no id';
  }
}

const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** Letters, digits, plus, minus, point: the characters of numbers and of the three literals. */
const isScalarByte = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === 0x45 ||
  byte === 0x2b ||
  byte === 0x2d ||
  byte === 0x2e;

/** The name in a JSON string of bytes; empty for one that is malformed. */
function memberName(text: string): string {
  try {
    return JSON.parse(Buffer.from(text, 'latin1').toString()) as string;
  } catch {
    return '';
  }
}
