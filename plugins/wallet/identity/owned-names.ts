import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type ChainReader, type Clock, codeOf, type Log, type Metrics } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { TokenFacts } from '../../../src/ports/token-facts.ts';
import { TOKEN_PROGRAM } from '../../../src/solana/addresses.ts';
import {
  decodeFavourite,
  decodeReverse,
  domainKey,
  favouriteKey,
  NAME_PROGRAM,
  NAME_ROOT,
  type NameAccount,
  nameMint,
  parseName,
  reverseKey,
  sameBytes,
} from '../../../src/solana/names.ts';
import type { WalletConfig } from '../config.ts';
import { createChainCall } from '../wallet-route.ts';

interface OwnedNames {
  /** Names of an address (base58), the favourite first; null when they are not known in time. Never rejects. */
  find(address: string): Promise<readonly string[] | null>;
}

interface OwnedNamesParts {
  readonly reader: AccountReader;
  readonly sol: SolRegistry;
  readonly tokens: NameTokens;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly config: Pick<WalletConfig, 'identity' | 'sns'>;
}

const MAX_CACHED = 10_000;
/** Concurrent look-ups: scanning a program is expensive for the upstream. */
const MAX_IN_FLIGHT = 8;

/** Names that an address owns in the registry or holds as tokens. */
export function createOwnedNames(parts: OwnedNamesParts): OwnedNames {
  const { reader, clock, log, config } = parts;
  const perf = { now: () => clock.monotonic() };
  const known = createLru<string, { readonly names: readonly string[] | null }>({
    ...{ max: MAX_CACHED, perf, ttlResolution: 0 },
  });
  const failures = parts.metrics.counter('owned_names_failures_total', 'failed look-ups of the names of an address');
  const inFlight = new Map<string, Promise<readonly string[] | null>>();

  async function read(address: string): Promise<readonly string[] | null> {
    const wallet = decode32(address) as Uint8Array;
    const [direct, held, [favourite = null], isCutOff] = await Promise.all([
      ownedDomains(reader, address),
      parts.tokens.find(address),
      reader.accounts([favouriteKey(wallet)]),
      parts.sol.isCutOff(),
    ]);
    const domains = [...direct, ...held];
    if (domains.length > config.identity.maxDomains) return null;
    const texts = await reader.accounts(domains.map((domain) => reverseKey(domain)));
    return sortNames(domains, texts, { favourite, suffix: isCutOff ? 'sns' : 'sol' });
  }

  async function remembered(address: string): Promise<readonly string[] | null> {
    try {
      const names = await read(address);
      known.set(
        address,
        { names },
        { ttl: ttlMs(names === null ? config.sns.negativeCacheSeconds : config.sns.cacheSeconds) },
      );
      return names;
    } catch (error) {
      failures.add();
      log.debug(
        { code: codeOf(error) ?? (error instanceof RequestError ? error.details : 'unknown') },
        'names could not be read',
      );
      known.set(address, { names: null }, { ttl: ttlMs(config.sns.negativeCacheSeconds) });
      return null;
    } finally {
      inFlight.delete(address);
    }
  }

  function begin(address: string): Promise<readonly string[] | null> {
    if (inFlight.size >= MAX_IN_FLIGHT) return Promise.resolve(null);
    const names = remembered(address);
    inFlight.set(address, names);
    return names;
  }

  return {
    find(address) {
      const found = known.get(address);
      if (found !== undefined) return Promise.resolve(found.names);
      return within(clock, config.identity.domainsWaitMs, inFlight.get(address) ?? begin(address));
    },
  };
}

/** lru-cache reads 0 as "forever". */
const ttlMs = (seconds: number): number => Math.max(1, seconds * 1_000);

async function ownedDomains(reader: AccountReader, address: string): Promise<readonly Uint8Array[]> {
  const filters = [{ memcmp: { offset: 32, bytes: address } }, { memcmp: { offset: 0, bytes: NAME_ROOT } }];
  const options = { encoding: 'base64', commitment: 'confirmed', dataSlice: { offset: 0, length: 0 }, filters };
  const found = await reader.call<readonly { readonly pubkey: string }[]>('getProgramAccounts', [
    NAME_PROGRAM,
    options,
  ]);
  return found.flatMap(({ pubkey }) => decode32(pubkey) ?? []);
}

interface SortHow {
  readonly favourite: NameAccount | null;
  readonly suffix: string;
}

function sortNames(
  domains: readonly Uint8Array[],
  texts: readonly (NameAccount | null)[],
  { favourite, suffix }: SortHow,
): readonly string[] {
  const liked = decodeFavourite(favourite);
  let first: string | null = null;
  const names = new Set<string>();
  for (const [at, domain] of domains.entries()) {
    const text = decodeReverse(texts[at] ?? null);
    if (text === null) continue;
    const name = `${text}.${suffix}`;
    names.add(name);
    // A favourite that was transferred away is not among the names and is ignored.
    if (liked !== null && sameBytes(liked, domain)) first = name;
  }
  const rest = [...names].filter((name) => name !== first).sort();
  return first === null ? rest : [first, ...rest];
}

function within<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | null> {
  return new Promise((resolve) => {
    const cancel = clock.timeout(ms, () => resolve(null));
    void work.then((value) => {
      cancel();
      resolve(value);
    });
  });
}

/** Names that an address holds as tokens. */
interface NameTokens {
  /** Accounts of these names in the registry. */
  find(address: string): Promise<readonly Uint8Array[]>;
}

interface TokenAccount {
  readonly account: { readonly data: readonly [base64: string, encoding: string] };
}

const HEAD_BYTES = 72;
const AMOUNT_AT = 64;
/** Tokens with a balance of one that are checked for names. */
const MOST_TOKENS = 1_000;

/**
 * The symbol of a name token proves nothing, as any token can have it. Its mint being the one derived from the name does.
 * Without facts of tokens none are found.
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

/** The mint of an account with exactly one unit. */
function singleMint(head: Buffer): string | null {
  return head.length >= HEAD_BYTES && head.readBigUInt64LE(AMOUNT_AT) === 1n ? encode32(head) : null;
}

function domainOf(mint: string, name: string | null): Uint8Array | null {
  const parsed = name === null ? null : parseName(name);
  if (parsed === null || parsed.labels.length !== 1) return null;
  const domain = domainKey(parsed.labels);
  return Buffer.compare(nameMint(domain), decode32(mint) as Uint8Array) === 0 ? domain : null;
}

/** Chain reads for names. A refusal of the node becomes a 503: nothing is known then. */
export interface AccountReader {
  /** Accounts of 32-byte keys, in their order; each group of at most 100 is read at one slot. */
  accounts(keys: readonly Uint8Array[]): Promise<readonly (NameAccount | null)[]>;
  /** The newest final slot. */
  finalizedSlot(): Promise<number>;
  genesisHash(): Promise<string>;
  call<T>(method: string, params: readonly unknown[]): Promise<T>;
}

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

const MOST_KEYS = 100;

export function createAccountReader(chain: ChainReader): AccountReader {
  const { call } = createChainCall(chain);

  async function group(keys: readonly Uint8Array[]): Promise<readonly (NameAccount | null)[]> {
    const texts = keys.map((key) => encode32(key));
    const options = { encoding: 'base64', commitment: 'confirmed' };
    const { value } = await call<{ value: readonly (RpcAccount | null)[] }>('getMultipleAccounts', [texts, options]);
    return keys.map((_, at) => {
      const account = value[at] ?? null;
      return account === null ? null : { owner: account.owner, data: Buffer.from(account.data[0], 'base64') };
    });
  }

  return {
    async accounts(keys) {
      const groups: (readonly Uint8Array[])[] = [];
      for (let at = 0; at < keys.length; at += MOST_KEYS) groups.push(keys.slice(at, at + MOST_KEYS));
      return (await Promise.all(groups.map(group))).flat();
    },
    finalizedSlot: () => call<number>('getSlot', [{ commitment: 'finalized' }]),
    genesisHash: () => call<string>('getGenesisHash', []),
    call,
  };
}

export interface SolRegistry {
  /** Whether .sol names have left the old registry. Rejects when the chain does not answer. */
  isCutOff(): Promise<boolean>;
}

const REMEMBERED_MS = 5_000;

/** `.sol` names moved to another program at a final slot: from there on an old owner must not be taken for the current one. */
export function createSolRegistry(reader: AccountReader, clock: Clock, cutOffSlot: number | null): SolRegistry {
  let isPast = false;
  let asked: { readonly answer: Promise<boolean>; readonly untilMs: number } | null = null;

  async function ask(slot: number): Promise<boolean> {
    // Final slots do not decrease, so a positive result is permanent.
    isPast ||= (await reader.finalizedSlot()) >= slot;
    return isPast;
  }

  return {
    async isCutOff() {
      if (cutOffSlot === null || isPast) return isPast;
      const now = clock.monotonic();
      if (asked !== null && now < asked.untilMs) return asked.answer;
      const answer = ask(cutOffSlot);
      const mine = { answer, untilMs: now + REMEMBERED_MS };
      asked = mine;
      answer.catch(() => {
        if (asked === mine) asked = null;
      });
      return answer;
    },
  };
}
