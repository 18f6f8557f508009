import type { Clock } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import { createLru } from '../../../../src/lib/lru.ts';
import type { NameText } from '../../../../src/solana/names/name-text.ts';
import { askName, type NameAnswer, type NameQuestion, resolveName } from '../../../../src/solana/names/resolve.ts';
import { resolveSrs, srsRecordKey } from '../../../../src/solana/names/srs.ts';
import type { AccountReader } from './account-reader.ts';
import { findHolder } from './holder.ts';
import type { SolRegistry } from './sol-registry.ts';

export interface NameResolver {
  /**
   * The address (base58) of each name, null for those that stand for none. Rejects when the chain does not tell: an unknown answer is
   * never "not resolved".
   */
  resolve(names: readonly NameText[]): Promise<readonly (string | null)[]>;
}

export interface ResolverParts {
  readonly reader: AccountReader;
  readonly sol: SolRegistry;
  readonly clock: Clock;
  readonly suffixes: readonly string[];
  readonly srs: boolean;
  readonly allowPda: boolean;
  readonly cacheSeconds: number;
  readonly negativeCacheSeconds: number;
}

/** Which program keeps a name. */
type Registry = 'names' | 'srs';
interface Asked {
  readonly name: NameText;
  readonly registry: Registry;
}

const MAX_CACHED = 20_000;
const MOST_LABELS = 2;
/** Names in one call, which takes 100 accounts: four for each. */
const NAMES_PER_CALL = 25;
const ACCOUNTS_PER_NAME = 4;

/** Addresses of names, remembered for a while; look-ups of one name at the same time are one. */
export function createNameResolver(parts: ResolverParts): NameResolver {
  const { reader, clock } = parts;
  const perf = { now: () => clock.monotonic() };
  const known = createLru<string, { readonly address: string | null }>({ max: MAX_CACHED, perf, ttlResolution: 0 });
  const underWay = new Map<string, Promise<string | null>>();

  async function registryOf({ labels, suffix }: NameText): Promise<Registry | null> {
    if (!parts.suffixes.includes(suffix) || labels.length > MOST_LABELS) return null;
    if (suffix !== 'sol' || !(await parts.sol.isCutOff())) return 'names';
    return parts.srs && labels.length === 1 ? 'srs' : null;
  }

  /** The key holds the registry: what the old one said must not outlive the cut-off. */
  const keyOf = ({ name, registry }: Asked): string => `${registry}:${name.labels.join('.')}`;

  function remember(asked: Asked, address: string | null): string | null {
    const ttl = (address === null ? parts.negativeCacheSeconds : parts.cacheSeconds) * 1_000;
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
      resolveName(question, accounts.slice(at * ACCOUNTS_PER_NAME, (at + 1) * ACCOUNTS_PER_NAME), parts),
    );
    return Promise.all(answers.map(addressOf));
  }

  async function readSrs(asked: readonly Asked[]): Promise<readonly (string | null)[]> {
    const keys = asked.map(({ name }) => srsRecordKey(name.labels[0] as string));
    const accounts = await reader.accounts(keys);
    const answers = keys.map((key, at) => resolveSrs(key, accounts[at] ?? null, clock.now() / 1_000));
    return Promise.all(answers.map(addressOf));
  }

  /** Starts what is not under way yet, several names in one call. */
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
          .finally(() => underWay.delete(key));
        // Whoever waits for it gets the error; nobody may be left.
        answer.catch(() => undefined);
        underWay.set(key, answer);
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
        // Taken at once: it may be forgotten while others are asked for.
        const remembered = known.get(key);
        if (remembered !== undefined) answers.set(key, remembered.address);
        else if (one !== null && !underWay.has(key)) missing.set(key, one);
      }
      const ofRegistry = (registry: Registry) => [...missing.values()].filter((one) => one.registry === registry);
      begin(ofRegistry('names'), readNames);
      begin(ofRegistry('srs'), readSrs);
      return Promise.all(
        asked.map((one) => (one === null ? null : (answers.get(keyOf(one)) ?? underWay.get(keyOf(one)) ?? null))),
      );
    },
  };
}
