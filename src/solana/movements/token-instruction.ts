import { u64At } from './little-endian.ts';
import type { TokenMoveKind } from './movement.ts';

/** An instruction of a token program as far as movements depend on it. Accounts are positions in the transaction's keys. */
export type TokenInstruction =
  | TokenMoveInstruction
  | { readonly is: 'initializeAccount'; readonly account: number; readonly mint: number; readonly owner: number }
  /** The owner stands in the data. */
  | { readonly is: 'initializeAccountFor'; readonly account: number; readonly mint: number; readonly ownerAt: number }
  | { readonly is: 'initializeMint'; readonly mint: number; readonly decimals: number }
  | { readonly is: 'setOwner'; readonly account: number; readonly ownerAt: number }
  | { readonly is: 'close'; readonly account: number; readonly destination: number };

export interface TokenMoveInstruction {
  readonly is: 'move';
  readonly kind: TokenMoveKind;
  readonly source: number;
  readonly destination: number;
  readonly authority: number;
  /** -1: the instruction does not name it. */
  readonly mint: number;
  readonly amount: bigint;
  readonly decimals: number | null;
  readonly fee: bigint | null;
}

const FEE_EXTENSION = 26;
const ACCOUNT_OWNER = 2;
const none = -1;

/** Null: the instruction moves nothing and names nothing, or it is damaged. */
export function readTokenInstruction(data: Uint8Array, accounts: Uint8Array): TokenInstruction | null {
  const [a = none, b = none, c = none, d = none] = accounts;
  const tag = data[0];
  if (tag === 3) return moveOf('transfer', data, { source: a, destination: b, authority: c, mint: none });
  if (tag === 12) return moveOf('transferChecked', data, { source: a, mint: b, destination: c, authority: d });
  if (tag === 7 || tag === 14) return moveOf('mint', data, { source: none, mint: a, destination: b, authority: c });
  if (tag === 8 || tag === 15) return moveOf('burn', data, { source: a, mint: b, destination: none, authority: c });
  if (tag === FEE_EXTENSION && data[1] === 1)
    return moveOf('transferWithFee', data, { source: a, mint: b, destination: c, authority: d });
  if (tag === 1 && c >= 0) return { is: 'initializeAccount', account: a, mint: b, owner: c };
  if ((tag === 16 || tag === 18) && b >= 0 && data.length >= 33)
    return { is: 'initializeAccountFor', account: a, mint: b, ownerAt: 1 };
  if ((tag === 0 || tag === 20) && a >= 0 && data[1] !== undefined)
    return { is: 'initializeMint', mint: a, decimals: data[1] };
  if (tag === 6 && a >= 0 && data[1] === ACCOUNT_OWNER && data[2] === 1 && data.length >= 35)
    return { is: 'setOwner', account: a, ownerAt: 3 };
  if (tag === 9 && b >= 0) return { is: 'close', account: a, destination: b };
  return null;
}

type Parties = Pick<TokenMoveInstruction, 'source' | 'destination' | 'authority' | 'mint'>;

function moveOf(kind: TokenMoveKind, data: Uint8Array, parties: Parties): TokenMoveInstruction | null {
  const at = kind === 'transferWithFee' ? 2 : 1;
  const amount = u64At(data, at);
  const isChecked = data[0] !== 3 && data[0] !== 7 && data[0] !== 8;
  const decimals = isChecked ? (data[at + 8] ?? null) : null;
  const fee = kind === 'transferWithFee' ? u64At(data, at + 9) : null;
  if (amount === null || (isChecked && decimals === null) || (kind === 'transferWithFee' && fee === null)) return null;
  const { source, destination, mint } = parties;
  const isComplete =
    (kind === 'mint' || source >= 0) && (kind === 'burn' || destination >= 0) && (kind === 'transfer' || mint >= 0);
  return isComplete ? { is: 'move', kind, amount, decimals, fee, ...parties } : null;
}
