import type { PluginContext } from '../../../../src/kernel/plugin.ts';
import { RequestError } from '../../../../src/kernel/request.ts';
import { tokenFacts } from '../../../../src/ports/token-facts.ts';
import type { NameText } from '../../../../src/solana/names/name-text.ts';
import type { WalletConfig } from '../../config.ts';
import { onlyOnMainnet } from '../lookup.ts';
import { createAccountReader } from './account-reader.ts';
import { hasNames } from './cluster.ts';
import { createNameTokens } from './name-tokens.ts';
import { createOwnedNames } from './owned-names.ts';
import { createNameResolver } from './resolver.ts';
import { createSolRegistry } from './sol-registry.ts';

/** Names of addresses, both ways. */
export interface Names {
  /** Addresses of names, null where they stand for none. Throws what a caller is to be told. */
  resolve(names: readonly NameText[]): Promise<readonly (string | null)[]>;
  /** Names of an address; null where none are told. Never rejects. */
  owned(address: string): Promise<readonly string[] | null>;
}

export function createNames(ctx: PluginContext<WalletConfig>): Names {
  const { clock, log, metrics } = ctx;
  const { identity, sns } = ctx.config;
  const chain = ctx.chain('main');
  if (chain === null) return NO_NAMES;
  const reader = createAccountReader(chain);
  const sol = createSolRegistry(reader, clock, sns.solCutOffSlot);
  const resolver = createNameResolver({ reader, sol, clock, ...sns });
  const tokens = createNameTokens(reader, ctx.use(tokenFacts) ?? null);
  const owned = createOwnedNames({
    ...{ reader, sol, tokens, clock, log, metrics },
    ...{ waitMs: identity.domainsWaitMs, maxNames: identity.maxDomains },
    ...{ cacheSeconds: sns.cacheSeconds, negativeCacheSeconds: sns.negativeCacheSeconds },
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
