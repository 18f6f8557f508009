import { encode32 } from '../../../src/lib/base58.ts';
import { decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeMetadata } from '../../../src/solana/accounts/metaplex.ts';
import { decodeMint } from '../../../src/solana/accounts/token.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { findAssetAccounts, groupOf } from '../read-assets.ts';
import type { AccountSource } from '../source.ts';
import type { AssetDb, FollowKind } from './tables.ts';

/** What is followed, by kind, in base58. */
export type FollowedSets = Readonly<Record<FollowKind, ReadonlySet<string>>> & {
  readonly version: number;
  readonly isEmpty: boolean;
  /** Everything that is followed is stored. */
  readonly isFilled: boolean;
};

export async function readFollowed(db: AssetDb, version: number): Promise<FollowedSets> {
  const rows = await db.selectFrom('das_followed').selectAll().execute();
  const of = (kind: FollowKind) => new Set(rows.filter((row) => row.kind === kind).map(({ key }) => encode32(key)));
  return {
    collection: of('collection'),
    creator: of('creator'),
    authority: of('authority'),
    owner: of('owner'),
    mint: of('mint'),
    program: of('program'),
    version,
    isEmpty: rows.length === 0,
    isFilled: rows.every(({ state }) => state === 'ready'),
  };
}

/** The asset that an account makes one of ours; null if it does not. */
export function followedAsset(address: string, account: RawAccount, followed: FollowedSets): string | null {
  const { collection, creator, authority, owner, mint, program } = followed;
  const isAll = program.has(account.owner);
  switch (account.owner) {
    case METADATA_PROGRAM: {
      const metadata = decodeMetadata(account).value;
      if (metadata === null) return null;
      const isOurs =
        isAll ||
        authority.has(metadata.updateAuthority) ||
        (metadata.collection !== null && collection.has(metadata.collection.key)) ||
        (metadata.creators ?? []).some((one) => creator.has(one.address));
      return isOurs ? metadata.mint : null;
    }
    case CORE_PROGRAM: {
      const asset = decodeCoreAsset(account).value;
      const group = asset === null ? decodeCoreCollection(account).value : null;
      if (asset === null && group === null) return null;
      const by = asset?.updateAuthority;
      const isOurs =
        isAll ||
        (asset !== null && owner.has(asset.owner)) ||
        (by?.kind === 'address' && authority.has(by.address)) ||
        (by?.kind === 'collection' && collection.has(by.address)) ||
        (group !== null && (collection.has(address) || authority.has(group.updateAuthority)));
      return isOurs ? address : null;
    }
    case TOKEN_PROGRAM:
    case TOKEN_2022_PROGRAM:
      return (isAll || mint.has(address)) && decodeMint(account).value !== null ? address : null;
    default:
      return null;
  }
}

/** Reads all accounts of assets; `ids` grows by the collections of Core assets. Returns which account is of which asset. */
export async function closeOver(ids: Set<string>, source: AccountSource): Promise<ReadonlyMap<string, string>> {
  const kept = new Map<string, string>();
  const found = [...(await findAssetAccounts([...ids], source))];
  const groups = new Set(found.flatMap((one) => groupOf(one) ?? []).filter((key) => !ids.has(key)));
  for (const key of groups) ids.add(key);
  if (groups.size > 0) found.push(...(await findAssetAccounts([...groups], source)));
  for (const id of ids) kept.set(id, id);
  for (const one of found) {
    if (one.kind !== 'mint') continue;
    const { id, holder } = one.accounts;
    const { metadata, edition } = source.places(id);
    kept.set(metadata, id).set(edition, id);
    if (holder !== null) kept.set(holder.address, id);
  }
  return kept;
}
