import { isUtf8 } from 'node:buffer';
import { createJsonScanner, type JsonScanner } from './scan-json.ts';

/** Half-open byte range in the scanned body. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The members of one request object, by position; nothing is copied or written again. */
export interface CallSpan extends Span {
  /** Decoded; null when absent or no string. */
  readonly method: string | null;
  /** Raw JSON text of a string, number or null; undefined when the member is absent. `null` when it has another type. */
  readonly id: string | undefined;
  readonly params: Span | null;
  /** Why it is no valid request, or null. */
  readonly problem: string | null;
}

export type ScanResult =
  | { readonly kind: 'single'; readonly call: CallSpan }
  /** `calls` holds at most `maxItems`; `count` counts all. */
  | { readonly kind: 'batch'; readonly calls: readonly CallSpan[]; readonly count: number }
  /** Not JSON. */
  | { readonly kind: 'syntax' }
  /** JSON, but no request: too deep, or neither object nor array. */
  | { readonly kind: 'invalid'; readonly reason: string };

export interface ScanLimits {
  readonly maxDepth: number;
  readonly maxItems: number;
}

/**
 * Checks a JSON-RPC body byte by byte and finds the members of its request objects without building values, so that the parts
 * can be forwarded as they came. Accepts exactly what `JSON.parse` accepts, up to the depth limit.
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

/** An item that is no object. */
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
    // We and an upstream might read different ones of two members with the same name.
    if (!seen.add(name)) members.problem = `the member "${name.slice(0, 64)}" is given twice`;
    note(body, members, name, valueStart, valueEnd);
    at = scanner.space(valueEnd);
    if (body[at] === 0x7d) return finish(start, at + 1, members);
    if (body[at] !== 0x2c) return null;
    at = scanner.space(at + 1);
  }
}

/** Names that came before. A request object has four, for which a set of its own would be the dearest part of the scan. */
class MemberNames {
  readonly #few: string[] = [];
  #many: Set<string> | null = null;

  /** False when it was there. */
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
  }
}

function finish(start: number, end: number, members: Members): CallSpan {
  const { method, id, params } = members;
  const problem =
    members.problem ??
    (members.version ? null : 'jsonrpc must be "2.0"') ??
    (method === null ? 'method must be a string' : null);
  // Which of two ids is meant cannot be known.
  const twice = problem === 'the member "id" is given twice';
  return { start, end, method, id: twice ? 'null' : problem !== null ? (id ?? 'null') : id, params, problem };
}

/** The text of a string whose quotes are at `start` and `end - 1`. */
function stringAt(body: Buffer, start: number, end: number): string {
  const raw = body.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}
