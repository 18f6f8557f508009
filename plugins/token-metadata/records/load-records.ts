import { decode32 } from '../../../src/lib/base58.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { readMetadataPointer } from '../../../src/solana/accounts/token/metadata-pointer.ts';
import { decodeMint, type Mint } from '../../../src/solana/accounts/token/mint.ts';
import { metadataAddress } from '../../../src/solana/address/metadata-address.ts';
import type { ChainAccount } from '../accounts/chain-account.ts';
import type { AccountSource, Loaded } from '../accounts/source.ts';
import { metadataPart, pointedPart } from './metadata-part.ts';
import type { SectionError } from './section-error.ts';
import type { TokenRecord } from './token-record.ts';

export interface LoadedRecords {
  /** An entry for each mint that was asked for. */
  readonly records: ReadonlyMap<string, TokenRecord>;
  /** Those whose own account could not be read, with the error. */
  readonly failed: ReadonlyMap<string, unknown>;
}

export type LoadRecords = (mints: readonly string[], fresh?: boolean) => Promise<LoadedRecords>;

export interface RecordLoader {
  readonly load: LoadRecords;
  /** The accounts that a mint was last read from; undefined when that is long ago. */
  keysOf(mint: string): readonly string[] | undefined;
}

/** Deriving an address takes about as long as the rest of a cached answer. */
const KEPT_ADDRESSES = 20_000;

/**
 * Reads what the chain knows of mints: their accounts and those of their Metaplex metadata in one round, and in a second one those that
 * Token-2022 mints point to. Never rejects.
 */
export function createRecordLoader(source: AccountSource): RecordLoader {
  const keys = createLru<string, readonly string[]>({ max: KEPT_ADDRESSES });
  const addresses = createLru<string, string>({ max: KEPT_ADDRESSES });
  const metadataOf = (mint: string): string => {
    const known = addresses.get(mint);
    if (known !== undefined) return known;
    const address = metadataAddress(mint);
    addresses.set(mint, address);
    return address;
  };

  const load: LoadRecords = async (mints, fresh = false) => {
    const valid = [...new Set(mints)].filter((mint) => decode32(mint) !== null);
    const first = await source.load(
      valid.flatMap((mint) => [mint, metadataOf(mint)]),
      { fresh },
    );
    const elsewhere = valid.flatMap((mint) => foreignPointer(mint, metadataOf(mint), first.get(mint)) ?? []);
    const second: ReadonlyMap<string, Loaded> =
      elsewhere.length === 0 ? new Map() : await source.load(elsewhere, { fresh });

    const records = new Map<string, TokenRecord>();
    const failed = new Map<string, unknown>();
    for (const mint of mints) {
      if (records.has(mint)) continue;
      const own = first.get(mint);
      if (own === undefined) {
        records.set(mint, none(mint, 'INVALID_PUBKEY', []));
      } else if (!own.ok) {
        failed.set(mint, own.error);
        records.set(mint, none(mint, 'TIMEOUT', [mint]));
      } else {
        records.set(
          mint,
          recordOf(mint, own, metadataOf(mint), (key) => first.get(key) ?? second.get(key)),
        );
      }
    }
    for (const record of records.values()) keys.set(record.mint, record.keys);
    return { records, failed };
  };
  return { load, keysOf: (mint) => keys.get(mint) };
}

const none = (mint: string, error: SectionError, keys: readonly string[]): TokenRecord => ({
  kind: 'none',
  mint,
  error,
  keys,
});

/** The account that a mint names for its metadata, where it is not one of the first round. */
function foreignPointer(mint: string, metaplex: string, own: Loaded | undefined): string | null {
  const decoded = own?.ok === true && own.account !== null ? decodeMint(own.account).value : null;
  const address = decoded === null ? null : pointerOf(decoded);
  return address === null || address === mint || address === metaplex ? null : address;
}

const pointerOf = (mint: Mint): string | null => readMetadataPointer(mint.extensions)?.metadataAddress ?? null;

function recordOf(
  mint: string,
  own: Loaded & { readonly ok: true },
  metaplex: string,
  find: (key: string) => Loaded | undefined,
): TokenRecord {
  const { account } = own;
  if (account === null || isGone(account)) return none(mint, 'EMPTY_ACCOUNT', [mint]);
  const decoded = decodeMint(account).value;
  if (decoded === null) return none(mint, 'INVALID_ACCOUNT', [mint]);
  const pointer = pointerOf(decoded);
  const keys = [...new Set([mint, metaplex, ...(pointer === null ? [] : [pointer])])];
  const found = keys.map((key) => find(key)).filter((loaded) => loaded?.ok === true);
  const slot = Math.min(...found.map((loaded) => loaded.slot));
  const readAtMs = Math.min(...found.map((loaded) => loaded.readAtMs));
  const plain = metadataPart(mint, find(metaplex));
  // The mint's own word goes first; the account that every mint may have says something too where that leads nowhere.
  const pointed = pointer === null ? null : pointedPart(mint, decoded, pointer, find(pointer));
  const metadata = pointed === null || (pointed.kind === 'none' && plain.kind !== 'none') ? plain : pointed;
  return { kind: 'mint', mint, account, decoded, metadata, keys, slot, readAtMs };
}

const isGone = (account: ChainAccount): boolean => account.lamports === 0n && account.data.length === 0;
