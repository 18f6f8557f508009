import { decode32 } from '../../src/lib/base58.ts';
import { CodedError } from '../../src/lib/coded-error.ts';
import { createLru } from '../../src/lib/lru.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { MintFacts, TokenFacts, TokenNames } from '../../src/ports/tokens.ts';
import { readAmountScale, readTransferFeeConfig } from '../../src/solana/accounts/amounts.ts';
import { isNft } from '../../src/solana/accounts/metaplex.ts';
import { TOKEN_METADATA_ERRORS, type TokenMetadataConfig } from './config.ts';
import type { Documents } from './documents.ts';
import { chainIsLate, type LoadRecords, type TokenRecord, textsOf } from './records.ts';
import type { MintStore } from './store.ts';
import type { TokenList } from './token-list.ts';
import type { ChangedSlots } from './watch.ts';

interface FactsParts {
  /** Null: no upstream is configured. */
  readonly load: { readonly load: LoadRecords } | null;
  readonly store: MintStore;
  readonly documents: Documents;
  readonly list: TokenList;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly config: Pick<TokenMetadataConfig, 'upstreamTimeoutMs'>;
  readonly maxMints: number;
  readonly changed: ChangedSlots;
  /** Whether blocks are watched for accounts that are known, and for those that were missing. */
  readonly isWatched: boolean;
}

export interface FactsService extends TokenFacts {
  /** Keeps facts that another request has read. */
  learn(records: Iterable<TokenRecord>): void;
  /** What is known of these mints is old from now on. */
  drop(mints: readonly string[]): void;
}

interface Remembered {
  readonly facts: MintFacts | null;
  readonly untilMs: number;
}

const REMEMBERED = 50_000;
/** How long "this is no mint" is cached, if no block reports a change. */
const NONE_MS = 60_000;

/** Facts of mints: from memory, else from the store, else from the chain. */
export function createFacts(parts: FactsParts): FactsService {
  const { clock, store, list } = parts;
  const memory = createLru<string, Remembered>({ max: REMEMBERED });
  let revision = 0;

  function remember(mint: string, one: Remembered): void {
    memory.set(mint, one);
    revision += 1;
  }

  function learn(records: Iterable<TokenRecord>): void {
    for (const record of records) {
      const { mint, keys, slot } = record;
      if (slot === null) {
        // What is no address never becomes one; what could not be read is asked again.
        if (record.kind === 'none' && record.error !== 'TIMEOUT')
          remember(mint, { facts: null, untilMs: clock.now() + parts.ttlMs });
        continue;
      }
      if (record.kind === 'mint' && record.metadata.kind === 'none' && record.metadata.error === 'TIMEOUT') continue;
      const facts = record.kind === 'mint' ? factsOf(record) : null;
      // Older than the last change that is known: good for a name, and nothing else.
      const isCurrent = parts.changed.isCurrent(mint, slot);
      if (facts === null && !isCurrent) continue;
      if (facts === null && !parts.isWatched) {
        remember(mint, { facts, untilMs: clock.now() + Math.min(parts.ttlMs, NONE_MS) });
        continue;
      }
      remember(mint, { facts, untilMs: isCurrent ? clock.now() + parts.ttlMs : 0 });
      // Its accounts are watched from now on, also those that do not exist.
      if (isCurrent) store.save({ mint, facts, keys, slot, readAtMs: clock.now() });
    }
  }

  async function find(mints: readonly string[], group: string): Promise<Map<string, MintFacts | null>> {
    const found = new Map<string, MintFacts | null>();
    const take = (): string[] =>
      mints.filter((mint) => {
        const known = memory.get(mint);
        if (known === undefined || known.untilMs <= clock.now()) return !found.has(mint);
        found.set(mint, known.facts);
        return false;
      });
    const unknown = take();
    if (unknown.length === 0) return found;
    for (const { mint, facts, readAtMs, slot } of await store.load(unknown.filter(isKey), clock.now() - parts.ttlMs)) {
      if (!parts.changed.isCurrent(mint, slot)) continue;
      remember(mint, { facts, untilMs: readAtMs + parts.ttlMs });
      found.set(mint, facts);
    }
    const unread = unknown.filter((mint) => !found.has(mint));
    if (unread.length === 0) return found;
    if (parts.load === null) throw new CodedError('CHAIN_UNREACHABLE', 'no upstream is configured');
    const { records, failed } = await parts.load.load(unread, group);
    for (const error of failed.values()) throw error;
    learn(records.values());
    for (const record of records.values()) {
      const isPartial =
        record.kind === 'mint' && record.metadata.kind === 'none' && record.metadata.error === 'TIMEOUT';
      if (isPartial) throw chainIsLate();
      found.set(record.mint, record.kind === 'mint' ? factsOf(record) : null);
    }
    return found;
  }

  /** Adds what the token list and documents that were read before know. */
  async function dress(found: Map<string, MintFacts | null>, wantLogos: boolean): Promise<void> {
    const entry = await list.entries();
    const uris = new Map<string, string>();
    for (const [mint, facts] of found) {
      if (facts === null) continue;
      const listed = entry(mint);
      const logoUri = listed?.logoURI || null;
      if (logoUri === null && facts.uri !== null) uris.set(mint, facts.uri);
      if (listed === null) continue;
      found.set(mint, {
        ...facts,
        name: facts.name ?? (listed.name || null),
        symbol: facts.symbol ?? (listed.symbol || null),
        logoUri,
      });
    }
    const known = await images([...uris.values()], wantLogos);
    for (const [mint, uri] of uris) {
      const facts = found.get(mint);
      const image = known.get(uri);
      if (facts && image !== undefined) found.set(mint, { ...facts, logoUri: image });
    }
  }

  async function images(uris: readonly string[], wantOthers: boolean): Promise<Map<string, string>> {
    if (uris.length === 0) return new Map();
    const documents = await parts.documents.known(uris);
    if (wantOthers)
      parts.documents.later(
        [...new Set(uris)].filter((uri) => !documents.has(uri)),
        // Nobody waits for it, and it serves all.
        OWN_WORK.id,
      );
    return new Map(
      [...documents].flatMap(([uri, { document }]) => (document?.image ? [[uri, document.image] as const] : [])),
    );
  }

  return {
    async lookUp(mints, { tenant, signal, timeoutMs = parts.config.upstreamTimeoutMs, wantLogos = false }) {
      if (mints.length > parts.maxMints)
        throw new CodedError('TOKEN_METADATA_TOO_MANY_MINTS', TOKEN_METADATA_ERRORS.TOKEN_METADATA_TOO_MANY_MINTS);
      const work = async () => {
        const found = await find([...new Set(mints)], tenant.id);
        await dress(found, wantLogos);
        return found;
      };
      return withDeadline(clock, timeoutMs, work, chainIsLate, signal);
    },
    images: (uris) => images(uris, true),
    peek(mint) {
      const known = memory.get(mint);
      return known?.facts === null && known.untilMs <= clock.now() ? undefined : known?.facts;
    },
    revision: () => revision + parts.documents.revision(),
    learn,
    drop(mints) {
      for (const mint of mints) {
        const known = memory.peek(mint);
        // Old facts are good enough for a name, old absence for nothing.
        if (known !== undefined && !known.facts?.name) memory.delete(mint);
        else if (known !== undefined) remember(mint, { ...known, untilMs: 0 });
      }
    },
  };
}

/** Nothing else is in the store, and some texts cannot even be asked for. */
const isKey = (text: string): boolean => decode32(text) !== null;

/** The facts of a mint from the chain alone. */
function factsOf(record: TokenRecord & { readonly kind: 'mint' }): MintFacts {
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

/** Waits for work that continues without the caller: rejects with `late()` after `ms`, or with the signal's reason. */
function withDeadline<T>(
  clock: Clock,
  ms: number,
  work: () => Promise<T>,
  late: () => Error,
  signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal?.reason as Error);
    const cancel = clock.timeout(ms, () => reject(late()));
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    work()
      .then(resolve, reject)
      .finally(() => {
        cancel();
        signal?.removeEventListener('abort', onAbort);
      });
  });
}

export interface NamesParts {
  readonly facts: TokenFacts;
  readonly clock: Clock;
}

export interface NamesService extends TokenNames {
  stop(): void;
}

const MAX_UNKNOWN = 500;
const PAUSE_MS = 500;

/** Names in memory. Unknown ones are looked up a little later, for the next request. */
export function createTokenNames({ facts, clock }: NamesParts): NamesService {
  const unknown = new Set<string>();
  let cancel: (() => void) | null = null;
  let stopped = false;

  function learnLater(mint: string): void {
    if (stopped || unknown.size >= MAX_UNKNOWN) return;
    unknown.add(mint);
    cancel ??= clock.timeout(PAUSE_MS, () => {
      cancel = null;
      const mints = [...unknown];
      unknown.clear();
      // No caller waits; the next request tries again.
      facts.lookUp(mints, { tenant: OWN_WORK }).catch(() => undefined);
    });
  }

  return {
    peek(mint) {
      const known = facts.peek(mint);
      if (known === undefined) learnLater(mint);
      if (!known) return null;
      const { name, symbol, decimals, tokenStandard, isNft } = known;
      return { name, symbol, decimals, tokenStandard: tokenStandard ?? (isNft ? 'NonFungible' : null) };
    },
    stop() {
      stopped = true;
      cancel?.();
    },
  };
}
