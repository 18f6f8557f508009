import { CORE_PROGRAM } from '../../address/known-programs.ts';
import { nftEvents } from '../nft-event.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import type { TransactionView, ViewStep } from '../view.ts';

const SOURCE = 'METAPLEX';
const TAG = { create: 0, createCollection: 1, burn: 12, transfer: 14, createV2: 20, createCollectionV2: 21 };

/** Assets that are one account, without a mint. */
export const metaplexCore: TransactionParser = {
  name: 'metaplex-core',
  programs: [CORE_PROGRAM],
  parse(view) {
    for (const step of view.outer) {
      const parsed = step.programId === CORE_PROGRAM ? actOf(view, step) : null;
      if (parsed !== null) return parsed;
    }
    return null;
  },
};

function actOf(view: TransactionView, { accounts, data }: ViewStep): Parsed | null {
  const at = (position: number): string => {
    const text = view.account(accounts[position]);
    // An optional account that is absent is named by the program itself.
    return text === CORE_PROGRAM ? '' : text;
  };
  const asset = at(0);
  const nft = (parsed: Parsed, buyer: string, saleType: string): Parsed => ({
    ...parsed,
    events: (words) => nftEvents(view, words, parsed, { amount: 0n, buyer, seller: '', mints: [asset], saleType }),
  });
  switch (data[0]) {
    case TAG.create:
    case TAG.createV2:
      return nft({ type: 'NFT_MINT', source: SOURCE }, at(4) || at(2) || at(3), 'MINT');
    case TAG.createCollection:
    case TAG.createCollectionV2:
      return { type: 'CREATE_COLLECTION', source: SOURCE };
    case TAG.burn: {
      const owner = at(3) || at(2);
      return nft(
        { type: 'BURN_NFT', source: SOURCE, describe: () => `${owner} burned 1 ${asset}.` },
        ...(['', 'UNKNOWN'] as const),
      );
    }
    case TAG.transfer: {
      const owner = at(3) || at(2);
      return {
        ...{ type: 'TRANSFER', source: SOURCE },
        describe: (words) => `${owner} transferred 1 ${words.token(asset, 0, 1n)} to ${at(4)}.`,
      };
    }
    default:
      return null;
  }
}
