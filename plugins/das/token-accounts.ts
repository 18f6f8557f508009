import { decode32 } from '../../src/lib/base58.ts';
import { decodeMint, decodeTokenAccount, type TokenAccount } from '../../src/solana/accounts/token.ts';
import { accountExtensionsJson } from '../../src/solana/accounts/token-extensions.ts';
import type { AssetDialect } from '../../src/solana/assets/asset.ts';
import type { DasConfig } from './config.ts';
import { cutPage, type DasRequest, readKey, readPaging } from './params.ts';
import type { AccountSource, KeyedAccount } from './source.ts';

/** A page of the token accounts of an owner, of a mint, or of both. Empty ones are in it with `showZeroBalance`. */
export async function readTokenAccounts(
  question: DasRequest,
  source: AccountSource,
  config: DasConfig,
): Promise<object> {
  const { member, options, invalid } = question;
  const keyMember = (...names: readonly [string, string]): string | null => {
    const key = member(...names);
    return key === undefined ? null : readKey(key, question, names[0]);
  };
  const [mint, owner] = [keyMember('mint', 'mintAddress'), keyMember('owner', 'ownerAddress')];
  const paging = readPaging(question);
  if (mint === null && owner === null) throw invalid('mint or owner must be given');
  const accounts = owner === null ? await ofMint(mint as string, source, question) : await source.ofOwner(owner);
  if (accounts.length > config.maxTokenAccounts)
    throw invalid(`${accounts.length} token accounts; at most ${config.maxTokenAccounts} are read`);
  const items = accounts.flatMap(({ address, account }) => {
    const held = decodeTokenAccount(account).value;
    const isWanted =
      held !== null &&
      (mint === null || held.mint === mint) &&
      (held.amount > 0n || options['showZeroBalance'] === true);
    return isWanted ? [{ key: decode32(address) as Uint8Array, item: { address, held } }] : [];
  });
  const page = cutPage(items, paging);
  const last = page.items.at(-1)?.address ?? null;
  const isHosted = config.dialect === 'hosted';
  const usesCursor = paging.page === null && paging.before === null && paging.after === null;
  return {
    ...(isHosted ? { last_indexed_slot: source.slot } : {}),
    total: page.items.length,
    limit: paging.limit,
    ...(paging.page === null ? {} : { page: paging.page }),
    ...(paging.before === null ? {} : { before: paging.before }),
    ...(paging.after === null ? {} : { after: paging.after }),
    ...(usesCursor && isHosted && last !== null ? { cursor: last } : {}),
    token_accounts: page.items.map(({ address, held }) => tokenAccountJson(address, held, config.dialect)),
    ...(isHosted ? {} : { cursor: usesCursor && page.hasMore ? last : null, errors: [] }),
  };
}

async function ofMint(mint: string, source: AccountSource, { invalid }: DasRequest): Promise<readonly KeyedAccount[]> {
  const account = (await source.accounts([mint])).get(mint) ?? null;
  const program = account === null ? undefined : decodeMint(account).value?.program;
  if (program === undefined) throw invalid(`${mint} is not a mint`);
  return source.ofMint(mint, program);
}

function tokenAccountJson(address: string, held: TokenAccount, dialect: AssetDialect): object {
  const { mint, owner, amount, delegate, delegatedAmount, isFrozen, closeAuthority } = held;
  const extensions = accountExtensionsJson(held.extensions);
  const common = { address, mint, amount, owner, frozen: isFrozen, delegated_amount: delegatedAmount };
  if (dialect === 'metaplex') return { ...common, delegate, close_authority: closeAuthority, extensions };
  return {
    ...common,
    ...(delegate === null ? {} : { delegate }),
    ...(extensions === null ? {} : { token_extensions: extensions }),
  };
}
