import { lazy } from '../../lib/lazy.ts';
import { u64At } from '../movements/instructions.ts';
import { PROGRAM_ADDRESSES, TENSOR_COMPRESSED } from '../programs.ts';
import { partiesOf } from './magic-eden.ts';
import { anchorDiscriminator } from './named.ts';
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

const SOURCE = 'TENSOR';
const PROGRAMS: readonly string[] = [PROGRAM_ADDRESSES.TENSOR, TENSOR_COMPRESSED];
const PRICE_AT = 8;

type Act = 'sale' | 'listing' | 'cancelListing';
const TYPES = { sale: 'NFT_SALE', listing: 'NFT_LISTING', cancelListing: 'NFT_CANCEL_LISTING' } as const;

const SALES = [
  'buy_nft',
  'buy_nft_t22',
  'wns_buy_nft',
  'buy_single_listing',
  'buy_single_listing_t22',
  'wns_buy_single_listing',
  'sell_nft_trade_pool',
  'sell_nft_trade_pool_t22',
  'wns_sell_nft_trade_pool',
  'sell_nft_token_pool',
  'sell_nft_token_pool_t22',
  'wns_sell_nft_token_pool',
  'buy',
  'buy_core',
  'buy_legacy',
  'buy_t22',
  'buy_wns',
  'take_bid_full_meta',
  'take_bid_meta_hash',
  'take_bid_core',
  'take_bid_legacy',
  'take_bid_t22',
  'take_bid_wns',
];
const LISTINGS = ['list', 'list_core', 'list_legacy', 'list_t22', 'list_wns', 'wns_list'];
const CANCELS = ['delist', 'delist_core', 'delist_legacy', 'delist_t22', 'delist_wns', 'wns_delist'];
/** In the data of a compressed NFT, after nonce, index and three hashes. */
const COMPRESSED_PRICE_AT = 8 + 8 + 4 + 3 * 32;

const acts = lazy(() => {
  const table = new Map<string, Act>();
  const add = (act: Act, names: readonly string[]): void => {
    for (const name of names) table.set(anchorDiscriminator(name), act);
  };
  add('sale', SALES);
  add('listing', LISTINGS);
  add('cancelListing', CANCELS);
  return table;
});

export const tensor: TransactionParser = {
  name: 'tensor',
  programs: PROGRAMS,
  parse(view) {
    for (const step of view.outer) {
      const act = PROGRAMS.includes(step.programId) ? acts().get(discriminatorOf(step.data)) : undefined;
      if (act !== undefined) return traded(view, step, act);
    }
    return null;
  },
};

/** The price of a listing is in its data; that of a sale is the amount paid by the buyer. */
function traded(view: TransactionView, step: ViewStep, act: Act): Parsed {
  const isCompressed =
    step.programId === TENSOR_COMPRESSED && discriminatorOf(step.data) === anchorDiscriminator('list');
  const priceAt = isCompressed ? COMPRESSED_PRICE_AT : PRICE_AT;
  const form = { act, priceAt: act === 'listing' ? priceAt : -1, buyer: -1, seller: -1, mint: -1 };
  const { buyer, seller, mint, price } = partiesOf(view, step, form, null);
  const type = TYPES[act];
  const amount = act === 'listing' ? (u64At(step.data, priceAt) ?? 0n) : price;
  const describe = (words: Words): string => {
    const name = mint === '' ? '' : words.token(mint, 0, 1n);
    if (act === 'sale') return `${seller} sold ${name} to ${buyer} for ${solAmount(amount)} SOL on ${SOURCE}.`;
    if (act === 'listing') return `${seller} listed ${name} for ${solAmount(amount)} SOL on ${SOURCE}.`;
    return `${seller} cancelled the listing of ${name} on ${SOURCE}.`;
  };
  const saleType = act !== 'sale' || view.feePayer === buyer ? 'INSTANT_SALE' : 'OFFER';
  const facts = { amount, buyer, seller, saleType, mints: mint === '' ? [] : [mint] };
  return {
    type,
    source: SOURCE,
    describe,
    events: (words) => nftEvents(view, words, { type, source: SOURCE, describe }, facts),
  };
}
