import { METADATA_PROGRAM } from '../../address/known-programs.ts';
import { nativeChange } from '../../movements/balance-changes.ts';
import type { TokenMove } from '../../movements/movement.ts';
import { nftEvents } from '../nft-event.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import { describeBurn } from '../spl/token.ts';
import { describeTransfer } from '../transfer-text.ts';
import type { TransactionView } from '../view.ts';

const SOURCE = 'METAPLEX';
const TAG = { masterEdition: 10, masterEditionV3: 17, burnNft: 29, burn: 41, mint: 43, transfer: 49 };

/** What the metadata program is asked for, with the token movements that it makes itself. */
export const tokenMetadata: TransactionParser = {
  name: 'token-metadata',
  programs: [METADATA_PROGRAM],
  parse(view) {
    const steps = view.outer.filter(({ programId }) => programId === METADATA_PROGRAM);
    const asked = (...tags: number[]) =>
      steps.filter(({ data }) => data[0] !== undefined && tags.includes(data[0])).map(({ outer }) => outer);
    const under = (groups: readonly number[], is: (move: TokenMove) => boolean) =>
      view.tokens.filter((move) => move.inner >= 0 && groups.includes(move.outer) && is(move));
    const burns = under(asked(TAG.burnNft, TAG.burn), ({ kind }) => kind === 'burn');
    if (burns.length > 0) return burned(view, burns);
    const isTransfer = ({ kind }: TokenMove) => kind !== 'burn' && kind !== 'mint';
    if (under(asked(TAG.transfer), isTransfer).length > 0)
      return { type: 'TRANSFER', source: SOURCE, describe: (words) => describeTransfer(view, words) };
    const minted = view.tokens.find(isNftMint);
    if (minted === undefined || asked(TAG.mint, TAG.masterEdition, TAG.masterEditionV3).length === 0) return null;
    return mintedNft(view, SOURCE, minted, 0n);
  },
};

export const isNftMint = ({ kind, amount, decimals }: TokenMove): boolean =>
  kind === 'mint' && amount === 1n && decimals === 0;

function burned(view: TransactionView, burns: readonly TokenMove[]): Parsed {
  const parsed: Parsed = { type: 'BURN_NFT', source: SOURCE, describe: () => describeBurn(view) };
  const owner = burns[0]?.sourceOwner ?? -1;
  const position = view.tx.keys.indexOf(owner);
  const regained = position < 0 ? 0 : nativeChange(view.tx, position) + (position === 0 ? view.tx.fee : 0);
  return {
    ...parsed,
    events: (words) =>
      nftEvents(view, words, parsed, {
        ...{ amount: BigInt(regained), buyer: '', seller: '', saleType: 'UNKNOWN' },
        mints: [...new Set(burns.map(({ mint }) => view.key(mint)))],
      }),
  };
}

/** `price` in lamports. */
export function mintedNft(view: TransactionView, source: string, minted: TokenMove, price: bigint): Parsed {
  const parsed: Parsed = { type: 'NFT_MINT', source };
  return {
    ...parsed,
    events: (words) =>
      nftEvents(view, words, parsed, {
        ...{ amount: price, buyer: view.key(minted.destinationOwner), seller: '', saleType: 'MINT' },
        mints: [view.key(minted.mint)],
      }),
  };
}
