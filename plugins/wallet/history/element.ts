import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { plainAmount, uiAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { TOKEN_PROGRAM } from '../../../src/solana/address/known-programs.ts';
import { nativeChange, tokenChanges } from '../../../src/solana/movements/balance-changes.ts';
import type { Loaded } from '../tracking/view.ts';

export interface BalanceChange {
  readonly mint: string;
  readonly amount: number;
  readonly decimals: number;
}

export interface HistoryTransaction {
  readonly signature: string;
  readonly timestamp: number | null;
  readonly slot: number;
  /** SOL */
  readonly fee: number;
  readonly feePayer: string;
  readonly error: string | null;
  readonly balanceChanges: readonly BalanceChange[];
}

const SOL_DECIMALS = 9;

/** What one transaction did to a wallet. `facts` of mints whose amounts are not shown plainly. */
export function historyElement(
  loaded: Loaded,
  wallet: Uint8Array,
  facts: ReadonlyMap<string, MintFacts>,
): HistoryTransaction {
  const { tx, block, signature, slot, time } = loaded;
  return {
    ...{ signature, timestamp: time, slot, fee: Number(plainAmount(BigInt(tx.fee), SOL_DECIMALS)) },
    feePayer: block.keys.base58(tx.keys[0] ?? 0),
    error: errorText(tx.error),
    balanceChanges: [...solChange(loaded, wallet), ...tokenRows(loaded, wallet, facts)],
  };
}

function errorText(error: unknown): string | null {
  if (error === null || error === undefined) return null;
  return typeof error === 'string' ? error : JSON.stringify(error);
}

function solChange({ tx, block }: Loaded, wallet: Uint8Array): BalanceChange[] {
  const account = tx.keys.indexOf(block.keys.find(wallet));
  const change = account < 0 ? 0 : nativeChange(tx, account);
  if (change === 0) return [];
  return [{ mint: 'SOL', amount: Number(plainAmount(BigInt(change), SOL_DECIMALS)), decimals: SOL_DECIMALS }];
}

/** Sums over the accounts of the wallet, in order of first appearance. */
function tokenRows(
  { tx, block, time }: Loaded,
  wallet: Uint8Array,
  facts: ReadonlyMap<string, MintFacts>,
): BalanceChange[] {
  const owner = block.keys.find(wallet);
  const sums = new Map<number, { raw: bigint; readonly decimals: number }>();
  for (const change of tokenChanges(tx)) {
    if (change.owner !== owner || change.mint < 0) continue;
    const sum = sums.get(change.mint);
    if (sum === undefined) sums.set(change.mint, { raw: change.change, decimals: change.decimals });
    else sum.raw += change.change;
  }
  return [...sums]
    .filter(([, { raw }]) => raw !== 0n)
    .map(([mint, { raw, decimals }]) => {
      const text = block.keys.base58(mint);
      return {
        mint: text,
        amount: Number(uiAmount(raw, decimals, facts.get(text)?.scale ?? null, time ?? 0)),
        decimals,
      };
    });
}

/** Mints of a transaction whose amounts may be shown with interest or a multiplier: those of no plain SPL token. */
export function scaledMints({ tx, block }: Loaded): string[] {
  const { keys } = block;
  return [...tx.preTokenBalances, ...tx.postTokenBalances]
    .filter(({ mintKey, programKey }) => mintKey >= 0 && programKey >= 0 && keys.base58(programKey) !== TOKEN_PROGRAM)
    .map(({ mintKey }) => keys.base58(mintKey));
}
