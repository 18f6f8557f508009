import { u64At } from '../movements/instructions.ts';
import { nativeChange, type TokenMove } from '../movements/movement.ts';
import { PROGRAM_ADDRESSES } from '../programs.ts';
import {
  discriminatorOf,
  nftEvents,
  type Parsed,
  solAmount,
  type TransactionParser,
  type TransactionView,
  type ViewStep,
  type Words,
} from './parser.ts';

const PROGRAM = PROGRAM_ADDRESSES.MAGIC_EDEN_V2;
const SOURCE = 'MAGIC_EDEN';
/** Precedence when one transaction contains several of them. */
const ORDER: readonly MagicEdenAct[] = [
  ...(['sale', 'cancelBid', 'cancelListing', 'listing', 'bid', 'deposit', 'withdraw'] as const),
];
const TYPES: Readonly<Record<MagicEdenAct, string>> = {
  sale: 'NFT_SALE',
  cancelBid: 'NFT_BID_CANCELLED',
  cancelListing: 'NFT_CANCEL_LISTING',
  listing: 'NFT_LISTING',
  bid: 'NFT_BID',
  deposit: 'DEPOSIT',
  withdraw: 'WITHDRAW',
};

interface MagicEdenCall {
  readonly step: ViewStep;
  readonly form: MagicEdenForm;
}

export const magicEden: TransactionParser = {
  name: 'magic-eden',
  programs: [PROGRAM],
  parse(view) {
    const found = view.outer.flatMap((step): MagicEdenCall[] => {
      if (step.programId !== PROGRAM) return [];
      const form = MAGIC_EDEN_FORMS[discriminatorOf(step.data)];
      return form === undefined ? [] : [{ step, form }];
    });
    const act = ORDER.find((one) => found.some(({ form }) => form.act === one));
    if (act === undefined) return null;
    const type = TYPES[act];
    if (act === 'deposit' || act === 'withdraw') return { type, source: SOURCE };
    return traded(view, type, act, found.find(({ form }) => form.act === act)!, found);
  },
};

function traded(
  view: TransactionView,
  type: string,
  act: MagicEdenAct,
  { step, form }: MagicEdenCall,
  all: readonly MagicEdenCall[],
): Parsed {
  const deposit = all.find((one) => one.form.act === 'deposit');
  const deposited = deposit === undefined ? null : u64At(deposit.step.data, deposit.form.priceAt);
  const trade = partiesOf(view, step, form, deposited);
  const describe = (words: Words): string => sentence(act, trade, words);
  const facts = {
    amount: trade.price,
    buyer: trade.buyer,
    seller: trade.seller,
    mints: trade.mint === '' ? [] : [trade.mint],
    saleType: saleTypeOf(act, trade, view.feePayer),
  };
  return {
    type,
    source: SOURCE,
    describe,
    events: (words) => nftEvents(view, words, { type, source: SOURCE, describe }, facts),
  };
}

function sentence(act: MagicEdenAct, { buyer, seller, mint, price }: Trade, words: Words): string {
  const name = mint === '' ? '' : words.token(mint, 0, 1n);
  const sol = solAmount(price);
  if (act === 'sale') return `${seller} sold ${name} to ${buyer} for ${sol} SOL on ${SOURCE}.`;
  if (act === 'listing') return `${seller} listed ${name} for ${sol} SOL on ${SOURCE}.`;
  if (act === 'cancelBid') return `${buyer} cancelled ${sol} SOL bid for ${name} on ${SOURCE}.`;
  if (act === 'cancelListing') return `${seller} cancelled the listing of ${name} on ${SOURCE}.`;
  return `${buyer} bid ${sol} SOL for ${name} on ${SOURCE}.`;
}

/** The payer of the fee of a sale accepted the earlier offer of the other side. */
function saleTypeOf(act: MagicEdenAct, { buyer, seller }: Trade, feePayer: string): string {
  if (act === 'bid') return 'OFFER';
  if (act !== 'sale' || feePayer === buyer) return 'INSTANT_SALE';
  return feePayer === seller ? 'OFFER' : 'UNKNOWN';
}

/** Action of a marketplace instruction. */
type MagicEdenAct = 'sale' | 'cancelBid' | 'cancelListing' | 'listing' | 'bid' | 'deposit' | 'withdraw';

/** Positions in the accounts of an instruction; -1 when unknown. */
interface MagicEdenForm {
  readonly act: MagicEdenAct;
  /** Offset of the u64 price in the data; -1: derived from the movements. */
  readonly priceAt: number;
  readonly buyer: number;
  readonly seller: number;
  readonly mint: number;
}

const form = (act: MagicEdenAct, priceAt = -1, buyer = -1, seller = -1, mint = -1): MagicEdenForm => ({
  act,
  priceAt,
  buyer,
  seller,
  mint,
});

/** By discriminator. */
const MAGIC_EDEN_FORMS: Readonly<Record<string, MagicEdenForm>> = {
  f223c68952e1f2b6: form('deposit', 9),
  b712469c946da122: form('withdraw', 9),
  // buy, buy_v2
  '66063d1201daebea': form('bid', 10, 0, -1, 2),
  b817ee6167c5d33d: form('bid', 10, 0, -1, 2),
  // sell, mip1_sell, ocp_sell, core_sell
  '33e685a4017f83ad': form('listing', 10, -1, 0, 4),
  '3a32ac6fa697165e': form('listing', 8),
  '1629d9dc15683d63': form('listing', 8),
  '1ff3f73b8653a5da': form('listing', 8),
  // execute_sale, execute_sale_v2, and those of mip1, ocp, core
  '254ad99d4f312306': form('sale', 10, 0, 1, 4),
  '5bdc31dfcc8135c1': form('sale', 10, 0, 1, 4),
  eca3ccad4790eb76: form('sale'),
  c8531f529c9c1461: form('sale'),
  d562c518f2359a23: form('sale'),
  ee4c24da84b1e0e9: form('cancelBid', 8, 0, -1, 2),
  // cancel_sell, mip1_cancel_sell, ocp_cancel_sell
  c6c682cba35faf4b: form('cancelListing', 8, -1, 0, 3),
  '4abeb9e15869d19c': form('cancelListing'),
  '490437f6259b02a6': form('cancelListing'),
};

interface Trade {
  /** base58; empty when unknown or absent. */
  readonly buyer: string;
  readonly seller: string;
  readonly mint: string;
  /** Lamports. */
  readonly price: bigint;
}

/** The parties of a trade: as named by the instruction, otherwise derived from the movements of its call. */
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

/** The named account whose lamports grew most; the previous owner of the token when none grew. */
function sellerOf(view: TransactionView, { accounts }: ViewStep, buyer: number, previous: number): number {
  let best = { key: previous, gain: 0 };
  for (const account of accounts) {
    const key = view.tx.keys[account] ?? -1;
    const gain = nativeChange(view.tx, account);
    if (key !== buyer && gain > best.gain) best = { key, gain };
  }
  return best.key;
}

/** Lamports from the buyer to accounts that existed before: rent of new accounts is not part of the price. */
function paidBy(view: TransactionView, { outer }: ViewStep, buyer: number): bigint {
  return view.natives
    .filter((move) => move.outer === outer && view.tx.keys[move.from] === buyer && move.kind === 'transfer')
    .filter(({ to }) => (view.tx.preBalances[to] ?? 0) > 0)
    .reduce((sum, { amount }) => sum + amount, 0n);
}
