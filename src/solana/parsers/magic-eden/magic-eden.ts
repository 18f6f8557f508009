import { u64At } from '../../movements/little-endian.ts';
import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import { discriminatorOf } from '../discriminator.ts';
import { nftEvents } from '../nft-event.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { solAmount, type Words } from '../words.ts';
import { MAGIC_EDEN_FORMS, type MagicEdenAct, type MagicEdenForm } from './forms.ts';
import { partiesOf, type Trade } from './parties.ts';

const PROGRAM = PROGRAM_ADDRESSES.MAGIC_EDEN_V2;
const SOURCE = 'MAGIC_EDEN';
/** What decides when one transaction does several of them. */
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

interface Found {
  readonly step: ViewStep;
  readonly form: MagicEdenForm;
}

export const magicEden: TransactionParser = {
  name: 'magic-eden',
  programs: [PROGRAM],
  parse(view) {
    const found = view.outer.flatMap((step): Found[] => {
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
  { step, form }: Found,
  all: readonly Found[],
): Parsed {
  const deposit = all.find((one) => one.form.act === 'deposit');
  const deposited = deposit === undefined ? null : u64At(deposit.step.data, deposit.form.priceAt);
  const trade = partiesOf(view, step, form, deposited);
  const describe = (words: Words): string => sentence(act, trade, words);
  const facts = {
    ...{ amount: trade.price, buyer: trade.buyer, seller: trade.seller },
    mints: trade.mint === '' ? [] : [trade.mint],
    saleType: saleTypeOf(act, trade, view.feePayer),
  };
  return {
    ...{ type, source: SOURCE, describe },
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

/** Whoever pays the fee of a sale accepted what the other one had offered before. */
function saleTypeOf(act: MagicEdenAct, { buyer, seller }: Trade, feePayer: string): string {
  if (act === 'bid') return 'OFFER';
  if (act !== 'sale' || feePayer === buyer) return 'INSTANT_SALE';
  return feePayer === seller ? 'OFFER' : 'UNKNOWN';
}
