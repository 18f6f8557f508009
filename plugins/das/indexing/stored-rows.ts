import { decode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import type { Dialect } from '../../../src/ports/store.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { metadataBumps } from '../../../src/solana/addresses.ts';
import type { AssetPlaces } from '../source.ts';
import { type AccountRow, type AssetDb, type AssetRow, type AssetTables, programName, unpack } from './tables.ts';

export const bytesOf = (key: string): Uint8Array => decode32(key) as Uint8Array;

export const bumpsOf = (mint: string, { metadata, edition }: AssetPlaces): number =>
  metadataBumps(bytesOf(mint), { metadata: bytesOf(metadata), edition: bytesOf(edition) });

export async function readIndexState(db: AssetDb): Promise<AssetTables['das_state']> {
  return await db.selectFrom('das_state').selectAll().where('id', '=', 1).executeTakeFirstOrThrow();
}

export async function accountRows(db: AssetDb, dialect: Dialect, keys: readonly string[]): Promise<AccountRow[]> {
  if (keys.length === 0) return [];
  return await db
    .selectFrom('das_accounts')
    .selectAll()
    .where(inBytes(dialect, 'address', keys.map(bytesOf)))
    .execute();
}

export async function assetRows(db: AssetDb, dialect: Dialect, ids: readonly string[]): Promise<AssetRow[]> {
  if (ids.length === 0) return [];
  return await db
    .selectFrom('das_assets')
    .selectAll()
    .where(inBytes(dialect, 'id', ids.map(bytesOf)))
    .execute();
}

/** Null where there is none. */
export function accountOf({ program, data }: Pick<AccountRow, 'program' | 'data'>): RawAccount | null {
  const owner = programName(program);
  return owner === null ? null : { owner, lamports: 1n, data: unpack(data) };
}
