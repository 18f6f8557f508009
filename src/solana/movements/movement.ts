import { decode32 } from '../../lib/base58.ts';
import { lazy } from '../../lib/lazy.ts';
import type { KeyTable, NormalInstruction, NormalTransaction, TokenBalance } from '../../ports/block.ts';
import {
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  WRAPPED_SOL_2022_MINT,
  WRAPPED_SOL_MINT,
} from '../programs.ts';

/**
 * A movement by an instruction. Accounts are positions in `NormalTransaction.keys`, keys (owners, mints, programs) are ids for
 * `Movements.keys`; -1 means absent or unknown.
 */
export type Movement = NativeMove | TokenMove;

/** Position of the instruction. Movements are in order of execution; `inner` is -1 for an instruction of the message itself. */
interface MovePlace {
  readonly outer: number;
  readonly inner: number;
}

export type NativeMoveKind =
  | 'transfer'
  | 'transferWithSeed'
  | 'createAccount'
  | 'createAccountWithSeed'
  /** A token account of wrapped SOL was closed: all its lamports, including rent. */
  | 'closeWrapped';

export interface NativeMove extends MovePlace {
  readonly asset: 'native';
  readonly kind: NativeMoveKind;
  readonly from: number;
  readonly to: number;
  /** Lamports, also 0. */
  readonly amount: bigint;
  /** Key of the owner program of a created account; -1 for the other kinds. */
  readonly createdFor: number;
  /** The token account at either end, at that time or as created later in the transaction; null for other accounts. */
  readonly fromToken: TokenAccountFacts | null;
  readonly toToken: TokenAccountFacts | null;
}

export type TokenMoveKind = 'transfer' | 'transferChecked' | 'transferWithFee' | 'mint' | 'burn';

export interface TokenMove extends MovePlace {
  readonly asset: 'token';
  readonly kind: TokenMoveKind;
  /** Token accounts; -1 for the source of a mint and the destination of a burn. */
  readonly source: number;
  readonly destination: number;
  /** Account that signed for it: owner, delegate, multisig or mint authority. */
  readonly authority: number;
  /** Owners at the time. An unknown owner is -1; for a source it is the authority. */
  readonly sourceOwner: number;
  readonly destinationOwner: number;
  readonly mint: number;
  /** Decimals of the mint; null when unknown. */
  readonly decimals: number | null;
  /** Raw units, gross of a transfer fee. */
  readonly amount: bigint;
  /**
   * Raw units withheld from the destination: as in the instruction, otherwise derived from the balance of a destination with
   * no other movement; 0 for SPL Token; null when unknown (Token-2022).
   */
  readonly fee: bigint | null;
  /** Key of the token program. */
  readonly program: number;
}

export interface TokenAccountFacts {
  readonly mint: number;
  readonly owner: number;
  readonly program: number;
  /** Its lamports are its tokens. */
  readonly isWrapped: boolean;
}

export interface WalkStep extends MovePlace {
  /** Key of the program. */
  readonly program: number;
  /** Positions in `NormalTransaction.keys`. */
  readonly accounts: Uint8Array;
  /** A view of the block's bytes. */
  readonly data: Uint8Array;
}

/** All instructions in order of execution: the first of the message, its calls, the second, … */
export function walkInstructions(tx: NormalTransaction): WalkStep[] {
  const steps: WalkStep[] = [];
  const inner = tx.innerInstructions;
  tx.instructions.forEach((instruction, outer) => {
    steps.push(stepOf(tx, instruction, outer, -1));
    for (const group of inner) {
      if (group.index !== outer) continue;
      group.instructions.forEach((called, at) => {
        steps.push(stepOf(tx, called, outer, at));
      });
    }
  });
  return steps;
}

function stepOf(
  tx: NormalTransaction,
  { programIndex, accounts, data }: NormalInstruction,
  outer: number,
  inner: number,
): WalkStep {
  return { outer, inner, program: tx.keys[programIndex] ?? -1, accounts, data };
}

const ADDRESSES = {
  system: SYSTEM_PROGRAM,
  token: TOKEN_PROGRAM,
  token2022: TOKEN_2022_PROGRAM,
  wrapped: WRAPPED_SOL_MINT,
  wrapped2022: WRAPPED_SOL_2022_MINT,
} as const;

/** Ids of the programs that move value, and of the mints of wrapped SOL, in one block; -1 when absent. */
export type MovementPrograms = Readonly<Record<keyof typeof ADDRESSES, number>>;

const known = lazy(() => Object.entries(ADDRESSES).map(([name, text]) => [name, decode32(text)!] as const));

export function findMovementPrograms(keys: KeyTable): MovementPrograms {
  const ids: Record<string, number> = {};
  for (const [name, bytes] of known()) ids[name] = keys.find(bytes);
  return ids as MovementPrograms;
}

/** The change of a token account; an account whose owner changed has two, one per owner. Never zero. */
export interface TokenChange {
  /** Position of the token account in `NormalTransaction.keys`. */
  readonly account: number;
  /** Key ids of the block's table; -1 when the node reports none. */
  readonly mint: number;
  readonly owner: number;
  readonly program: number;
  readonly decimals: number;
  /** Raw units, signed. */
  readonly change: bigint;
}

/** Lamports after minus before of an account, including the fee if it paid it. */
export function nativeChange({ preBalances, postBalances }: NormalTransaction, account: number): number {
  return Number(BigInt(postBalances[account] ?? 0) - BigInt(preBalances[account] ?? 0));
}

/**
 * Raw units after minus before, per token account, owner and mint, in order of accounts.
 */
export function tokenChanges({ preTokenBalances, postTokenBalances }: NormalTransaction): TokenChange[] {
  const changes: TokenChange[] = [];
  const rest = new Map(postTokenBalances.map((balance) => [balance.accountIndex, balance]));
  for (const before of preTokenBalances) {
    const after = rest.get(before.accountIndex);
    rest.delete(before.accountIndex);
    const amount = BigInt(before.amount);
    // An owner reported on one side only is assumed to be the same.
    const isSame = after !== undefined && after.mintKey === before.mintKey && sameOwner(before, after);
    if (isSame) push(changes, after.ownerKey < 0 ? before : after, BigInt(after.amount) - amount);
    else {
      push(changes, before, -amount);
      if (after !== undefined) push(changes, after, BigInt(after.amount));
    }
  }
  for (const after of rest.values()) push(changes, after, BigInt(after.amount));
  return changes.sort((left, right) => left.account - right.account);
}

const sameOwner = (left: TokenBalance, right: TokenBalance): boolean =>
  left.ownerKey === right.ownerKey || left.ownerKey < 0 || right.ownerKey < 0;

function push(changes: TokenChange[], balance: TokenBalance, change: bigint): void {
  if (change === 0n) return;
  const { accountIndex: account, mintKey: mint, ownerKey: owner, programKey: program, decimals } = balance;
  changes.push({ account, mint, owner, program, decimals, change });
}
