import { encode32 } from '../../../../lib/base58.ts';
import type { VmAccount } from '../vm/vm.ts';

export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
export const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';

const ACCOUNT_BYTES = 165;
const MINT_BYTES = 82;
const KIND_MINT = 1;
const KIND_ACCOUNT = 2;

export interface TokenState {
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly amount: bigint;
}

export function isTokenProgram(owner: string): boolean {
  return owner === TOKEN_PROGRAM || owner === TOKEN_2022_PROGRAM;
}

/** Token accounts have 165 bytes, or more with a kind byte behind them; a mint never has the same length. */
export function isTokenAccount(account: VmAccount): boolean {
  if (!isTokenProgram(account.owner)) return false;
  const { data } = account;
  return (
    (data.length === ACCOUNT_BYTES || (data.length > ACCOUNT_BYTES && data[ACCOUNT_BYTES] === KIND_ACCOUNT)) &&
    data[108] !== 0
  );
}

export function isMint(account: VmAccount): boolean {
  if (!isTokenProgram(account.owner)) return false;
  const { data } = account;
  return (
    (data.length === MINT_BYTES || (data.length > ACCOUNT_BYTES && data[ACCOUNT_BYTES] === KIND_MINT)) && data[45] === 1
  );
}

export function tokenStateOf(account: VmAccount | null): TokenState | null {
  if (account === null || !isTokenAccount(account)) return null;
  const { data } = account;
  return {
    mint: encode32(data, 0),
    owner: encode32(data, 32),
    programId: account.owner,
    amount: view(data).getBigUint64(64, true),
  };
}

/** Token-2022 extensions of a mint or token account as type -> bytes. Bounded by the account's own length. */
export function extensionsOf(data: Uint8Array): Map<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  const reader = view(data);
  let at = ACCOUNT_BYTES + 1;
  while (at + 4 <= data.length) {
    const type = reader.getUint16(at, true);
    const length = reader.getUint16(at + 2, true);
    if (type === 0 || at + 4 + length > data.length) break;
    found.set(type, data.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return found;
}

export function view(data: Uint8Array): DataView {
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}
