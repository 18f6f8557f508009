import { type JsonMember, objectMembers, withoutBlanks } from '../../../src/lib/json-members.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';

/** A well-formed subscription call of a client. */
export interface SubscriptionCall {
  readonly kind: 'subscribe' | 'unsubscribe';
  /** `account` of `accountSubscribe`. */
  readonly family: string;
  readonly method: string;
  /** Raw JSON; undefined for a notification. */
  readonly idText: string | undefined;
  /** Raw JSON without blanks, or null when absent. Integers of any size stay as they came. */
  readonly paramsText: string | null;
  readonly params: unknown;
}

/** What a client's message asks for. Everything that is neither is a call like any other, or garbage: both are for the front. */
export type ClientMessage = SubscriptionCall | { readonly kind: 'ping' } | { readonly kind: 'call' };

const CALL: ClientMessage = { kind: 'call' };
const SUBSCRIPTION = /^([a-z][A-Za-z0-9]{0,48})(Subscribe|Unsubscribe)$/;

export function readClientMessage(message: Buffer): ClientMessage {
  const members = objectMembers(message);
  if (members === null || new Set(members.map(({ name }) => name)).size !== members.length) return CALL;
  const value = parse(message);
  if (!isPlainObject(value) || value['jsonrpc'] !== '2.0' || typeof value['method'] !== 'string') return CALL;
  const { method, id, params } = value;
  // web3.js 1.x sends this every few seconds to keep the connection open; nodes ignore it.
  if (method === 'ping' && !('id' in value)) return { kind: 'ping' };
  const [, family, verb] = SUBSCRIPTION.exec(method) ?? [];
  if (family === undefined || !(id === undefined || id === null || typeof id === 'string' || typeof id === 'number')) {
    return CALL;
  }
  return {
    kind: verb === 'Subscribe' ? 'subscribe' : 'unsubscribe',
    family,
    method,
    idText: rawText(message, members, 'id'),
    paramsText: withoutBlanksOrNull(rawText(message, members, 'params')),
    params,
  };
}

function parse(message: Buffer): unknown {
  try {
    return JSON.parse(message.toString('utf8'));
  } catch {
    return undefined;
  }
}

function rawText(message: Buffer, members: readonly JsonMember[], name: string): string | undefined {
  const member = members.find((other) => other.name === name);
  return member === undefined ? undefined : message.toString('utf8', member.start, member.end);
}

const withoutBlanksOrNull = (text: string | undefined) => (text === undefined ? null : withoutBlanks(text));

/** What an upstream said. */
export type UpstreamMessage =
  | { readonly kind: 'reply'; readonly id: number; readonly bytes: Buffer; readonly members: readonly JsonMember[] }
  /** `at` is where the subscription id stands. */
  | { readonly kind: 'notification'; readonly subscription: string; readonly bytes: Buffer; readonly at: JsonMember }
  | { readonly kind: 'other' };

export function readUpstreamMessage(bytes: Buffer): UpstreamMessage {
  const members = objectMembers(bytes);
  const id = members?.find(({ name }) => name === 'id');
  if (members && id) {
    const number = Number(bytes.toString('latin1', id.start, id.end));
    return Number.isSafeInteger(number) ? { kind: 'reply', id: number, bytes, members } : { kind: 'other' };
  }
  const params = members?.find(({ name }) => name === 'params');
  const inner = params ? objectMembers(bytes, params.start, params.end) : null;
  const at = inner?.find(({ name }) => name === 'subscription');
  if (at === undefined) return { kind: 'other' };
  return { kind: 'notification', subscription: bytes.toString('utf8', at.start, at.end), bytes, at };
}

/** Whether a signature notification only tells that the node received the transaction; the subscription then goes on. */
export function isReceivedNotice(bytes: Buffer): boolean {
  return bytes.length < 1024 && /"value"\s*:\s*"receivedSignature"/.test(bytes.toString('latin1'));
}

export const resultReply = (idText: string, resultText: string): string =>
  `{"jsonrpc":"2.0","result":${resultText},"id":${idText}}`;

export const errorReply = (idText: string, errorText: string): string =>
  `{"jsonrpc":"2.0","error":${errorText},"id":${idText}}`;
