/** What an instruction of the marketplace does. */
export type MagicEdenAct = 'sale' | 'cancelBid' | 'cancelListing' | 'listing' | 'bid' | 'deposit' | 'withdraw';

/** Where an instruction names what; positions in its accounts, -1 where it is not known. */
export interface MagicEdenForm {
  readonly act: MagicEdenAct;
  /** Of the u64 price in the data; -1: the movements tell. */
  readonly priceAt: number;
  readonly buyer: number;
  readonly seller: number;
  readonly mint: number;
}

const form = (act: MagicEdenAct, priceAt = -1, buyer = -1, seller = -1, mint = -1): MagicEdenForm => ({
  ...{ act, priceAt, buyer, seller, mint },
});

/** By discriminator. */
export const MAGIC_EDEN_FORMS: Readonly<Record<string, MagicEdenForm>> = {
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
