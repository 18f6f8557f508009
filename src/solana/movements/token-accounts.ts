import type { NormalTransaction, TokenBalance } from '../../ports/block.ts';
import type { MovementPrograms, TokenAccountFacts } from './movement.ts';

/** The token accounts of a transaction while its instructions are walked through. */
export interface TokenAccounts {
  /** As it is now, else as it is after the transaction, else null. */
  now(account: number): TokenAccountFacts | null;
  /** As it is now, or was or will be at any time of the transaction. */
  ever(account: number): TokenAccountFacts | null;
  opened(account: number, mint: number, owner: number, program: number): void;
  ownerSet(account: number, owner: number): void;
  /** Gives the facts of the account that is no more. */
  closed(account: number): TokenAccountFacts | null;
  mintMade(mint: number, decimals: number): void;
  /** A movement says what balances did not: the mint of an account, or who may send from it. -1: it does not say. */
  told(account: number, mint: number, owner: number): void;
  /** What movements told of an account whose facts nothing else gives. */
  toldOf(account: number): { readonly mint: number; readonly owner: number };
  isWrapped(mint: number): boolean;
  /** Decimals of a mint; null when nothing of the transaction tells. */
  decimals(mint: number): number | null;
}

const UNTOLD = { mint: -1, owner: -1 };

export function createTokenAccounts(tx: NormalTransaction, programs: MovementPrograms): TokenAccounts {
  const current = new Map<number, TokenAccountFacts>();
  const after = new Map<number, TokenAccountFacts>();
  const past = new Map<number, TokenAccountFacts>();
  const told = new Map<number, { mint: number; owner: number }>();
  const decimalsOf = new Map<number, number>();
  const isWrapped = (mint: number): boolean =>
    mint >= 0 && (mint === programs.wrapped || mint === programs.wrapped2022);
  const facts = (mint: number, owner: number, program: number): TokenAccountFacts => ({
    ...{ mint, owner, program },
    isWrapped: isWrapped(mint),
  });
  const take = (balances: readonly TokenBalance[], into: Map<number, TokenAccountFacts>): void => {
    for (const { accountIndex, mintKey, ownerKey, programKey, decimals } of balances) {
      // Old blocks name no program: there was only one then.
      into.set(accountIndex, facts(mintKey, ownerKey, programKey < 0 ? programs.token : programKey));
      decimalsOf.set(mintKey, decimals);
    }
  };
  take(tx.preTokenBalances, current);
  take(tx.postTokenBalances, after);
  const now = (account: number) => current.get(account) ?? after.get(account) ?? null;

  return {
    now,
    ever: (account) => now(account) ?? past.get(account) ?? null,
    opened: (account, mint, owner, program) => current.set(account, facts(mint, owner, program)),
    ownerSet(account, owner) {
      const known = now(account);
      if (known !== null) current.set(account, { ...known, owner });
    },
    closed(account) {
      const { mint, owner } = told.get(account) ?? UNTOLD;
      const known = now(account) ?? (mint < 0 ? null : facts(mint, owner, programs.token));
      if (known !== null) past.set(account, known);
      current.delete(account);
      return known;
    },
    told(account, mint, owner) {
      const known = told.get(account) ?? UNTOLD;
      told.set(account, { mint: known.mint < 0 ? mint : known.mint, owner: known.owner < 0 ? owner : known.owner });
    },
    toldOf: (account) => told.get(account) ?? UNTOLD,
    mintMade: (mint, decimals) => decimalsOf.set(mint, decimals),
    isWrapped,
    decimals: (mint) => (mint < 0 ? null : (decimalsOf.get(mint) ?? (isWrapped(mint) ? 9 : null))),
  };
}
