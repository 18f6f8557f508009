import { type JsonMember, objectMembers } from './json-members.ts';

/** Positions of the parts of a JSON-RPC response in its bytes. Exactly one of `result` and `error` is set. */
export interface RpcReplyParts {
  readonly id: JsonMember | null;
  readonly result: JsonMember | null;
  readonly error: JsonMember | null;
}

/**
 * Finds result or error and the id of a complete JSON-RPC response without parsing them. Null when the bytes are anything
 * else: text, half an object, both or neither of the two members, a member twice.
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
      if (error !== null) return null;
      error = member;
    }
  }
  // Old nodes send `error: null` with a result, and `result: null` with an error.
  if (error !== null && result !== null && isNull(bytes, result)) result = null;
  return (result === null) === (error === null) ? null : { id, result, error };
}

/** Whether the value is the literal null. */
export function isNull(bytes: Buffer, member: JsonMember): boolean {
  return member.end - member.start === 4 && bytes.toString('latin1', member.start, member.end) === 'null';
}

/** The response with another id; everything else is unchanged byte for byte. `idText` is raw JSON. */
export function withId(bytes: Buffer, id: JsonMember, idText: string): Buffer {
  return Buffer.concat([bytes.subarray(0, id.start), Buffer.from(idText), bytes.subarray(id.end)]);
}
