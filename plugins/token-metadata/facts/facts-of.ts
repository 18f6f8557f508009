import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { isNft } from '../../../src/solana/accounts/is-nft.ts';
import { readAmountScale } from '../../../src/solana/accounts/token/amount-scale.ts';
import { readTransferFeeConfig } from '../../../src/solana/accounts/token/transfer-fee.ts';
import { type TokenRecord, textsOf } from '../records/token-record.ts';

/** The facts of a mint as the chain alone tells them. */
export function factsOf(record: TokenRecord & { readonly kind: 'mint' }): MintFacts {
  const { mint, decoded, metadata } = record;
  const { name, symbol, uri } = textsOf(record);
  const metaplex = metadata.kind === 'metaplex' ? metadata.value : null;
  const fees = readTransferFeeConfig(decoded.extensions);
  return {
    mint,
    program: decoded.program,
    decimals: decoded.decimals,
    supply: decoded.supply,
    name: name || null,
    symbol: symbol || null,
    uri: uri || null,
    logoUri: null,
    tokenStandard: metaplex?.tokenStandard ?? null,
    collection: metaplex?.collection ?? null,
    isNft: isNft(decoded, metaplex?.tokenStandard ?? null),
    scale: readAmountScale(decoded.extensions),
    transferFee: fees && { older: fees.older, newer: fees.newer },
  };
}
