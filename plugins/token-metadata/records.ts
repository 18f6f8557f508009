import { LRUCache } from 'lru-cache';
import { decode32 } from '../../src/lib/base58.ts';
import { CodedError, messageOf } from '../../src/lib/coded-error.ts';
import { admits } from '../../src/lib/fair-share.ts';
import { createLru } from '../../src/lib/lru.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { RawAccount, UndecodedReason } from '../../src/solana/accounts/decoded.ts';
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
import { metadataAddress } from '../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_2022_PROGRAM } from '../../src/solana/programs.ts';
import type { TokenMetadataConfig } from './config.ts';

interface LoadedRecords {
  /** An entry for each mint that was asked for. */
  readonly records: ReadonlyMap<string, TokenRecord>;
  /** Mints whose account could not be read, with the error. */
  readonly failed: ReadonlyMap<string, unknown>;
}

/** `group`: for whom, the id of a tenant. */
export type LoadRecords = (mints: readonly string[], group: string, fresh?: boolean) => Promise<LoadedRecords>;

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
export function createRecordLoader(source: AccountLoader): RecordLoader {
  const keys = createLru<string, readonly string[]>({ max: KEPT_ADDRESSES });
  const addresses = createLru<string, string>({ max: KEPT_ADDRESSES });
  const metadataOf = (mint: string): string => {
    const known = addresses.get(mint);
    if (known !== undefined) return known;
    const address = metadataAddress(mint);
    addresses.set(mint, address);
    return address;
  };

  const load: LoadRecords = async (mints, group, fresh = false) => {
    const valid = [...new Set(mints)].filter((mint) => decode32(mint) !== null);
    const first = await source.load(
      valid.flatMap((mint) => [mint, metadataOf(mint)]),
      { group, fresh },
    );
    const elsewhere = valid.flatMap((mint) => foreignPointer(mint, metadataOf(mint), first.get(mint)) ?? []);
    const second: ReadonlyMap<string, LoadedAccount> =
      elsewhere.length === 0 ? new Map() : await source.load(elsewhere, { group, fresh });

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
function foreignPointer(mint: string, metaplex: string, own: LoadedAccount | undefined): string | null {
  const decoded = own?.ok === true && own.account !== null ? decodeMint(own.account).value : null;
  const address = decoded === null ? null : pointerOf(decoded);
  return address === null || address === mint || address === metaplex ? null : address;
}

const pointerOf = (mint: Mint): string | null => readMetadataPointer(mint.extensions)?.metadataAddress ?? null;

function recordOf(
  mint: string,
  own: LoadedAccount & { readonly ok: true },
  metaplex: string,
  find: (key: string) => LoadedAccount | undefined,
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
function metadataPart(mint: string, loaded: LoadedAccount | undefined): TokenMetadataPart {
  if (loaded?.ok !== true) return noMetadata('TIMEOUT');
  if (loaded.account === null) return noMetadata('EMPTY_ACCOUNT');
  const { value, reason } = decodeMetadata(loaded.account);
  if (value === null) return noMetadata(ERRORS[reason]);
  return value.mint === mint ? { kind: 'metaplex', value } : noMetadata('INVALID_ACCOUNT');
}

/** What the account says that a Token-2022 mint points to, which may be the mint itself. Believed only when it speaks of this mint. */
function pointedPart(
  mint: string,
  decoded: Mint,
  address: string,
  loaded: LoadedAccount | undefined,
): TokenMetadataPart {
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

/** An account as of a slot and of a time of the monotonic clock, null when missing, or the reason why it is unknown. */
export type LoadedAccount =
  | { readonly ok: true; readonly account: ChainAccount | null; readonly slot: number; readonly readAtMs: number }
  | { readonly ok: false; readonly error: unknown };

export interface AccountLoader {
  /**
   * An entry for each key. `group`: for whom, the id of a tenant; groups are served in rotation. `fresh`: ignores the cache and calls in
   * flight. Never rejects: what failed, or was late, says so itself.
   */
  load(
    keys: readonly string[],
    options: { readonly group: string; readonly fresh?: boolean },
  ): Promise<ReadonlyMap<string, LoadedAccount>>;
  /** Forgets accounts that were written to at a slot. What a node answers that is not yet so far is not kept. */
  drop(keys: readonly string[], slot: number): void;
}

interface SourceParts {
  readonly read: (keys: readonly string[], timeoutMs: number) => Promise<ReadAccounts>;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly config: Pick<TokenMetadataConfig, 'upstreamTimeoutMs'>;
  readonly concurrency: number;
  readonly maxWaiting: number;
  readonly cacheBytes: number;
  /** Called for each call, with the number of its keys. */
  readonly onCall?: (keys: number) => void;
}

interface Waiting {
  readonly promise: Promise<LoadedAccount>;
  resolve(loaded: LoadedAccount): void;
}

type FoundAccount = LoadedAccount & { readonly ok: true };

const ENTRY_BYTES = 200;
const REMEMBERED_CHANGES = 50_000;

/** Reads accounts, many per call: concurrent requests for a key share one call, and waiting keys are batched. */
export function createAccountSource(parts: SourceParts): AccountLoader {
  const { clock } = parts;
  const cache = new LRUCache<string, FoundAccount>({
    maxSize: parts.cacheBytes,
    sizeCalculation: ({ account }) => ENTRY_BYTES + (account?.data.length ?? 0),
    ttl: parts.ttlMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  const changed = createLru<string, number>({ max: REMEMBERED_CHANGES });
  /** Keys that wait for a call, by group, in the order in which groups are served. */
  const queues = new Map<string, Map<string, Waiting>>();
  let queuedCount = 0;
  const running = new Map<string, Waiting>();
  let calls = 0;
  let scheduled = false;

  function ask(key: string, group: string, fresh: boolean): Promise<LoadedAccount> {
    const own = queues.get(group);
    // What another group waits for is no nearer: its queue may be long.
    const shared = own?.get(key) ?? (fresh ? undefined : running.get(key));
    if (shared !== undefined) return shared.promise;
    const room = { room: parts.maxWaiting, used: queuedCount, holders: queues.size };
    if (!admits(room, own?.size ?? 0, 1)) return Promise.resolve({ ok: false, error: tooMany() });
    const waiting = createWaiting();
    if (own === undefined) queues.set(group, new Map([[key, waiting]]));
    else own.set(key, waiting);
    queuedCount += 1;
    if (!scheduled) {
      scheduled = true;
      // Keys requested in one turn of the event loop are batched.
      queueMicrotask(() => {
        scheduled = false;
        send();
      });
    }
    return waiting.promise;
  }

  function send(): void {
    while (queuedCount > 0 && calls < parts.concurrency) {
      const batch = nextBatch();
      calls += 1;
      void run(batch).finally(() => {
        calls -= 1;
        send();
      });
    }
  }

  /** Keys for one call, a key of each group in turn. */
  function nextBatch(): ReadonlyMap<string, readonly Waiting[]> {
    const batch = new Map<string, Waiting[]>();
    // A group that is set again comes last, so this goes around.
    for (const [group, own] of queues) {
      if (batch.size >= ACCOUNTS_PER_CALL) break;
      queues.delete(group);
      for (const [key, waiting] of own) {
        own.delete(key);
        queuedCount -= 1;
        batch.set(key, [...(batch.get(key) ?? []), waiting]);
        running.set(key, waiting);
        break;
      }
      if (own.size > 0) queues.set(group, own);
    }
    return batch;
  }

  async function run(batch: ReadonlyMap<string, readonly Waiting[]>): Promise<void> {
    parts.onCall?.(batch.size);
    const keys = [...batch.keys()];
    const readAtMs = clock.monotonic();
    const read = await parts.read(keys, parts.config.upstreamTimeoutMs).catch((error: unknown) => ({ error }));
    [...batch].forEach(([key, waiting], index) => {
      const loaded: LoadedAccount =
        'error' in read
          ? { ok: false, error: read.error }
          : { ok: true, account: read.accounts[index] ?? null, slot: read.slot, readAtMs };
      if (loaded.ok && loaded.slot >= (changed.get(key) ?? 0)) cache.set(key, loaded);
      if (running.get(key) === waiting.at(-1)) running.delete(key);
      for (const one of waiting) one.resolve(loaded);
    });
  }

  return {
    async load(keys, { group, fresh = false }) {
      const found = new Map<string, LoadedAccount | Promise<LoadedAccount>>();
      for (const key of keys)
        if (!found.has(key)) found.set(key, (fresh ? undefined : cache.get(key)) ?? ask(key, group, fresh));
      const late: LoadedAccount = { ok: false, error: chainIsLate() };
      const entries = [...found];
      const loaded = await within(
        clock,
        parts.config.upstreamTimeoutMs,
        late,
        entries.map(([, value]) => value),
      );
      return new Map(entries.map(([key], index) => [key, loaded[index] ?? late]));
    },
    drop(keys, slot) {
      for (const key of keys) {
        changed.set(key, Math.max(slot, changed.get(key) ?? 0));
        cache.delete(key);
      }
    },
  };
}

/** Waits for all, but only so long: those that are not there then are `late`. */
function within<T>(clock: Clock, ms: number, late: T, values: readonly (T | Promise<T>)[]): Promise<T[]> | T[] {
  if (!values.some((value) => value instanceof Promise)) return values as T[];
  return new Promise((resolve) => {
    const done: T[] = values.map(() => late);
    const cancel = clock.timeout(ms, () => resolve(done));
    const settled = values.map(async (value, index) => {
      done[index] = await value;
    });
    void Promise.all(settled).then(() => {
      cancel();
      resolve(done);
    });
  });
}

function createWaiting(): Waiting {
  let resolve: (loaded: LoadedAccount) => void = () => {};
  const promise = new Promise<LoadedAccount>((give) => {
    resolve = give;
  });
  return { promise, resolve };
}

const tooMany = () =>
  new CodedError('CHAIN_UNREACHABLE', 'too many accounts wait to be read already', { retryable: true });

/** The most that nodes answer in one call. */
const ACCOUNTS_PER_CALL = 100;

/** Both are commonly above 2^53. In an answer of encoded accounts no text can hold these members, so the digits may be quoted. */
const LARGE_NUMBERS = /"(rentEpoch|lamports)"\s*:\s*(\d+)/g;

interface AnsweredAccount {
  readonly owner: string;
  readonly lamports: string;
  readonly rentEpoch: string;
  readonly executable: boolean;
  readonly data: readonly [string, string];
}

/** Reads up to 100 accounts in one call. Errors: those of `ChainReader.callText`. */
export async function readAccountBatch(
  chain: ChainReader,
  keys: readonly string[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<ReadAccounts> {
  // One call reads accounts for several tenants: they share it as the daemon's own, and the queue before it is theirs.
  const options = { tenant: OWN_WORK, timeoutMs, ...(signal === undefined ? {} : { signal }) };
  const params = [keys, { encoding: 'base64', commitment: 'confirmed' }];
  const text = await chain.callText('getMultipleAccounts', params, options);
  try {
    return parse(text, keys.length);
  } catch (cause) {
    throw new CodedError('CHAIN_BAD_RESPONSE', `the answer is no list of accounts: ${messageOf(cause)}`, {
      cause,
      retryable: true,
    });
  }
}

function parse(text: string, count: number): ReadAccounts {
  const answer = JSON.parse(text.replace(LARGE_NUMBERS, '"$1":"$2"')) as {
    readonly context: { readonly slot: number };
    readonly value: readonly (AnsweredAccount | null)[];
  };
  if (!Number.isSafeInteger(answer.context.slot)) throw new TypeError('it names no slot');
  if (answer.value.length !== count) throw new TypeError(`${answer.value.length} accounts for ${count} keys`);
  return { slot: answer.context.slot, accounts: answer.value.map((account) => account && accountOf(account)) };
}

function accountOf({ owner, lamports, rentEpoch, executable, data }: AnsweredAccount): ChainAccount {
  if (typeof owner !== 'string' || data[1] !== 'base64') throw new TypeError('an account is not as it was asked for');
  return {
    owner,
    lamports: BigInt(lamports),
    data: Buffer.from(data[0], 'base64'),
    executable: executable === true,
    // Some nodes leave it out.
    rentEpoch: BigInt(rentEpoch ?? 0),
  };
}

/** An account with everything that a response contains. */
export interface ChainAccount extends RawAccount {
  readonly executable: boolean;
  readonly rentEpoch: bigint;
}

/** What one call found: the slot that it was answered at, and an entry for each key, null where there is no account. */
export interface ReadAccounts {
  readonly slot: number;
  readonly accounts: readonly (ChainAccount | null)[];
}

/** The upstreams took longer than the caller could wait. */
export const chainIsLate = (): CodedError =>
  new CodedError('CHAIN_TIMEOUT', 'the accounts were not read in time', { retryable: true });
