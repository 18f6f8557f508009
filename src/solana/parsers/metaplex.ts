import { nativeChange, type TokenMove } from '../movements/movement.ts';
import { PROGRAM_ADDRESSES as AT, CORE_PROGRAM, METADATA_PROGRAM } from '../programs.ts';
import { nftEvents, type Parsed, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';
import { describeBurn, describeTransfer } from './transfers.ts';

const SOURCE = 'METAPLEX';
const TAG = { masterEdition: 10, masterEditionV3: 17, burnNft: 29, burn: 41, mint: 43, transfer: 49 };

/** Instructions of the metadata program, with the token movements that it makes itself. */
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

const isNftMint = ({ kind, amount, decimals }: TokenMove): boolean =>
  kind === 'mint' && amount === 1n && decimals === 0;

function burned(view: TransactionView, burns: readonly TokenMove[]): Parsed {
  const parsed: Parsed = { type: 'BURN_NFT', source: SOURCE, describe: () => describeBurn(view) };
  const owner = burns[0]?.sourceOwner ?? -1;
  const position = view.tx.keys.indexOf(owner);
  const regained = position < 0 ? 0 : nativeChange(view.tx, position) + (position === 0 ? Number(view.tx.fee) : 0);
  return {
    ...parsed,
    events: (words) =>
      nftEvents(view, words, parsed, {
        amount: BigInt(regained),
        buyer: '',
        seller: '',
        saleType: 'UNKNOWN',
        mints: [...new Set(burns.map(({ mint }) => view.key(mint)))],
      }),
  };
}

/** `price` in lamports. */
function mintedNft(view: TransactionView, source: string, minted: TokenMove, price: bigint): Parsed {
  const parsed: Parsed = { type: 'NFT_MINT', source };
  return {
    ...parsed,
    events: (words) =>
      nftEvents(view, words, parsed, {
        amount: price,
        buyer: view.key(minted.destinationOwner),
        seller: '',
        saleType: 'MINT',
        mints: [view.key(minted.mint)],
      }),
  };
}

const CORE_TAG = { create: 0, createCollection: 1, burn: 12, transfer: 14, createV2: 20, createCollectionV2: 21 };

/** Assets of a single account, without a mint. */
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
    // For an absent optional account the program names itself.
    return text === CORE_PROGRAM ? '' : text;
  };
  const asset = at(0);
  const nft = (parsed: Parsed, buyer: string, saleType: string): Parsed => ({
    ...parsed,
    events: (words) => nftEvents(view, words, parsed, { amount: 0n, buyer, seller: '', mints: [asset], saleType }),
  });
  switch (data[0]) {
    case CORE_TAG.create:
    case CORE_TAG.createV2:
      return nft({ type: 'NFT_MINT', source: SOURCE }, at(4) || at(2) || at(3), 'MINT');
    case CORE_TAG.createCollection:
    case CORE_TAG.createCollectionV2:
      return { type: 'CREATE_COLLECTION', source: SOURCE };
    case CORE_TAG.burn: {
      const owner = at(3) || at(2);
      return nft(
        { type: 'BURN_NFT', source: SOURCE, describe: () => `${owner} burned 1 ${asset}.` },
        ...(['', 'UNKNOWN'] as const),
      );
    }
    case CORE_TAG.transfer: {
      const owner = at(3) || at(2);
      return {
        type: 'TRANSFER',
        source: SOURCE,
        describe: (words) => `${owner} transferred 1 ${words.token(asset, 0, 1n)} to ${at(4)}.`,
      };
    }
    default:
      return null;
  }
}

const SOURCES: Readonly<Record<string, string>> = {
  [AT.CANDY_MACHINE_V1]: 'CANDY_MACHINE_V1',
  [AT.CANDY_MACHINE_V2]: 'CANDY_MACHINE_V2',
  [AT.CANDY_MACHINE_CORE_V3]: 'CANDY_MACHINE_V3',
  [AT.CANDY_MACHINE_V3]: 'CANDY_MACHINE_V3',
};

export const candyMachine: TransactionParser = {
  name: 'candy-machine',
  programs: Object.keys(SOURCES),
  parse(view) {
    const machine = view.outer.find(({ programId }) => SOURCES[programId] !== undefined);
    const minted = view.tokens.find(isNftMint);
    if (machine === undefined || minted === undefined) return null;
    // Paid by the buyer to the machine itself; rent is not part of the price.
    const price = view.natives
      .filter(
        ({ outer, inner, kind, from }) => outer === machine.outer && inner >= 0 && kind === 'transfer' && from === 0,
      )
      .filter(({ to, toToken }) => toToken === null && (view.tx.preBalances[to] ?? 0) > 0)
      .reduce((sum, { amount }) => sum + amount, 0n);
    return mintedNft(view, SOURCES[machine.programId]!, minted, price);
  },
};
