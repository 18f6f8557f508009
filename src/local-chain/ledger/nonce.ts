import { encode32 } from '../../lib/base58.ts';
import type { MessageParts } from '../vm/transaction.ts';
import type { VmAccount } from '../vm/vm.ts';
import { view } from './token-state.ts';

export const SYSTEM_PROGRAM = '11111111111111111111111111111111';
export const NONCE_BYTES = 80;
const ADVANCE_NONCE = 4;

/** The nonce account that a transaction's first instruction advances, or null where it advances none. */
export function nonceKeyOf(message: MessageParts): string | null {
  const first = message.instructions[0];
  if (first === undefined || message.staticKeys[first.programIdIndex] !== SYSTEM_PROGRAM) return null;
  if (first.data.length < 4 || view(first.data).getUint32(0, true) !== ADVANCE_NONCE) return null;
  return message.staticKeys[first.accounts[0] ?? -1] ?? null;
}

/** The nonce stored in that account. */
export function nonceOf(message: MessageParts, account: (key: string) => VmAccount | null): string | null {
  const key = nonceKeyOf(message);
  const stored = key === null ? null : account(key);
  if (stored === null || stored.owner !== SYSTEM_PROGRAM || stored.data.length !== NONCE_BYTES) return null;
  return encode32(stored.data, 40);
}
