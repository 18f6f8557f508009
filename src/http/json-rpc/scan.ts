import { isUtf8 } from 'node:buffer';
import { JsonCursor, TooDeep, Unusual } from '../../lib/json-cursor.ts';

const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

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
  const cursor = new JsonCursor(body, limits.maxDepth);
  try {
    const result = cursor.peek() === OPEN_ARRAY ? scanBatch(cursor, limits.maxItems) : scanSingle(cursor);
    cursor.peek();
    return cursor.at === body.length ? result : { kind: 'syntax' };
  } catch (error) {
    if (!(error instanceof Unusual)) throw error;
    return error instanceof TooDeep
      ? { kind: 'invalid', reason: `nested deeper than ${limits.maxDepth} levels` }
      : { kind: 'syntax' };
  }
}

function scanSingle(cursor: JsonCursor): ScanResult {
  if (cursor.peek() === OPEN_OBJECT) return { kind: 'single', call: scanCall(cursor, 1) };
  cursor.value();
  return { kind: 'invalid', reason: 'the body is neither an object nor an array' };
}

function scanBatch(cursor: JsonCursor, maxItems: number): ScanResult {
  const calls: CallSpan[] = [];
  let count = 0;
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) {
    const call = cursor.peek() === OPEN_OBJECT ? scanCall(cursor, 2) : scanOther(cursor);
    count += 1;
    if (count <= maxItems) calls.push(call);
  }
  return { kind: 'batch', calls, count };
}

/** An item that is not an object. */
function scanOther(cursor: JsonCursor): CallSpan {
  const start = cursor.at;
  cursor.depth = 1;
  cursor.value();
  return { start, end: cursor.at, method: null, id: 'null', params: null, problem: 'the item is not an object' };
}

interface Members {
  version: boolean;
  method: string | null;
  id: string | undefined;
  params: Span | null;
  problem: string | null;
}

/** `depth`: containers that are open inside the call, with the call itself. */
function scanCall(cursor: JsonCursor, depth: number): CallSpan {
  const members: Members = { version: false, method: null, id: undefined, params: null, problem: null };
  const seen = new MemberNames();
  const start = cursor.at;
  cursor.depth = depth;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    const name = cursor.memberName();
    cursor.peek();
    const from = cursor.at;
    cursor.value();
    // Duplicate members are refused: an upstream might use the other one.
    if (!seen.add(name)) members.problem = `the member "${name.slice(0, 64)}" is given twice`;
    note(cursor.bytes, members, name, from, cursor.at);
  }
  return finish(start, cursor.at, members);
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
  if (name === 'method') members.method = first === QUOTE ? stringAt(body, start, end) : null;
  else if (name === 'jsonrpc') members.version = first === QUOTE && stringAt(body, start, end) === '2.0';
  else if (name === 'params') members.params = { start, end };
  else if (name === 'id') {
    const fits = canBeId(first);
    members.id = fits ? body.toString('utf8', start, end) : 'null';
    if (!fits) members.problem ??= 'id must be a string, a number or null';
  } else if (KNOWN.test(name) && FOLDED.has(name.toUpperCase())) {
    members.problem ??= `the member "${name}" has to be written in lower case`;
  }
}

/** Whether a valid value that starts with this byte is a string, a number or null. */
const canBeId = (first: number): boolean =>
  first === QUOTE || first === 0x2d || first === 0x6e || (first >= 0x30 && first <= 0x39);

/** The four members as seen by parsers that ignore case; these may also fold the long s and the Kelvin sign. */
const FOLDED = new Set(['JSONRPC', 'METHOD', 'PARAMS', 'ID']);
const KNOWN = /^[a-z\u017f]{2,7}$/i;

function finish(start: number, end: number, members: Members): CallSpan {
  const { method, id, params } = members;
  const problem =
    members.problem ??
    (members.version ? null : 'jsonrpc must be "2.0"') ??
    (method === null ? 'method must be a string' : null);
  // A second id makes the first one uncertain.
  const twice = problem === 'the member "id" is given twice';
  return { start, end, method, id: twice ? 'null' : problem !== null ? (id ?? 'null') : id, params, problem };
}

/** The text of a string whose quotes are at `start` and `end - 1`. */
function stringAt(body: Buffer, start: number, end: number): string {
  const raw = body.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
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
  const cursor = new JsonCursor(bytes);
  let id: string | undefined;
  let method: string | undefined;
  try {
    for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
      const name = cursor.memberName();
      const first = cursor.peek();
      const from = cursor.at;
      cursor.depth = 1;
      cursor.value();
      const end = cursor.at;
      // A number at the very end may continue after the cut.
      cursor.peek();
      if (cursor.at >= bytes.length) break;
      if (name === 'id' && canBeId(first)) id ??= bytes.toString('utf8', from, end);
      if (name === 'method' && first === QUOTE) method ??= bytes.toString('utf8', from + 1, end - 1);
    }
  } catch (error) {
    if (!(error instanceof Unusual)) throw error;
  }
  return { id, method };
}
