import { NAMED } from '../store/flags.ts';
import { incompleteHistory } from '../tracking/refusals.ts';
import type { Loaded, WalletView } from '../tracking/view.ts';

/** A balance at a point, and the newest transaction that it was read from. */
export interface BalanceAt {
  readonly raw: bigint;
  readonly asOf: Loaded | null;
  /** As the transaction tells; null when none does. */
  readonly decimals: number | null;
}

const NONE: BalanceAt = { raw: 0n, asOf: null, decimals: null };
/** Transactions of an account that are looked at in one go. */
const PIECE = 8;

/** Lamports after the newest transaction below a position that names the wallet. Errors: those of the view. */
export async function nativeBalance(view: WalletView, below: number): Promise<BalanceAt> {
  for (let edge = below; ; ) {
    const page = await view.page({ below: edge, above: null, mask: NAMED, limit: 1, order: 'desc' });
    const row = page.rows[0];
    if (row === undefined) {
      if (page.prunedBelow !== null) throw incompleteHistory(page.prunedBelow);
      return NONE;
    }
    const [loaded] = await view.load([row]);
    const account = loaded === undefined ? -1 : loaded.tx.keys.indexOf(loaded.block.keys.find(view.key));
    if (loaded !== undefined && account >= 0)
      return { raw: BigInt(loaded.tx.postBalances[account] ?? 0), asOf: loaded, decimals: 9 };
    // Not of this wallet.
    edge = row.n;
  }
}

/** The sum over all token accounts of a mint that the wallet ever owned. Errors: those of the view. */
export async function tokenBalance(view: WalletView, mint: Uint8Array, below: number): Promise<BalanceAt> {
  const { prunedBelow } = await view.whole();
  let sum = NONE;
  for (const account of await view.accountsOf(mint)) {
    const one = await accountBalance(view, account, mint, below);
    if (one.asOf === null) {
      // What it held may have come before all that the upstream has.
      if (prunedBelow !== null) throw incompleteHistory(prunedBelow);
      continue;
    }
    const isNewer = sum.asOf === null || one.asOf.n > sum.asOf.n;
    sum = {
      raw: sum.raw + one.raw,
      asOf: isNewer ? one.asOf : sum.asOf,
      decimals: one.decimals ?? sum.decimals,
    };
  }
  if (sum.asOf === null && prunedBelow !== null) throw incompleteHistory(prunedBelow);
  return sum;
}

async function accountBalance(
  view: WalletView,
  account: { readonly id: number; readonly address: string },
  mint: Uint8Array,
  below: number,
): Promise<BalanceAt> {
  let edge = below;
  for (;;) {
    const rows = await view.accountRows(account, edge, PIECE);
    for (const loaded of await view.load(rows)) {
      const told = balanceIn(loaded, account.address, mint, view.key);
      if (told !== null) return { ...told, asOf: loaded };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PIECE) return NONE;
    edge = last.n;
  }
}

/** What a transaction tells of an account's balance; null when it tells nothing. */
function balanceIn(
  { tx, block: { keys } }: Loaded,
  address: string,
  mint: Uint8Array,
  wallet: Uint8Array,
): { readonly raw: bigint; readonly decimals: number } | null {
  const isIt = ({ accountIndex }: { readonly accountIndex: number }) =>
    keys.base58(tx.keys[accountIndex] ?? 0) === address;
  const after = tx.postTokenBalances.find(isIt);
  const before = tx.preTokenBalances.find(isIt);
  const balance = after ?? before;
  if (balance === undefined) return null;
  const { decimals } = balance;
  // Closed, or of another mint by now.
  if (after === undefined || after.mintKey !== keys.find(mint)) return { raw: 0n, decimals };
  // Where the node tells no owner it is the one under which the account was found.
  const isOwn = after.ownerKey < 0 || after.ownerKey === keys.find(wallet);
  return { raw: isOwn ? BigInt(after.amount) : 0n, decimals };
}
