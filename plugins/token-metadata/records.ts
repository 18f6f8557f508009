import { decode32 } from '../../src/lib/base58.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { UndecodedReason } from '../../src/solana/accounts/decoded.ts';
import { decodeMetadata, decodeMetadataBytes, type Metadata } from '../../src/solana/accounts/metaplex.ts';
import {
  decodeMint,
  decodeTokenMetadata,
  findExtension,
  type Mint,
  readExtensions,
  readMetadataPointer,
  type TokenMetadata,
} from '../../src/solana/accounts/token.ts';
import { METADATA_PROGRAM, metadataAddress, TOKEN_2022_PROGRAM } from '../../src/solana/addresses.ts';
import type { AccountSource, ChainAccount, Loaded } from './accounts.ts';

interface LoadedRecords {
  /** An entry for each mint that was asked for. */
  readonly records: ReadonlyMap<string, TokenRecord>;
  /** Those whose own account could not be read, with the error. */
  readonly failed: ReadonlyMap<string, unknown>;
}

export type LoadRecords = (mints: readonly string[], fresh?: boolean) => Promise<LoadedRecords>;

interface RecordLoader {
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
        records.set(mint, none(mint, 'INVALID_PUBKEY', [], null));
      } else if (!own.ok) {
        failed.set(mint, own.error);
        records.set(mint, none(mint, 'TIMEOUT', [mint], null));
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

const none = (mint: string, error: SectionError, keys: readonly string[], slot: number | null): TokenRecord => ({
  kind: 'none',
  mint,
  error,
  keys,
  slot,
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
  if (account === null || isGone(account)) return none(mint, 'EMPTY_ACCOUNT', [mint, metaplex], own.slot);
  const decoded = decodeMint(account).value;
  if (decoded === null) return none(mint, 'INVALID_ACCOUNT', [mint, metaplex], own.slot);
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

const ERRORS: Readonly<Record<UndecodedReason, SectionError>> = {
  missing: 'EMPTY_ACCOUNT',
  foreign: 'INVALID_ACCOUNT',
  malformed: 'INVALID_ACCOUNT',
};

const noMetadata = (error: SectionError): TokenMetadataPart => ({ kind: 'none', error });

/** What the Metaplex account of a mint says. */
function metadataPart(mint: string, loaded: Loaded | undefined): TokenMetadataPart {
  if (loaded?.ok !== true) return noMetadata('TIMEOUT');
  if (loaded.account === null) return noMetadata('EMPTY_ACCOUNT');
  const { value, reason } = decodeMetadata(loaded.account);
  if (value === null) return noMetadata(ERRORS[reason]);
  return value.mint === mint ? { kind: 'metaplex', value } : noMetadata('INVALID_ACCOUNT');
}

/** What the account says that a Token-2022 mint points to, which may be the mint itself. Believed only when it speaks of this mint. */
function pointedPart(mint: string, decoded: Mint, address: string, loaded: Loaded | undefined): TokenMetadataPart {
  if (address === mint) return extensionPart(mint, findExtension(decoded.extensions, 'TokenMetadata'));
  if (loaded?.ok !== true) return noMetadata('TIMEOUT');
  const { account } = loaded;
  if (account === null || account.data.length === 0) return noMetadata('EMPTY_ACCOUNT');
  if (account.owner === METADATA_PROGRAM) return metadataPart(mint, loaded);
  const extension = findExtension(readExtensions(account.data), 'TokenMetadata');
  if (account.owner === TOKEN_2022_PROGRAM) return extensionPart(mint, extension);
  // Another program's account may have either layout.
  const metaplex = decodeMetadataBytes(account.data).value;
  if (metaplex?.mint === mint) return { kind: 'metaplex', value: metaplex };
  return extension === null ? noMetadata('INVALID_ACCOUNT') : extensionPart(mint, extension);
}

function extensionPart(mint: string, value: Uint8Array | null): TokenMetadataPart {
  if (value === null) return noMetadata('EMPTY_ACCOUNT');
  const decoded = decodeTokenMetadata(value);
  return decoded.value?.mint === mint ? { kind: 'extension', value: decoded.value } : noMetadata('INVALID_ACCOUNT');
}

/** What the chain says of a key that was asked for. */
export type TokenRecord =
  | {
      readonly kind: 'none';
      readonly mint: string;
      readonly error: SectionError;
      /** The accounts whose creation or change would make it a mint with metadata. */
      readonly keys: readonly string[];
      /** At which it was read; null where it was not. */
      readonly slot: number | null;
    }
  | {
      readonly kind: 'mint';
      readonly mint: string;
      readonly account: ChainAccount;
      readonly decoded: Mint;
      readonly metadata: TokenMetadataPart;
      /** The accounts that it was read from. */
      readonly keys: readonly string[];
      /** The oldest slot that one of them was read at. */
      readonly slot: number;
      /** The earliest time of the monotonic clock that one of them was asked for. */
      readonly readAtMs: number;
    };

type TokenMetadataPart =
  | { readonly kind: 'metaplex'; readonly value: Metadata }
  | { readonly kind: 'extension'; readonly value: TokenMetadata }
  | { readonly kind: 'none'; readonly error: SectionError };

/** The name, the symbol and the address that either kind of metadata gives. */
export function textsOf({ metadata }: TokenRecord & { readonly kind: 'mint' }): {
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
} {
  return metadata.kind === 'none' ? { name: '', symbol: '', uri: '' } : metadata.value;
}

/** Why a part of an answer is missing. */
type SectionError = 'UNKNOWN' | 'EMPTY_ACCOUNT' | 'TIMEOUT' | 'INVALID_ACCOUNT' | 'INVALID_PUBKEY';
