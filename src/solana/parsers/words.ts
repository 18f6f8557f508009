import { WRAPPED_SOL_MINT } from '../addresses.ts';

/** Known facts of tokens. */
export interface KnownNames {
  /** By mint in base58; null when unknown. */
  peek(mint: string): {
    readonly name: string | null;
    readonly symbol: string | null;
    /** Token standard as named by Metaplex. */
    readonly tokenStandard: string | null;
    /** Null when unknown. */
    readonly decimals: number | null;
  } | null;
}

/** Names of tokens in responses. */
export interface Words {
  /** In a sentence: the name of an NFT, the symbol of other tokens, the mint when unknown. */
  token(mint: string, decimals: number | null, amount: bigint): string;
  /** `tokenStandard`, guessed from the amount when unknown. */
  standard(mint: string, decimals: number | null, amount: bigint): string;
}

const NFT = 'NonFungible';
const NFTS = [NFT, 'NonFungibleEdition', 'ProgrammableNonFungible', 'ProgrammableNonFungibleEdition'];

/** `names` only changes texts, never the type of a transaction. */
export function createWords(names: KnownNames | null): Words {
  const standard = (mint: string, decimals: number | null, amount: bigint): string => {
    const known = names?.peek(mint) ?? null;
    if (known !== null && known.tokenStandard !== null) return known.tokenStandard;
    // For a known token the standard follows from its supply, which was checked; else only the amount can tell.
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

/** Raw units as a decimal, without exponent and trailing zeros. */
export function plainAmount(raw: bigint, decimals: number): string {
  const digits = (raw < 0n ? -raw : raw).toString().padStart(decimals + 1, '0');
  const fraction = decimals === 0 ? '' : digits.slice(-decimals).replace(/0+$/, '');
  const whole = decimals === 0 ? digits : digits.slice(0, -decimals);
  return `${raw < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Lamports as SOL. */
export const solAmount = (lamports: bigint | number): string => plainAmount(BigInt(lamports), 9);
