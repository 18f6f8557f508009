/**
 * A strict walk over the bytes of a JSON text that creates no values. `value` accepts exactly what `JSON.parse` accepts in UTF-8, up to a
 * nesting limit; the methods for names and numbers also refuse rare forms, so that the caller falls back to parsing. To locate parts of a
 * text without checking it, use `json.ts`. A class, unlike the factories elsewhere, because its methods run for every value of
 * every block.
 */

/** Thrown for malformed or rare forms; it never leaves the scan. */
export class Unusual extends Error {}

/** Nested deeper than the limit of the cursor. */
export class TooDeep extends Unusual {}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LETTER_U = 0x75;
/** Default of the nesting limit; real answers have about eight levels. */
const MAX_DEPTH = 64;
const MAX_INDEX = 65_535;

export class JsonCursor {
  readonly bytes: Buffer;
  at = 0;
  /** Containers around the current value, as far as they count. */
  depth = 0;
  private readonly view: DataView;
  private readonly maxDepth: number;
  /** End of the name that was skipped last, without its quote. */
  private nameEnd = 0;

  constructor(bytes: Buffer, maxDepth = MAX_DEPTH) {
    this.bytes = bytes;
    this.maxDepth = maxDepth;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  refuse(): never {
    throw new Unusual('not the usual form');
  }

  /** The next byte after whitespace. */
  peek(): number {
    const { bytes } = this;
    let byte = bytes[this.at]!;
    for (; byte <= 0x20; byte = bytes[++this.at]!)
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) this.refuse();
    return byte;
  }

  /** Enters an object; false when it is empty, and was passed. */
  firstMember(): boolean {
    if (this.peek() !== OPEN_OBJECT) this.refuse();
    this.at++;
    if (this.peek() !== CLOSE_OBJECT) return true;
    this.at++;
    return false;
  }

  /** After the value of a member: false when it was the last one, and the object was passed. */
  nextMember(): boolean {
    const byte = this.peek();
    this.at++;
    if (byte === COMMA) return true;
    if (byte !== CLOSE_OBJECT) this.refuse();
    return false;
  }

  /** Skips the name of a member and returns its number, or -1. `last` is the number of the name before it, -1 for none. */
  name(names: NameList, last: number): number {
    const guess = names.after(last);
    const size = names.lengthAt(this.view, this.at, guess);
    if (size > 0) {
      this.at += size;
      return guess;
    }
    const text = this.nameText();
    const found = names.texts.findIndex((name) => name.equals(text));
    if (found >= 0) names.learn(last, found);
    return found;
  }

  /** Skips the name of a member and returns it; refuses one with escapes. */
  nameText(): Buffer {
    const from = this.skipName();
    if (from < 0) this.refuse();
    return this.bytes.subarray(from, this.nameEnd);
  }

  /** Skips the name of a member and returns it decoded. */
  memberName(): string {
    const from = this.skipName();
    if (from >= 0) return this.bytes.toString('utf8', from, this.nameEnd);
    return JSON.parse(this.bytes.toString('utf8', -from - 1, this.nameEnd + 1)) as string;
  }

  /** Skips a name and its colon, and returns where its characters start: negative for one with escapes. They end at `nameEnd`. */
  private skipName(): number {
    if (this.peek() !== QUOTE) this.refuse();
    const { bytes } = this;
    let from = this.at + 1;
    let at = from;
    for (let byte = bytes[at]!; byte !== QUOTE; byte = bytes[++at]!) {
      if (byte === BACKSLASH) {
        this.string();
        at = this.at - 1;
        from = -from;
        break;
      }
      if (!(byte >= 0x20)) this.refuse();
    }
    this.nameEnd = at;
    this.at = at + 1;
    if (this.peek() !== COLON) this.refuse();
    this.at++;
    return from;
  }

  /** Enters an array; false when it is empty, and was passed. */
  firstElement(): boolean {
    if (this.peek() !== OPEN_ARRAY) this.refuse();
    this.at++;
    if (this.peek() !== CLOSE_ARRAY) return true;
    this.at++;
    return false;
  }

  /** After an element: false when it was the last one, and the array was passed. */
  nextElement(): boolean {
    const byte = this.peek();
    this.at++;
    if (byte === COMMA) return true;
    if (byte !== CLOSE_ARRAY) this.refuse();
    return false;
  }

  /** Skips any value. */
  value(): void {
    const first = this.peek();
    if (first === QUOTE) this.string();
    else if (first === OPEN_OBJECT || first === OPEN_ARRAY) this.container(first);
    else if (first <= NINE) this.number();
    else if (!this.literal('null') && !this.literal('true') && !this.literal('false')) this.refuse();
  }

  private container(first: number): void {
    if (++this.depth > this.maxDepth) throw new TooDeep('nested too deeply');
    if (first === OPEN_ARRAY) this.elements();
    else
      for (let more = this.firstMember(); more; more = this.nextMember()) {
        this.skipName();
        this.value();
      }
    this.depth--;
  }

  /** Skips an array of any values and returns their number. */
  elements(): number {
    let count = 0;
    for (let more = this.firstElement(); more; more = this.nextElement()) {
      this.value();
      count++;
    }
    return count;
  }

  /** Skips an array of integers without fraction and exponent, of any size, and returns their number. */
  integers(): number {
    const { bytes } = this;
    const from = this.at;
    let count = 0;
    let at = from;
    if (bytes[at] === OPEN_ARRAY) {
      for (let byte = COMMA; byte === COMMA; count++) {
        const first = bytes[++at]!;
        if (!isDigit(first)) break;
        byte = bytes[++at]!;
        if (first !== ZERO) for (; isDigit(byte); byte = bytes[++at]!);
        if (byte !== CLOSE_ARRAY) continue;
        this.at = at + 1;
        return count + 1;
      }
    }
    count = 0;
    for (let more = this.firstElement(); more; more = this.nextElement()) {
      this.integer();
      count++;
    }
    return count;
  }

  /** Skips an integer of any size. */
  integer(): void {
    const { bytes } = this;
    if (this.peek() === MINUS) this.at++;
    const from = this.at;
    this.digits();
    const next = bytes[this.at]!;
    if ((bytes[from] === ZERO && this.at > from + 1) || next === POINT || (next | 0x20) === 0x65) this.refuse();
  }

  /** Skips an array of strings. */
  strings(): void {
    for (let more = this.firstElement(); more; more = this.nextElement()) this.string();
  }

  /** The largest of an array of numbers of up to 65,535; -1 of an empty one. */
  largestIndex(): number {
    let largest = -1;
    for (let more = this.firstElement(); more; more = this.nextElement()) {
      const index = this.index();
      if (index > largest) largest = index;
    }
    return largest;
  }

  /** Whether the value is `null`, which is then skipped. */
  isNull(): boolean {
    return this.peek() === 0x6e && this.literal('null');
  }

  private literal(text: string): boolean {
    for (let at = 0; at < text.length; at++) if (this.bytes[this.at + at] !== text.charCodeAt(at)) return false;
    this.at += text.length;
    return true;
  }

  /** Skips a number. */
  number(): void {
    const { bytes } = this;
    if (this.peek() === MINUS) this.at++;
    const from = this.at;
    this.digits();
    if (bytes[from] === ZERO && this.at > from + 1) this.refuse();
    if (bytes[this.at] === POINT) {
      this.at++;
      this.digits();
    }
    if ((bytes[this.at]! | 0x20) === 0x65) {
      this.at++;
      if (bytes[this.at] === 0x2b || bytes[this.at] === MINUS) this.at++;
      this.digits();
    }
  }

  /** At least one. */
  private digits(): void {
    const { bytes } = this;
    let at = this.at;
    if (!isDigit(bytes[at]!)) this.refuse();
    while (isDigit(bytes[at]!)) at++;
    this.at = at;
  }

  /** A number of up to 65,535, without sign, fraction and exponent. */
  index(): number {
    this.peek();
    const { bytes } = this;
    const from = this.at;
    let at = from;
    let value = 0;
    let byte = bytes[at]!;
    for (; isDigit(byte); byte = bytes[++at]!) {
      value = value * 10 + (byte - ZERO);
      if (value > MAX_INDEX) this.refuse();
    }
    if (at === from || (at > from + 1 && bytes[from] === ZERO)) this.refuse();
    if (byte === POINT || (byte | 0x20) === 0x65) this.refuse();
    this.at = at;
    return value;
  }

  /** Skips a string and returns the offset of its characters; they end one before `at`. */
  characters(): number {
    this.peek();
    const from = this.at + 1;
    this.string();
    return from;
  }

  /** The characters of a string, not unescaped. */
  text(): string {
    const from = this.characters();
    return this.bytes.toString('latin1', from, this.at - 1);
  }

  /** Skips a string. */
  string(): void {
    if (this.peek() !== QUOTE) this.refuse();
    this.at++;
    for (let byte = this.plain(); byte !== QUOTE; byte = this.plain()) {
      if (byte !== BACKSLASH) this.refuse();
      this.escape();
    }
  }

  /** Moves after the next quote, backslash or control character, and returns it. */
  private plain(): number {
    const { bytes, view } = this;
    let at = this.at;
    for (const last = bytes.length - 4; at <= last; at += 4) {
      const four = view.getInt32(at, true);
      const quote = four ^ 0x22222222;
      const slash = four ^ 0x5c5c5c5c;
      // The high bit of each byte that is a quote, a backslash, or below a space; the lowest set one is always right.
      const found = ((quote - 0x01010101) & ~quote) | ((slash - 0x01010101) & ~slash) | ((four - 0x20202020) & ~four);
      if ((found & 0x80808080) !== 0) break;
    }
    for (;;) {
      const byte = bytes[at++]!;
      if (byte === QUOTE || byte === BACKSLASH || !(byte >= 0x20)) {
        this.at = at;
        return byte;
      }
    }
  }

  /** After a backslash. */
  private escape(): void {
    const { bytes } = this;
    const kind = bytes[this.at++]!;
    if (kind === LETTER_U) {
      for (const end = this.at + 4; this.at < end; this.at++) if (!isHex(bytes[this.at]!)) this.refuse();
      return;
    }
    // " \ / b f n r t
    if (kind === QUOTE || kind === BACKSLASH || kind === 0x2f || kind === 0x62 || kind === 0x66) return;
    if (kind !== 0x6e && kind !== 0x72 && kind !== 0x74) this.refuse();
  }
}

/** Deeper texts are not checked to the end. */
const MAX_CHECKED_DEPTH = 512;

/** Whether the bytes are one JSON text, as `JSON.parse` reads it; true for one that is nested too deeply to check. */
export function isJson(bytes: Buffer): boolean {
  const cursor = new JsonCursor(bytes, MAX_CHECKED_DEPTH);
  try {
    cursor.value();
    cursor.peek();
    return cursor.at === bytes.length;
  } catch (error) {
    if (!(error instanceof Unusual)) throw error;
    return error instanceof TooDeep;
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

function isHex(byte: number): boolean {
  return isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}

/** The names of one kind of object, with quotes and colon, for comparing four bytes at a time. */
export class NameList {
  readonly texts: readonly Buffer[];
  private readonly views: readonly DataView[];
  /** The name that followed each name last time; number 0 is for the first of an object. */
  private readonly followers: Int32Array;

  constructor(names: readonly string[]) {
    this.texts = names.map((name) => Buffer.from(name));
    this.views = names.map((name) => {
      const { buffer, byteOffset, length } = Buffer.from(`"${name}":`);
      return new DataView(buffer, byteOffset, length);
    });
    this.followers = new Int32Array(names.length + 1);
  }

  /** The name that probably follows number `last` (-1: comes first). */
  after(last: number): number {
    return this.followers[last + 1]!;
  }

  learn(last: number, next: number): void {
    this.followers[last + 1] = next;
  }

  /** Length of name `number` with quotes and colon if it is at `at`, else 0. */
  lengthAt(view: DataView, at: number, number: number): number {
    const name = this.views[number]!;
    const size = name.byteLength;
    if (at + size > view.byteLength) return 0;
    const last = size - 4;
    for (let offset = 0; offset < last; offset += 4)
      if (view.getInt32(at + offset, true) !== name.getInt32(offset, true)) return 0;
    return view.getInt32(at + last, true) === name.getInt32(last, true) ? size : 0;
  }
}
