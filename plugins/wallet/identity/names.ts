import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { createLru } from '../../../src/lib/lru.ts';
import {
  type ChainReader,
  type Clock,
  codeOf,
  type Log,
  type Metrics,
  type PluginContext,
} from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import { OWN_WORK, type Tenant } from '../../../src/ports/access.ts';
import { type TokenFacts, tokenFacts } from '../../../src/ports/tokens.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { createSingleFlight } from '../../../src/runtime/single-flight.ts';
import {
  askName,
  decodeFavourite,
  decodeReverse,
  domainKey,
  favouriteKey,
  type NameAccount,
  type NameAnswer,
  type NameQuestion,
  type NameText,
  nameMint,
  parseName,
  resolveName,
  resolveSrs,
  reverseKey,
  sameBytes,
  srsRecordKey,
} from '../../../src/solana/names.ts';
import {
  DEVNET_GENESIS,
  NAME_PROGRAM,
  NAME_ROOT,
  TESTNET_GENESIS,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import type { WalletConfig } from '../config.ts';
import { createChainCall, notAnAddress } from '../wallet-route.ts';
import type { AddressLabel } from './labels.ts';

/** Names of addresses, both ways. */
export interface DomainNames {
  /** Addresses of names; null for a name that does not resolve. Throws RequestErrors for the caller. */
  resolve(names: readonly NameText[], tenant: Tenant): Promise<readonly (string | null)[]>;
  /** Names of an address; null when look-ups are disabled. Never rejects. */
  owned(address: string, tenant: Tenant): Promise<readonly string[] | null>;
}

export function createDomainNames(ctx: PluginContext<WalletConfig>): DomainNames {
  const { clock, log, metrics } = ctx;
  const { identity, sns } = ctx.config;
  const chain = ctx.chain('main');
  if (chain === null) return NO_NAMES;
  const readerFor = (tenant: Tenant) => createAccountReader(chain, tenant);
  // What it says is the same for all, and kept.
  const shared = readerFor(OWN_WORK);
  const sol = createSolRegistry(shared, clock, sns.solCutOffSlot);
  const resolver = createNameResolver({ sol, clock, config: sns });
  const tokens = createNameTokens(ctx.use(tokenFacts) ?? null);
  const owned = createOwnedNames({ sol, tokens, clock, log, metrics, config: ctx.config });
  return {
    async resolve(names, tenant) {
      if (names.length === 0) return [];
      if (!(await hasNames(chain, shared))) throw onlyOnMainnet();
      return resolver.resolve(names, readerFor(tenant));
    },
    async owned(address, tenant) {
      if (!identity.domains || !(await hasNames(chain, shared).catch(() => false))) return null;
      return owned.find(address, readerFor(tenant));
    },
  };
}

const NO_NAMES: DomainNames = {
  resolve: (names) =>
    names.length === 0
      ? Promise.resolve([])
      : Promise.reject(new RequestError(503, 'Service unavailable', { details: 'No Solana upstream is configured' })),
  owned: () => Promise.resolve(null),
};

/** Subject of a request: an address, or a name to resolve. */
export type Subject =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'name'; readonly name: NameText; readonly given: string };

const ADDRESS_LENGTHS = { min: 32, max: 44 } as const;

/** Parses an address or a name. Throws a 400 for anything else; `where` names the item of a list. */
export function readSubject(given: unknown, where?: string): Subject {
  if (typeof given !== 'string') throw notAnAddress(JSON.stringify(given) ?? 'undefined', where);
  const name = parseName(given);
  if (name !== null) return { kind: 'name', name, given };
  const fits = given.length >= ADDRESS_LENGTHS.min && given.length <= ADDRESS_LENGTHS.max;
  if (!fits || decode32(given) === null) throw notAnAddress(given, where);
  return { kind: 'address', address: given };
}

/** Names are resolved only on mainnet. */
function onlyOnMainnet(): RequestError {
  return new RequestError(400, 'Domain lookup is only available on mainnet');
}

/** A label as returned. */
export function identityOf({ address, type, name, category, tags, website }: AddressLabel) {
  return { address, type, name, category, tags, ...(website === undefined ? {} : { website }) };
}

interface NameResolver {
  /**
   * The address (base58) of each name; null for names that do not resolve. Rejects when the chain does not answer: an unknown
   * result is never reported as "not resolved".
   */
  resolve(names: readonly NameText[], reader: AccountReader): Promise<readonly (string | null)[]>;
}

interface ResolverParts {
  readonly sol: SolRegistry;
  readonly clock: Clock;
  readonly config: WalletConfig['sns'];
}

/** The program that holds a name. */
type Registry = 'names' | 'srs';
interface NameLookup {
  readonly name: NameText;
  readonly registry: Registry;
}

const MAX_CACHED = 20_000;
const MAX_LABELS = 2;
/** Names per call of at most 100 accounts: four for each name. */
const NAMES_PER_CALL = 25;
const ACCOUNTS_PER_NAME = 4;

/** Resolves and caches names; concurrent look-ups of one name share a call. */
function createNameResolver(parts: ResolverParts): NameResolver {
  const { clock } = parts;
  const perf = { now: () => clock.monotonic() };
  const known = createLru<string, { readonly address: string | null }>({ max: MAX_CACHED, perf, ttlResolution: 0 });
  const inFlight = createSingleFlight<string, string | null>();

  async function registryOf({ labels, suffix }: NameText): Promise<Registry | null> {
    if (!parts.config.suffixes.includes(suffix) || labels.length > MAX_LABELS) return null;
    if (suffix !== 'sol' || !(await parts.sol.isCutOff())) return 'names';
    return parts.config.srs && labels.length === 1 ? 'srs' : null;
  }

  /** The key contains the registry: results of the old registry must not outlive the cut-off. */
  const lookupKey = ({ name, registry }: NameLookup): string => `${registry}:${name.labels.join('.')}`;

  function remember(asked: NameLookup, address: string | null): string | null {
    const ttl = (address === null ? parts.config.negativeCacheSeconds : parts.config.cacheSeconds) * 1_000;
    if (ttl > 0) known.set(lookupKey(asked), { address }, { ttl });
    return address;
  }

  async function addressOf(answer: NameAnswer, reader: AccountReader): Promise<string | null> {
    if (answer.kind === 'address') return encode32(answer.address);
    const holder = answer.kind === 'holder' ? await findHolder(reader, answer.mint) : null;
    return holder === null ? null : encode32(holder);
  }

  async function readNames(asked: readonly NameLookup[], reader: AccountReader): Promise<readonly (string | null)[]> {
    const questions: NameQuestion[] = asked.map(({ name }) => askName(name.labels));
    const accounts = await reader.accounts(questions.flatMap(({ keys }) => keys));
    const answers = questions.map((question, at) =>
      resolveName(question, accounts.slice(at * ACCOUNTS_PER_NAME, (at + 1) * ACCOUNTS_PER_NAME), parts.config),
    );
    return Promise.all(answers.map((answer) => addressOf(answer, reader)));
  }

  async function readSrs(asked: readonly NameLookup[], reader: AccountReader): Promise<readonly (string | null)[]> {
    const keys = asked.map(({ name }) => srsRecordKey(name.labels[0] as string));
    const accounts = await reader.accounts(keys);
    const answers = keys.map((key, at) => resolveSrs(key, accounts[at] ?? null, clock.now() / 1_000));
    return Promise.all(answers.map((answer) => addressOf(answer, reader)));
  }

  /** Starts the look-ups that are not in flight yet, several names per call. */
  function begin(
    asked: readonly NameLookup[],
    read: (asked: readonly NameLookup[], reader: AccountReader) => Promise<readonly (string | null)[]>,
    reader: AccountReader,
  ): void {
    for (let from = 0; from < asked.length; from += NAMES_PER_CALL) {
      const group = asked.slice(from, from + NAMES_PER_CALL);
      const answers = read(group, reader);
      for (const [at, one] of group.entries()) {
        void inFlight.run(lookupKey(one), () => answers.then((addresses) => remember(one, addresses[at] ?? null)));
      }
    }
  }

  return {
    async resolve(names, reader) {
      const asked = await Promise.all(
        names.map(async (name) => {
          const registry = await registryOf(name);
          return registry === null ? null : { name, registry };
        }),
      );
      const answers = new Map<string, string | null>();
      const missing = new Map<string, NameLookup>();
      for (const one of asked) {
        const key = one === null ? '' : lookupKey(one);
        // Read now: the entry may expire while other names are looked up.
        const remembered = known.get(key);
        if (remembered !== undefined) answers.set(key, remembered.address);
        else if (one !== null && inFlight.get(key) === undefined) missing.set(key, one);
      }
      const ofRegistry = (registry: Registry) => [...missing.values()].filter((one) => one.registry === registry);
      begin(ofRegistry('names'), readNames, reader);
      begin(ofRegistry('srs'), readSrs, reader);
      return Promise.all(
        asked.map((one) =>
          one === null ? null : (answers.get(lookupKey(one)) ?? inFlight.get(lookupKey(one)) ?? null),
        ),
      );
    },
  };
}

interface Largest {
  readonly value: readonly { readonly address: string; readonly amount: string }[];
}

const TOKEN_ACCOUNT_BYTES = 165;

/** Holder of the only token of a mint, 32 bytes; null without a holder or when more than one token exists. */
async function findHolder(reader: AccountReader, mint: Uint8Array): Promise<Uint8Array | null> {
  // Nodes return an error for a mint that does not exist.
  const [account] = await reader.accounts([mint]);
  if (account === undefined || account === null || !isTokenProgram(account.owner)) return null;
  const options = { commitment: 'confirmed' };
  const { value } = await reader.call<Largest>('getTokenLargestAccounts', [encode32(mint), options]);
  const holders = value.filter(({ amount }) => amount !== '0');
  const only = holders.length === 1 && holders[0]?.amount === '1' ? decode32(holders[0].address) : null;
  if (only === null) return null;
  const [holder] = await reader.accounts([only]);
  if (holder === undefined || holder === null || !isTokenProgram(holder.owner)) return null;
  const { data } = holder;
  // The token may have been sold between the calls.
  const holds = data.length >= TOKEN_ACCOUNT_BYTES && amountOf(data) === 1n;
  return holds && Buffer.compare(data.subarray(0, 32), mint) === 0 ? data.subarray(32, 64) : null;
}

function amountOf(data: Uint8Array): bigint {
  return new DataView(data.buffer, data.byteOffset).getBigUint64(64, true);
}

function isTokenProgram(owner: string): boolean {
  return owner === TOKEN_PROGRAM || owner === TOKEN_2022_PROGRAM;
}

/** Names live on mainnet; the programs of the test clusters hold meaningless copies. */
const TEST_CLUSTERS: ReadonlySet<string> = new Set([DEVNET_GENESIS, TESTNET_GENESIS]);

/** Whether the name programs are real on this chain. Rejects when the chain cannot be identified. */
async function hasNames(chain: ChainReader, reader: AccountReader): Promise<boolean> {
  const { genesisHash } = chain.status();
  return !TEST_CLUSTERS.has(genesisHash ?? (await reader.genesisHash()));
}

interface OwnedNames {
  /** Names of an address (base58), the favourite first; null when they are not known in time. Never rejects. */
  find(address: string, reader: AccountReader): Promise<readonly string[] | null>;
}

interface OwnedNamesParts {
  readonly sol: SolRegistry;
  readonly tokens: NameTokens;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly config: Pick<WalletConfig, 'identity' | 'sns'>;
}

const MAX_CACHED_OWNERS = 10_000;
/** Concurrent look-ups: scanning a program is expensive for the upstream. */
const MAX_IN_FLIGHT = 8;
/** Addresses that wait; answers do not wait longer than `wallet.identity.domainsWaitMs`. */
const MAX_WAITING = 64;

/** Names that an address owns in the registry or holds as tokens. */
function createOwnedNames(parts: OwnedNamesParts): OwnedNames {
  const { clock, log, config } = parts;
  const semaphore = createSemaphore({ concurrency: MAX_IN_FLIGHT, maxWaiting: MAX_WAITING });
  const perf = { now: () => clock.monotonic() };
  const known = createLru<string, { readonly names: readonly string[] | null }>({
    max: MAX_CACHED_OWNERS,
    perf,
    ttlResolution: 0,
  });
  const failures = parts.metrics.counter('owned_names_failures_total', 'failed look-ups of the names of an address');
  const inFlight = createSingleFlight<string, readonly string[] | null>();

  async function read(address: string, reader: AccountReader): Promise<readonly string[] | null> {
    const wallet = decode32(address) as Uint8Array;
    const [direct, held, [favourite = null], isCutOff] = await Promise.all([
      ownedDomains(reader, address),
      parts.tokens.find(address, reader),
      reader.accounts([favouriteKey(wallet)]),
      parts.sol.isCutOff(),
    ]);
    const domains = [...direct, ...held];
    if (domains.length > config.identity.maxDomains) return null;
    const texts = await reader.accounts(domains.map((domain) => reverseKey(domain)));
    return sortNames(domains, texts, { favourite, suffix: isCutOff ? 'sns' : 'sol' });
  }

  async function remembered(address: string, reader: AccountReader): Promise<readonly string[] | null> {
    try {
      const names = await read(address, reader);
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
    }
  }

  function begin(address: string, reader: AccountReader): Promise<readonly string[] | null> {
    const permit = semaphore.acquire({ group: reader.tenant.id });
    if (permit === null) return Promise.resolve(null);
    return inFlight.run(address, () => permit.then((release) => remembered(address, reader).finally(release)));
  }

  return {
    find(address, reader) {
      const found = known.get(address);
      if (found !== undefined) return Promise.resolve(found.names);
      return within(clock, config.identity.domainsWaitMs, inFlight.get(address) ?? begin(address, reader));
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
  find(address: string, reader: AccountReader): Promise<readonly Uint8Array[]>;
}

interface TokenAccount {
  readonly account: { readonly data: readonly [base64: string, encoding: string] };
}

const HEAD_BYTES = 72;
const AMOUNT_AT = 64;
/** Tokens with a balance of one that are checked for names. */
const MAX_TOKENS = 1_000;

/**
 * The symbol of a name token proves nothing, as any token can have it. Its mint being the one derived from the name does.
 * Without facts of tokens none are found.
 */
function createNameTokens(facts: TokenFacts | null): NameTokens {
  return {
    async find(address, reader) {
      if (facts === null) return [];
      const options = { encoding: 'base64', commitment: 'confirmed', dataSlice: { offset: 0, length: HEAD_BYTES } };
      const { value } = await reader.call<{ value: readonly TokenAccount[] }>('getTokenAccountsByOwner', [
        address,
        { programId: TOKEN_PROGRAM },
        options,
      ]);
      const mints = value.flatMap(({ account }) => singleMint(Buffer.from(account.data[0], 'base64')) ?? []);
      if (mints.length > MAX_TOKENS) throw new RangeError('too many tokens to look for names among them');
      const found = await facts.lookUp(mints, { tenant: reader.tenant });
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

/** Chain reads for names, for one tenant. A refusal of the node becomes a 503: nothing is known then. */
export interface AccountReader {
  readonly tenant: Tenant;
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

const MAX_KEYS = 100;

function createAccountReader(chain: ChainReader, tenant: Tenant): AccountReader {
  const calls = createChainCall(chain);
  const call = <T>(method: string, params: readonly unknown[]) => calls.call<T>(method, params, tenant);

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
    tenant,
    async accounts(keys) {
      const groups: (readonly Uint8Array[])[] = [];
      for (let at = 0; at < keys.length; at += MAX_KEYS) groups.push(keys.slice(at, at + MAX_KEYS));
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
function createSolRegistry(reader: AccountReader, clock: Clock, cutOffSlot: number | null): SolRegistry {
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
