import type { TokenBalance } from '../../ports/block.ts';
import type { RpcTokenBalance } from '../rpc-json.ts';
import { isIndex } from './check-meta.ts';
import type { KeyTableBuilder } from './key-table.ts';

type Balances = readonly RpcTokenBalance[] | null | undefined;

/**
 * Puts mints, owners and programs into the table and adds the owners that are new to `owners`. False when a balance lacks what
 * is read later, or names what is no address.
 */
export function internTokenBalances(
  balances: Balances,
  keyCount: number,
  table: KeyTableBuilder,
  owners: number[],
): boolean {
  if (balances === null || balances === undefined) return true;
  if (!Array.isArray(balances)) return false;
  for (let at = 0; at < balances.length; at++) {
    const balance = balances[at] as RpcTokenBalance | null;
    if (balance === null || typeof balance !== 'object' || !isIndex(balance.accountIndex, keyCount)) return false;
    const { mint, owner, programId, uiTokenAmount } = balance;
    if (typeof uiTokenAmount?.amount !== 'string' || typeof uiTokenAmount.decimals !== 'number') return false;
    if (typeof mint !== 'string' || table.internText(mint) < 0) return false;
    if (isGiven(programId) && table.internText(programId) < 0) return false;
    if (!isGiven(owner)) continue;
    const id = table.internText(owner);
    if (id < 0) return false;
    if (!owners.includes(id)) owners.push(id);
  }
  return true;
}

/** The balances of a transaction that `internTokenBalances` accepted. */
export function tokenBalancesOf(balances: Balances, keys: KeyTableBuilder): readonly TokenBalance[] {
  return (balances ?? []).map((balance) => ({
    accountIndex: balance.accountIndex,
    mintKey: keys.internText(balance.mint),
    ownerKey: isGiven(balance.owner) ? keys.internText(balance.owner) : -1,
    programKey: isGiven(balance.programId) ? keys.internText(balance.programId) : -1,
    amount: balance.uiTokenAmount.amount,
    decimals: balance.uiTokenAmount.decimals,
  }));
}

/** Old blocks have an empty text where nothing is known. */
function isGiven(text: string | null | undefined): text is string {
  return typeof text === 'string' && text !== '';
}
