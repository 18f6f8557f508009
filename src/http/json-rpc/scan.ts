import { isUtf8 } from 'node:buffer';

/** Half-open byte range in the scanned body. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** The members of one request object, by position; nothing is copied or re-encoded. */
export interface CallSpan extends Span {
  /** Decoded; null if absent or not a string. */
  readonly method: string | null;
  /** Raw JSON text of a string, number or null; undefined when the member is absent. `null` when it has another type. */
  readonly id: string | undefined;
  readonly params: Span | null;
  /** Why the request is invalid, or null. */
  readonly problem: string | null;
}

export type ScanResult =
  | { readonly kind: 'single'; readonly call: CallSpan }
  /** `calls` contains at most `maxItems`; `count` is the total. */
  | { readonly kind: 'batch'; readonly calls: readonly CallSpan[]; readonly count: number }
  /** Not JSON. */
  | { readonly kind: 'syntax' }
  /** JSON, but not a request: too deep, or neither object nor array. */
  | { readonly kind: 'invalid'; readonly reason: string };

interface ScanLimits {
  readonly maxDepth: number;
  readonly maxItems: number;
}

/**
 * Checks a JSON-RPC body byte by byte and finds the members of its request objects without building values, so that they can be forwarded
 * unchanged. Accepts exactly what `JSON.parse` accepts, up to the depth limit.
 */
export function scanRpcBody(body: Buffer, limits: ScanLimits): ScanResult {
  if (!isUtf8(body)) return { kind: 'syntax' };
  const scanner = createJsonScanner(body, limits.maxDepth);
  const start = scanner.space(0);
  const result =
    body[start] === 0x5b ? scanBatch(body, scanner, start, limits.maxItems) : scanSingle(body, scanner, start);
  if (result === null) {
    return scanner.tooDeep()
      ? { kind: 'invalid', reason: `nested deeper than ${limits.maxDepth} levels` }
      : { kind: 'syntax' };
  }
  return result;
}

function scanSingle(body: Buffer, scanner: JsonScanner, start: number): ScanResult | null {
  if (body[start] === 0x7b) {
    const call = scanCall(body, scanner, start, 1);
    return call === null || scanner.space(call.end) !== body.length ? null : { kind: 'single', call };
  }
  const end = scanner.value(start, 0);
  if (end < 0 || scanner.space(end) !== body.length) return null;
  return { kind: 'invalid', reason: 'the body is neither an object nor an array' };
}

function scanBatch(body: Buffer, scanner: JsonScanner, start: number, maxItems: number): ScanResult | null {
  const calls: CallSpan[] = [];
  let count = 0;
  let at = scanner.space(start + 1);
  if (body[at] === 0x5d) return scanner.space(at + 1) === body.length ? { kind: 'batch', calls, count } : null;
  for (;;) {
    const call = body[at] === 0x7b ? scanCall(body, scanner, at, 2) : scanOther(scanner, at);
    if (call === null) return null;
    count += 1;
    if (count <= maxItems) calls.push(call);
    at = scanner.space(call.end);
    if (body[at] === 0x5d) return scanner.space(at + 1) === body.length ? { kind: 'batch', calls, count } : null;
    if (body[at] !== 0x2c) return null;
    at = scanner.space(at + 1);
  }
}

/** An item that is not an object. */
function scanOther(scanner: JsonScanner, start: number): CallSpan | null {
  const end = scanner.value(start, 1);
  if (end < 0) return null;
  return { start, end, method: null, id: 'null', params: null, problem: 'the item is not an object' };
}

interface Members {
  version: boolean;
  method: string | null;
  id: string | undefined;
  params: Span | null;
  problem: string | null;
}

function scanCall(body: Buffer, scanner: JsonScanner, start: number, depth: number): CallSpan | null {
  const members: Members = { version: false, method: null, id: undefined, params: null, problem: null };
  const seen = new MemberNames();
  let at = scanner.space(start + 1);
  if (body[at] === 0x7d) return finish(start, at + 1, members);
  for (;;) {
    const nameEnd = body[at] === 0x22 ? scanner.string(at) : -1;
    if (nameEnd < 0) return null;
    const name = stringAt(body, at, nameEnd);
    at = scanner.space(nameEnd);
    if (body[at] !== 0x3a) return null;
    const valueStart = scanner.space(at + 1);
    const valueEnd = scanner.value(valueStart, depth);
    if (valueEnd < 0) return null;
    // With duplicate members, we and an upstream might each use a different one.
    if (!seen.add(name)) members.problem = `the member "${name.slice(0, 64)}" is given twice`;
    note(body, members, name, valueStart, valueEnd);
    at = scanner.space(valueEnd);
    if (body[at] === 0x7d) return finish(start, at + 1, members);
    if (body[at] !== 0x2c) return null;
    at = scanner.space(at + 1);
  }
}

/** The names seen so far. A request object usually has four, for which a Set would be the most expensive part of the scan. */
class MemberNames {
  readonly #few: string[] = [];
  #many: Set<string> | null = null;

  /** Returns false if the name was already present. */
  add(name: string): boolean {
    if (this.#many !== null) return this.#many.size < this.#many.add(name).size;
    if (this.#few.includes(name)) return false;
    if (this.#few.push(name) > 8) this.#many = new Set(this.#few);
    return true;
  }
}

function note(body: Buffer, members: Members, name: string, start: number, end: number): void {
  const first = body[start] as number;
  if (name === 'method') members.method = first === 0x22 ? stringAt(body, start, end) : null;
  else if (name === 'jsonrpc') members.version = first === 0x22 && stringAt(body, start, end) === '2.0';
  else if (name === 'params') members.params = { start, end };
  else if (name === 'id') {
    const fits = first === 0x22 || first === 0x2d || first === 0x6e || (first >= 0x30 && first <= 0x39);
    members.id = fits ? body.toString('utf8', start, end) : 'null';
    if (!fits) members.problem ??= 'id must be a string, a number or null';
  } else if (KNOWN.test(name) && FOLDED.has(name.toUpperCase())) {
    members.problem ??= `the member "${name}" has to be written in lower case`;
  }
}

/** The four members as seen by parsers that ignore case; these may also fold the long s and the Kelvin sign. */
const FOLDED = new Set(['JSONRPC', 'METHOD', 'PARAMS', 'ID']);
const KNOWN = /^[a-z\u017f]{2,7}$/i;

function finish(start: number, end: number, members: Members): CallSpan {
  const { method, id, params } = members;
  const problem =
    members.problem ??
    (members.version ? null : 'jsonrpc must be "2.0"') ??
    (method === null ? 'method must be a string' : null);
  // With two ids it is unknown which one is meant.
  const twice = problem === 'the member "id" is given twice';
  return { start, end, method, id: twice ? 'null' : problem !== null ? (id ?? 'null') : id, params, problem };
}

/** The text of a string whose quotes are at `start` and `end - 1`. */
function stringAt(body: Buffer, start: number, end: number): string {
  const raw = body.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}

/** Takes and returns positions; -1: no value of that kind starts here. */
interface JsonScanner {
  /** First position at or after `at` that is not white space. */
  space(at: number): number;
  /** End of the string whose opening quote is at `at`. */
  string(at: number): number;
  /** End of the value at `at`. `depth`: the number of enclosing containers. */
  value(at: number, depth: number): number;
  /** Whether the last failure was the depth limit. */
  tooDeep(): boolean;
}

const WORDS: ReadonlyMap<number, string> = new Map([
  [0x74, 'true'],
  [0x66, 'false'],
  [0x6e, 'null'],
]);

/** A validating JSON reader for bytes that are known to be UTF-8. It produces positions, no values. */
function createJsonScanner(body: Buffer, maxDepth: number): JsonScanner {
  let deep = false;

  const space = (from: number): number => {
    let at = from;
    for (;;) {
      const byte = body[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
      at += 1;
    }
  };

  const string = (start: number): number => {
    for (let at = start + 1; ; at += 1) {
      const byte = body[at];
      if (byte === 0x22) return at + 1;
      if (byte === undefined || byte < 0x20) return -1;
      if (byte === 0x5c) {
        at = escapeEnd(body, at + 1);
        if (at < 0) return -1;
      }
    }
  };

  /** Iterative, because the nesting of a hostile body must not exhaust our stack. */
  const container = (start: number, outer: number): number => {
    // The open containers: true for objects.
    const open: boolean[] = [];
    let at = start;
    for (;;) {
      // At a value.
      const first = body[at];
      if (first === 0x7b || first === 0x5b) {
        if (outer + open.length + 1 > maxDepth) {
          deep = true;
          return -1;
        }
        open.push(first === 0x7b);
        at = space(at + 1);
        if (body[at] !== (first === 0x7b ? 0x7d : 0x5d)) {
          if (first === 0x7b) at = name(at);
          if (at < 0) return -1;
          continue;
        }
        open.pop();
        at += 1;
      } else at = scalar(at);
      if (at < 0) return -1;
      at = afterValue(at, open);
      if (at < 0 || open.length === 0) return at;
    }
  };

  /** Closes the containers that end here and moves to the next value; if none is open, returns the end. */
  const afterValue = (from: number, open: boolean[]): number => {
    let at = from;
    while (open.length > 0) {
      const isObject = open[open.length - 1] as boolean;
      at = space(at);
      const byte = body[at];
      if (byte === 0x2c) return isObject ? name(space(at + 1)) : space(at + 1);
      if (byte !== (isObject ? 0x7d : 0x5d)) return -1;
      open.pop();
      at += 1;
    }
    return at;
  };

  /** From a member's name to the start of its value. */
  const name = (at: number): number => {
    const end = body[at] === 0x22 ? string(at) : -1;
    if (end < 0) return -1;
    const colon = space(end);
    return body[colon] === 0x3a ? space(colon + 1) : -1;
  };

  const scalar = (at: number): number => {
    const first = body[at];
    if (first === undefined) return -1;
    if (first === 0x22) return string(at);
    const word = WORDS.get(first);
    if (word !== undefined) return wordEnd(body, at, word);
    return numberEnd(body, at);
  };

  return {
    space,
    string,
    value: (at, depth) => (body[at] === 0x7b || body[at] === 0x5b ? container(at, depth) : scalar(at)),
    tooDeep: () => deep,
  };
}

/** Position of the last byte of an escape whose letter is at `at`. */
function escapeEnd(body: Buffer, at: number): number {
  const letter = body[at];
  if (letter === 0x75) {
    for (let i = 1; i <= 4; i += 1) if (!isHex(body[at + i])) return -1;
    return at + 4;
  }
  // " \ / b f n r t
  const known =
    letter === 0x22 ||
    letter === 0x5c ||
    letter === 0x2f ||
    letter === 0x62 ||
    letter === 0x66 ||
    letter === 0x6e ||
    letter === 0x72 ||
    letter === 0x74;
  return known ? at : -1;
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function wordEnd(body: Buffer, at: number, word: string): number {
  return body.toString('latin1', at, at + word.length) === word ? at + word.length : -1;
}

function numberEnd(body: Buffer, start: number): number {
  let at = body[start] === 0x2d ? start + 1 : start;
  if (!isDigit(body[at])) return -1;
  at = body[at] === 0x30 ? at + 1 : digitsEnd(body, at);
  if (body[at] === 0x2e) {
    if (!isDigit(body[at + 1])) return -1;
    at = digitsEnd(body, at + 1);
  }
  if (body[at] === 0x65 || body[at] === 0x45) {
    at += body[at + 1] === 0x2b || body[at + 1] === 0x2d ? 2 : 1;
    if (!isDigit(body[at])) return -1;
    at = digitsEnd(body, at);
  }
  return at;
}

function digitsEnd(body: Buffer, from: number): number {
  let at = from;
  while (isDigit(body[at])) at += 1;
  return at;
}

export interface RecoveredCall {
  /** Raw JSON text of a string, number or null. */
  readonly id: string | undefined;
  readonly method: string | undefined;
}

/**
 * Reads `id` and `method` of a request object that may be cut off. Uncertain members are left out; a batch returns neither.
 */
export function recoverCall(bytes: Buffer): RecoveredCall {
  const scanner = createJsonScanner(bytes, 64);
  const text = (start: number, end: number) => bytes.toString('utf8', start, end);
  let id: string | undefined;
  let method: string | undefined;
  let at = scanner.space(0);
  if (bytes[at] !== 0x7b) return { id, method };
  do {
    at = scanner.space(at + 1);
    const nameEnd = bytes[at] === 0x22 ? scanner.string(at) : -1;
    if (nameEnd < 0) break;
    const name = text(at + 1, nameEnd - 1);
    at = scanner.space(nameEnd);
    if (bytes[at] !== 0x3a) break;
    const start = scanner.space(at + 1);
    const end = scanner.value(start, 1);
    if (end < 0) break;
    at = scanner.space(end);
    // A number at the very end may continue after the cut.
    if (at >= bytes.length) break;
    const first = bytes[start] as number;
    if (name === 'id' && first !== 0x7b && first !== 0x5b && first !== 0x74 && first !== 0x66) id ??= text(start, end);
    if (name === 'method' && first === 0x22) method ??= text(start + 1, end - 1);
  } while (bytes[at] === 0x2c);
  return { id, method };
}
