import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';

/** An account, or that there is none, and the slot at which that was so. */
export interface AccountRead {
  readonly account: RawAccount | null;
  readonly slot: number;
}

/** Accounts that were read for the index and are not stored yet. */
export interface ReadBook {
  readonly reads: ReadonlyMap<string, AccountRead>;
  note(address: string, read: AccountRead): void;
  /** Token accounts among them, by mint. */
  ofMint(mint: string): readonly string[];
  /** Mints for which the chain was asked which account holds most. */
  readonly asked: Set<string>;
}

export function createReadBook(): ReadBook {
  const reads = new Map<string, AccountRead>();
  const byMint = new Map<string, string[]>();
  return {
    reads,
    note(address, read) {
      const held = read.account === null ? null : decodeTokenAccount(read.account).value;
      if (held !== null && !(byMint.get(held.mint) ?? []).includes(address))
        byMint.set(held.mint, [...(byMint.get(held.mint) ?? []), address]);
      reads.set(address, read);
    },
    ofMint: (mint) => byMint.get(mint) ?? [],
    asked: new Set(),
  };
}
