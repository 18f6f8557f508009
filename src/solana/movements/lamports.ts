import type { NormalTransaction } from '../../ports/block.ts';

/** Lamports of the accounts while the instructions are walked through, as far as instructions tell. */
export interface Lamports {
  of(account: number): bigint;
  move(from: number, to: number, amount: bigint): void;
}

export function createLamports({ preBalances }: NormalTransaction): Lamports {
  const changed = new Map<number, bigint>();
  const of = (account: number): bigint => changed.get(account) ?? BigInt(preBalances[account] ?? 0);
  return {
    of,
    move(from, to, amount) {
      const left = of(from) - amount;
      // Programs also move lamports without an instruction that says so.
      changed.set(from, left < 0n ? 0n : left);
      changed.set(to, of(to) + amount);
    },
  };
}
