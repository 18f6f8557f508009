import { WRAPPED_SOL_MINT } from '../addresses.ts';

/** What is known of tokens at this moment. */
export interface KnownNames {
  /** By mint in base58; null: nothing. */
  peek(mint: string): {
    readonly name: string | null;
    readonly symbol: string | null;
    /** As Metaplex names it. */
    readonly tokenStandard: string | null;
    /** Null where the token itself is not known. */
    readonly decimals: number | null;
  } | null;
}

/** How tokens are called in answers. */
export interface Words {
  /** In a sentence: the name of an NFT, the symbol of anything else, the mint where nothing is known. */
  token(mint: string, decimals: number | null, amount: bigint): string;
  /** `tokenStandard`, guessed from the amount where nothing is known. */
  standard(mint: string, decimals: number | null, amount: bigint): string;
}

const NFT = 'NonFungible';
const NFTS = [NFT, 'NonFungibleEdition', 'ProgrammableNonFungible', 'ProgrammableNonFungibleEdition'];

/** `names` only changes words, never what a transaction is. */
export function createWords(names: KnownNames | null): Words {
  const standard = (mint: string, decimals: number | null, amount: bigint): string => {
    const known = names?.peek(mint) ?? null;
    if (known !== null && known.tokenStandard !== null) return known.tokenStandard;
    // Of a token that is known and says nothing the supply has been looked at; else only the amount can tell.
    const isKnown = known !== null && known.decimals !== null;
    return !isKnown && (decimals ?? 0) === 0 && amount === 1n ? NFT : 'Fungible';
  };
  return {
    standard,
    token(mint, decimals, amount) {
      if (mint === WRAPPED_SOL_MINT) return 'SOL';
      const known = names?.peek(mint) ?? null;
      const isNft = NFTS.includes(standard(mint, decimals, amount));
      const order = isNft ? [known?.name, known?.symbol] : [known?.symbol, known?.name];
      return order.find((word) => word !== undefined && word !== null && word !== '') ?? mint;
    },
  };
}

/** Raw units as a plain decimal: no exponent, no zeros at the end. */
export function plainAmount(raw: bigint, decimals: number): string {
  const digits = (raw < 0n ? -raw : raw).toString().padStart(decimals + 1, '0');
  const fraction = decimals === 0 ? '' : digits.slice(-decimals).replace(/0+$/, '');
  const whole = decimals === 0 ? digits : digits.slice(0, -decimals);
  return `${raw < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Lamports as SOL. */
export const solAmount = (lamports: bigint | number): string => plainAmount(BigInt(lamports), 9);
