import type { TransactionView } from './view.ts';
import type { Words } from './words.ts';

export interface NftFacts {
  /** Lamports. */
  readonly amount: bigint;
  /** base58; empty where there is none or it is not known. */
  readonly buyer: string;
  readonly seller: string;
  /** base58 */
  readonly mints: readonly string[];
  readonly saleType: string;
}

/** `events` with the one about NFTs, as it stands in an element of this type. */
export function nftEvents(
  view: TransactionView,
  words: Words,
  { type, source, describe }: { readonly type: string; readonly source: string; describe?(words: Words): string },
  facts: NftFacts,
): Readonly<Record<string, unknown>> {
  return {
    nft: {
      amount: Number(facts.amount),
      buyer: facts.buyer,
      description: describe?.(words) ?? '',
      fee: view.tx.fee,
      feePayer: view.feePayer,
      nfts: facts.mints.map((mint) => ({ mint, tokenStandard: words.standard(mint, 0, 1n) })),
      saleType: facts.saleType,
      seller: facts.seller,
      signature: view.tx.signature,
      slot: view.slot,
      source,
      staker: '',
      timestamp: view.timestamp,
      type,
    },
  };
}
