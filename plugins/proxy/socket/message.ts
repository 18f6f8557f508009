import { isPlainObject } from '../../../src/lib/json.ts';
import { type JsonMember, objectMembers } from '../../../src/lib/json-members.ts';

/** A subscription as a client asks for it. */
export interface SubscriptionCall {
  /** `account` of `accountSubscribe`. */
  readonly family: string;
  readonly method: string;
  /** Raw JSON without blanks, or null when absent. Integers of any size stay as they came. */
  readonly paramsText: string | null;
}

/** web3.js 1.x sends the notification `ping` every few seconds to keep the connection open; nodes ignore it. */
export function isKeepAlive(message: Buffer): boolean {
  if (message.length > 256 || !message.includes('"ping"')) return false;
  try {
    const value: unknown = JSON.parse(message.toString('utf8'));
    return isPlainObject(value) && value['method'] === 'ping' && !('id' in value);
  } catch {
    return false;
  }
}

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
