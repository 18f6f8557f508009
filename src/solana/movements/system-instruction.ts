import { u32At, u64At } from './little-endian.ts';
import type { NativeMoveKind } from './movement.ts';
import type { WalkStep } from './walk.ts';

export interface SystemMove {
  readonly kind: Exclude<NativeMoveKind, 'closeWrapped'>;
  /** Positions in the transaction's keys. */
  readonly from: number;
  readonly to: number;
  /** Lamports. */
  readonly amount: bigint;
  /** Where the data names the program that a created account belongs to; -1 for a transfer. */
  readonly ownerAt: number;
}

/** What an instruction of the System program moves, or null: it moves nothing, or its data is damaged. */
export function readSystemMove({ data, accounts }: WalkStep): SystemMove | null {
  const tag = u32At(data, 0);
  if (tag === 0) return moveOf('createAccount', accounts[0], accounts[1], u64At(data, 4), 20);
  if (tag === 2) return moveOf('transfer', accounts[0], accounts[1], u64At(data, 4), -1);
  // Account 1 is the address that the source was derived from.
  if (tag === 11) return moveOf('transferWithSeed', accounts[0], accounts[2], u64At(data, 4), -1);
  if (tag !== 3) return null;
  const seedLength = u64At(data, 36);
  if (seedLength === null || seedLength > BigInt(data.length)) return null;
  const at = 44 + Number(seedLength);
  return moveOf('createAccountWithSeed', accounts[0], accounts[1], u64At(data, at), at + 16);
}

function moveOf(
  kind: SystemMove['kind'],
  from: number | undefined,
  to: number | undefined,
  amount: bigint | null,
  ownerAt: number,
): SystemMove | null {
  return from === undefined || to === undefined || amount === null ? null : { kind, from, to, amount, ownerAt };
}
