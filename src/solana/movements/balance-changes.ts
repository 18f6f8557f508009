import type { NormalTransaction, TokenBalance } from '../../ports/block.ts';

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
  return (postBalances[account] ?? 0) - (preBalances[account] ?? 0);
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
