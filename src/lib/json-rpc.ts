import { isPlainObject, type JsonMember, objectMembers, parseExact } from './json.ts';
import { isJson } from './json-cursor.ts';

/**
 * The JSON-RPC envelope: requests and replies as text, and the parts of a reply. Sending, and what a failure says about an upstream, are
 * in the clients.
 */

/** Start of a request, up to its params; `idText` is raw JSON, undefined for a notification. */
export const rpcRequestHead = (method: string, idText: string | undefined): string =>
  `{"jsonrpc":"2.0"${idText === undefined ? '' : `,"id":${idText}`},"method":${JSON.stringify(method)}`;

/** A request whose params are JSON text; null: without params. */
export function rpcRequestOf(method: string, paramsText: string | null, id = 1): string {
  const head = rpcRequestHead(method, String(id));
  return paramsText === null ? `${head}}` : `${head},"params":${paramsText}}`;
}

export const rpcRequest = (method: string, params?: unknown): string =>
  rpcRequestOf(method, params === undefined ? null : JSON.stringify(params));

const OPEN_OBJECT = 0x7b;
/** A reply with a result is this, the text of the result, and its tail. */
export const RPC_RESULT_HEAD = '{"jsonrpc":"2.0","result":';
const RESULT_HEAD_BYTES = Buffer.from(RPC_RESULT_HEAD);
export const rpcResultTail = (idText: string): string => `,"id":${idText}}`;

/** A reply with a result in JSON text. The raw text of the id is returned unchanged. */
export const rpcResultReply = (resultText: string, idText: string): string =>
  RPC_RESULT_HEAD + resultText + rpcResultTail(idText);

/** Like `rpcResultReply`, for a result in pieces of JSON bytes. */
export const rpcResultBytes = (pieces: readonly Uint8Array[], idText: string): Buffer =>
  Buffer.concat([RESULT_HEAD_BYTES, ...pieces, Buffer.from(rpcResultTail(idText))]);

/** A reply with an error object in JSON text. */
export const rpcErrorReply = (errorText: string, idText: string): string =>
  `{"jsonrpc":"2.0","error":${errorText},"id":${idText}}`;

export interface RpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

const CODE_AS_TEXT = /^-?\d{1,9}$/;

/**
 * A parsed reply: its error object if it has one, else its result, which may be null. Null when the value is no reply: neither of the two,
 * both, an error that is no object or has no code. Some providers write the code as text.
 */
export function rpcReplyOf(value: unknown): { readonly error: RpcErrorObject } | { readonly result: unknown } | null {
  if (!isPlainObject(value)) return null;
  const { error = null, result } = value;
  if (error === null) return 'result' in value ? { result } : null;
  if (!isPlainObject(error) || (result ?? null) !== null) return null;
  const { code } = error;
  const number = typeof code === 'string' && CODE_AS_TEXT.test(code) ? Number(code) : code;
  return Number.isInteger(number) ? { error: { ...error, code: number } as unknown as RpcErrorObject } : null;
}

/** Positions of the parts of a JSON-RPC response in its bytes. Exactly one of `result` and `error` is set. */
export interface RpcReplyParts {
  readonly id: JsonMember | null;
  readonly result: JsonMember | null;
  readonly error: JsonMember | null;
}

/**
 * Finds result or error and the id of a complete JSON-RPC response without parsing them. Null when the bytes are anything
 * else: text, half an object, malformed JSON inside, both or neither of the two members, a member twice, an error that is no object.
 */
export function readRpcReply(bytes: Buffer): RpcReplyParts | null {
  const members = objectMembers(bytes);
  if (members === null) return null;
  let id: JsonMember | null = null;
  let result: JsonMember | null = null;
  let error: JsonMember | null = null;
  for (const member of members) {
    if (member.name === 'id') {
      if (id !== null) return null;
      id = member;
    } else if (member.name === 'result') {
      if (result !== null) return null;
      result = member;
    } else if (member.name === 'error' && !isNull(bytes, member)) {
      if (error !== null || bytes[member.start] !== OPEN_OBJECT) return null;
      error = member;
    }
  }
  // Old nodes send `error: null` with a result, and `result: null` with an error.
  if (error !== null && result !== null && isNull(bytes, result)) result = null;
  if ((result === null) === (error === null)) return null;
  return isJson(bytes) ? { id, result, error } : null;
}

/**
 * Whether two raw JSON texts are the same id. A server may write a string or a number in another form (`"\\u0061"` and `"a"`, `1.0` and
 * `1`); integers are compared exactly.
 */
export function sameId(one: string, other: string): boolean {
  if (one === other) return true;
  try {
    const [a, b] = [parseExact(one), parseExact(other)];
    return a === b && typeof a !== 'object';
  } catch {
    return false;
  }
}

/** Whether the value is the literal null. */
export function isNull(bytes: Buffer, member: JsonMember): boolean {
  return member.end - member.start === 4 && bytes.toString('latin1', member.start, member.end) === 'null';
}

/**
 * The error response with the id of the call, when it has none or null: what a server sends that did not read the call. Null when it has
 * another id.
 */
export function errorWithId(bytes: Buffer, { id }: RpcReplyParts, idText: string): Buffer | null {
  if (id === null) {
    const start = bytes.indexOf(OPEN_OBJECT) + 1;
    return Buffer.concat([bytes.subarray(0, start), Buffer.from(`"id":${idText},`), bytes.subarray(start)]);
  }
  if (sameId(bytes.toString('utf8', id.start, id.end), idText)) return bytes;
  return isNull(bytes, id) ? withId(bytes, id, idText) : null;
}

/** The response with another id; everything else is unchanged byte for byte. `idText` is raw JSON. */
export function withId(bytes: Buffer, id: JsonMember, idText: string): Buffer {
  return Buffer.concat([bytes.subarray(0, id.start), Buffer.from(idText), bytes.subarray(id.end)]);
}
