import { keyText } from '../store/row-book.ts';
import type { AccountRow, TokenAccountRow } from '../store/tables.ts';
import { u64Bytes, u64Of } from '../store/u64.ts';
import type { BlockBooks } from './block-books.ts';

/** Sums what a block gives to owners and takes from them. */
export interface Balances {
  /** `sign` 1: the account came; -1: it was spent. */
  move(account: AccountRow, token: TokenAccountRow | null, sign: 1 | -1): void;
  /** Puts the sums into the books. An owner without anything has no row. */
  settle(): Promise<void>;
}

interface Sum {
  readonly key: readonly Uint8Array[];
  amount: bigint;
}

export function createBalances({ balances, tokenBalances }: BlockBooks): Balances {
  const lamports = new Map<string, Sum>();
  const tokens = new Map<string, Sum>();
  const add = (sums: Map<string, Sum>, key: readonly Uint8Array[], amount: bigint) => {
    if (amount === 0n) return;
    const name = keyText(key);
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { key, amount });
    else sum.amount += amount;
  };
  return {
    move(account, token, sign) {
      add(lamports, [account.owner], BigInt(sign) * u64Of(account.lamports));
      if (token !== null) add(tokens, [token.owner, token.mint], BigInt(sign) * u64Of(token.amount));
    },
    async settle() {
      const owners = [...lamports.values()].filter(({ amount }) => amount !== 0n);
      await balances.load(owners.map(({ key }) => key));
      for (const { key, amount } of owners) {
        const sum = amountOf(balances.get(...key)?.lamports) + amount;
        if (sum === 0n) balances.remove(...key);
        else balances.put({ owner: key[0] as Uint8Array, lamports: u64Bytes(sum) });
      }
      const holdings = [...tokens.values()].filter(({ amount }) => amount !== 0n);
      await tokenBalances.load(holdings.map(({ key }) => key));
      for (const { key, amount } of holdings) {
        const sum = amountOf(tokenBalances.get(...key)?.amount) + amount;
        if (sum === 0n) tokenBalances.remove(...key);
        else tokenBalances.put({ owner: key[0] as Uint8Array, mint: key[1] as Uint8Array, amount: u64Bytes(sum) });
      }
    },
  };
}

const amountOf = (bytes: Uint8Array | undefined): bigint => (bytes === undefined ? 0n : u64Of(bytes));
