import { nativeChange } from '../../movements/balance-changes.ts';
import { u64At } from '../../movements/little-endian.ts';
import type { TokenMove } from '../../movements/movement.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import type { MagicEdenForm } from './forms.ts';

export interface Trade {
  /** base58; empty where unknown or none. */
  readonly buyer: string;
  readonly seller: string;
  readonly mint: string;
  /** Lamports. */
  readonly price: bigint;
}

/** Who trades what: as the instruction names it, or else as the movements of its call show it. */
export function partiesOf(view: TransactionView, step: ViewStep, form: MagicEdenForm, deposited: bigint | null): Trade {
  const named = (at: number): string => (at < 0 ? '' : view.account(step.accounts[at]));
  const price = form.priceAt < 0 ? null : u64At(step.data, form.priceAt);
  if (form.mint >= 0)
    return { buyer: named(form.buyer), seller: named(form.seller), mint: named(form.mint), price: price ?? 0n };
  const nft = view.tokens.find((move) => move.outer === step.outer && isNft(move));
  const mint = nft === undefined ? '' : view.key(nft.mint);
  if (form.act !== 'sale') return { buyer: '', seller: view.feePayer, mint, price: price ?? 0n };
  const buyer = nft?.destinationOwner ?? -1;
  return {
    mint,
    buyer: view.key(buyer),
    seller: view.key(sellerOf(view, step, buyer, nft?.sourceOwner ?? -1)),
    price: price ?? deposited ?? paidBy(view, step, buyer),
  };
}

const isNft = ({ amount, decimals, kind }: TokenMove): boolean =>
  kind !== 'mint' && kind !== 'burn' && amount === 1n && (decimals ?? 0) === 0;

/** Whose lamports grew most among those that the instruction names; the previous owner of the token when nobody's did. */
function sellerOf(view: TransactionView, { accounts }: ViewStep, buyer: number, previous: number): number {
  let best = { key: previous, gain: 0 };
  for (const account of accounts) {
    const key = view.tx.keys[account] ?? -1;
    const gain = nativeChange(view.tx, account);
    if (key !== buyer && gain > best.gain) best = { key, gain };
  }
  return best.key;
}

/** Lamports that went from the buyer to accounts that existed before: rent of new ones is no price. */
function paidBy(view: TransactionView, { outer }: ViewStep, buyer: number): bigint {
  return view.natives
    .filter((move) => move.outer === outer && view.tx.keys[move.from] === buyer && move.kind === 'transfer')
    .filter(({ to }) => (view.tx.preBalances[to] ?? 0) > 0)
    .reduce((sum, { amount }) => sum + amount, 0n);
}
