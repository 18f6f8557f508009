import { decode32, encode32 } from '../../../../src/lib/base58.ts';
import type { TokenFacts } from '../../../../src/ports/token-facts.ts';
import { TOKEN_PROGRAM } from '../../../../src/solana/address/known-programs.ts';
import { domainKey, nameMint } from '../../../../src/solana/names/keys.ts';
import { parseName } from '../../../../src/solana/names/name-text.ts';
import type { AccountReader } from './account-reader.ts';

/** Names that an address holds as tokens. */
export interface NameTokens {
  /** Their accounts in the registry. */
  find(address: string): Promise<readonly Uint8Array[]>;
}

interface TokenAccount {
  readonly account: { readonly data: readonly [base64: string, encoding: string] };
}

const HEAD_BYTES = 72;
const AMOUNT_AT = 64;
/** Tokens of which an address holds one, looked at for names. */
const MOST_TOKENS = 1_000;

/**
 * A token of a name is called like the name, which proves nothing: whoever makes a token can call it so. That its mint is the one
 * derived from the name does. Without facts of tokens none are found.
 */
export function createNameTokens(reader: AccountReader, facts: TokenFacts | null): NameTokens {
  return {
    async find(address) {
      if (facts === null) return [];
      const options = { encoding: 'base64', commitment: 'confirmed', dataSlice: { offset: 0, length: HEAD_BYTES } };
      const { value } = await reader.call<{ value: readonly TokenAccount[] }>('getTokenAccountsByOwner', [
        address,
        { programId: TOKEN_PROGRAM },
        options,
      ]);
      const mints = value.flatMap(({ account }) => singleMint(Buffer.from(account.data[0], 'base64')) ?? []);
      if (mints.length > MOST_TOKENS) throw new RangeError('too many tokens to look for names among them');
      const found = await facts.lookUp(mints);
      return mints.flatMap((mint) => domainOf(mint, found.get(mint)?.name ?? null) ?? []);
    },
  };
}

/** The mint of an account that holds exactly one unit. */
function singleMint(head: Buffer): string | null {
  return head.length >= HEAD_BYTES && head.readBigUInt64LE(AMOUNT_AT) === 1n ? encode32(head) : null;
}

function domainOf(mint: string, name: string | null): Uint8Array | null {
  const parsed = name === null ? null : parseName(name);
  if (parsed === null || parsed.labels.length !== 1) return null;
  const domain = domainKey(parsed.labels);
  return Buffer.compare(nameMint(domain), decode32(mint) as Uint8Array) === 0 ? domain : null;
}
