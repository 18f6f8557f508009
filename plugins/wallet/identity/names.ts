import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { ChainReader, Clock, PluginContext } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import { tokenFacts } from '../../../src/ports/token-facts.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/addresses.ts';
import {
  askName,
  type NameAnswer,
  type NameQuestion,
  type NameText,
  parseName,
  resolveName,
  resolveSrs,
  srsRecordKey,
} from '../../../src/solana/names.ts';
import type { WalletConfig } from '../config.ts';
import { notAnAddress } from '../wallet-route.ts';
import type { AddressLabel } from './labels.ts';
import {
  type AccountReader,
  createAccountReader,
  createNameTokens,
  createOwnedNames,
  createSolRegistry,
  type SolRegistry,
} from './owned-names.ts';

/** Names of addresses, both ways. */
export interface Names {
  /** Addresses of names; null for a name that does not resolve. Throws RequestErrors for the caller. */
  resolve(names: readonly NameText[]): Promise<readonly (string | null)[]>;
  /** Names of an address; null when look-ups are disabled. Never rejects. */
  owned(address: string): Promise<readonly string[] | null>;
}

export function createNames(ctx: PluginContext<WalletConfig>): Names {
  const { clock, log, metrics } = ctx;
  const { identity, sns } = ctx.config;
  const chain = ctx.chain('main');
  if (chain === null) return NO_NAMES;
  const reader = createAccountReader(chain);
  const sol = createSolRegistry(reader, clock, sns.solCutOffSlot);
  const resolver = createNameResolver({ reader, sol, clock, config: sns });
  const tokens = createNameTokens(reader, ctx.use(tokenFacts) ?? null);
  const owned = createOwnedNames({
    ...{ reader, sol, tokens, clock, log, metrics, config: ctx.config },
  });
  return {
    async resolve(names) {
      if (names.length === 0) return [];
      if (!(await hasNames(chain, reader))) throw onlyOnMainnet();
      return resolver.resolve(names);
    },
    async owned(address) {
      if (!identity.domains || !(await hasNames(chain, reader).catch(() => false))) return null;
      return owned.find(address);
    },
  };
}

const NO_NAMES: Names = {
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
  resolve(names: readonly NameText[]): Promise<readonly (string | null)[]>;
}

interface ResolverParts {
  readonly reader: AccountReader;
  readonly sol: SolRegistry;
  readonly clock: Clock;
  readonly config: WalletConfig['sns'];
}

/** The program that holds a name. */
type Registry = 'names' | 'srs';
interface Asked {
  readonly name: NameText;
  readonly registry: Registry;
}

const MAX_CACHED = 20_000;
const MOST_LABELS = 2;
/** Names per call of at most 100 accounts: four for each name. */
const NAMES_PER_CALL = 25;
const ACCOUNTS_PER_NAME = 4;

/** Resolves and caches names; concurrent look-ups of one name share a call. */
function createNameResolver(parts: ResolverParts): NameResolver {
  const { reader, clock } = parts;
  const perf = { now: () => clock.monotonic() };
  const known = createLru<string, { readonly address: string | null }>({ max: MAX_CACHED, perf, ttlResolution: 0 });
  const inFlight = new Map<string, Promise<string | null>>();

  async function registryOf({ labels, suffix }: NameText): Promise<Registry | null> {
    if (!parts.config.suffixes.includes(suffix) || labels.length > MOST_LABELS) return null;
    if (suffix !== 'sol' || !(await parts.sol.isCutOff())) return 'names';
    return parts.config.srs && labels.length === 1 ? 'srs' : null;
  }

  /** The key contains the registry: results of the old registry must not outlive the cut-off. */
  const keyOf = ({ name, registry }: Asked): string => `${registry}:${name.labels.join('.')}`;

  function remember(asked: Asked, address: string | null): string | null {
    const ttl = (address === null ? parts.config.negativeCacheSeconds : parts.config.cacheSeconds) * 1_000;
    if (ttl > 0) known.set(keyOf(asked), { address }, { ttl });
    return address;
  }

  async function addressOf(answer: NameAnswer): Promise<string | null> {
    if (answer.kind === 'address') return encode32(answer.address);
    const holder = answer.kind === 'holder' ? await findHolder(reader, answer.mint) : null;
    return holder === null ? null : encode32(holder);
  }

  async function readNames(asked: readonly Asked[]): Promise<readonly (string | null)[]> {
    const questions: NameQuestion[] = asked.map(({ name }) => askName(name.labels));
    const accounts = await reader.accounts(questions.flatMap(({ keys }) => keys));
    const answers = questions.map((question, at) =>
      resolveName(question, accounts.slice(at * ACCOUNTS_PER_NAME, (at + 1) * ACCOUNTS_PER_NAME), parts.config),
    );
    return Promise.all(answers.map(addressOf));
  }

  async function readSrs(asked: readonly Asked[]): Promise<readonly (string | null)[]> {
    const keys = asked.map(({ name }) => srsRecordKey(name.labels[0] as string));
    const accounts = await reader.accounts(keys);
    const answers = keys.map((key, at) => resolveSrs(key, accounts[at] ?? null, clock.now() / 1_000));
    return Promise.all(answers.map(addressOf));
  }

  /** Starts the look-ups that are not in flight yet, several names per call. */
  function begin(
    asked: readonly Asked[],
    read: (asked: readonly Asked[]) => Promise<readonly (string | null)[]>,
  ): void {
    for (let from = 0; from < asked.length; from += NAMES_PER_CALL) {
      const group = asked.slice(from, from + NAMES_PER_CALL);
      const answers = read(group);
      for (const [at, one] of group.entries()) {
        const key = keyOf(one);
        const answer = answers
          .then((addresses) => remember(one, addresses[at] ?? null))
          .finally(() => inFlight.delete(key));
        // Waiting callers get the error; there may be none left.
        answer.catch(() => undefined);
        inFlight.set(key, answer);
      }
    }
  }

  return {
    async resolve(names) {
      const asked = await Promise.all(
        names.map(async (name) => {
          const registry = await registryOf(name);
          return registry === null ? null : { name, registry };
        }),
      );
      const answers = new Map<string, string | null>();
      const missing = new Map<string, Asked>();
      for (const one of asked) {
        const key = one === null ? '' : keyOf(one);
        // Read now: the entry may expire while other names are looked up.
        const remembered = known.get(key);
        if (remembered !== undefined) answers.set(key, remembered.address);
        else if (one !== null && !inFlight.has(key)) missing.set(key, one);
      }
      const ofRegistry = (registry: Registry) => [...missing.values()].filter((one) => one.registry === registry);
      begin(ofRegistry('names'), readNames);
      begin(ofRegistry('srs'), readSrs);
      return Promise.all(
        asked.map((one) => (one === null ? null : (answers.get(keyOf(one)) ?? inFlight.get(keyOf(one)) ?? null))),
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
const TEST_CLUSTERS: ReadonlySet<string> = new Set([
  'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG',
  '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY',
]);

/** Whether the name programs are real on this chain. Rejects when the chain cannot be identified. */
async function hasNames(chain: ChainReader, reader: AccountReader): Promise<boolean> {
  const { genesisHash } = chain.status();
  return !TEST_CLUSTERS.has(genesisHash ?? (await reader.genesisHash()));
}
