import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import { nativeChange } from '../../../src/solana/movements/balance-changes.ts';
import { readMovements } from '../../../src/solana/movements/read-movements.ts';

/** SOL that came to a wallet. */
export interface Funding {
  /** base58 */
  readonly funder: string;
  /** Lamports. */
  readonly amount: bigint;
}

/** What a transaction funded a wallet (base58) with; null when it did not. */
export function fundingOf(
  tx: NormalTransaction,
  { keys: table }: Pick<ChainBlock, 'keys'>,
  wallet: string,
): Funding | null {
  if (tx.error !== null) return null;
  return largestTransfer(tx, table, wallet) ?? riseOf(tx, table, wallet);
}

/** The largest system transfer to it; of equal ones the first. */
function largestTransfer(tx: NormalTransaction, table: ChainBlock['keys'], wallet: string): Funding | null {
  const { moves, keys } = readMovements(tx, table);
  const account = (position: number) => keys.base58(tx.keys[position] ?? -1);
  let largest: Funding | null = null;
  for (const move of moves) {
    if (move.asset !== 'native' || account(move.to) !== wallet || move.amount <= 0n) continue;
    const owner = move.fromToken?.owner ?? -1;
    const funder = owner >= 0 ? keys.base58(owner) : account(move.from);
    if (funder !== wallet && move.amount > (largest?.amount ?? 0n)) largest = { funder, amount: move.amount };
  }
  return largest;
}

/** A program gave it lamports: then whoever paid for the transaction, if that cost more than the fee. */
function riseOf(tx: NormalTransaction, table: ChainBlock['keys'], wallet: string): Funding | null {
  const texts = Array.from(tx.keys, (id) => table.base58(id));
  const position = texts.indexOf(wallet);
  const rise = position < 0 ? 0 : nativeChange(tx, position);
  const payer = texts[0];
  if (rise <= 0 || payer === undefined || payer === wallet || nativeChange(tx, 0) >= -tx.fee) return null;
  return { funder: payer, amount: BigInt(rise) };
}
