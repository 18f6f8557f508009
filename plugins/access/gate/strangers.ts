import { createLru } from '../../../src/lib/lru.ts';
import { type Caller, derived } from '../../../src/plugin/plugin.ts';
import { networkOf } from '../../../src/runtime/network-address.ts';
import type { ProjectAccount } from '../account.ts';
import type { AccessConfig } from '../config.ts';
import { createNetworks, type Directory } from '../directory.ts';
import type { Buckets, RateLimits } from '../rates.ts';

/** A client without a key. */
export interface Anonymous {
  readonly caller: Caller;
  readonly account: ProjectAccount;
  readonly limits: RateLimits;
  readonly buckets: Buckets;
  readonly network: string;
}

const MAX_ADDRESSES = 10_000;

/** Calls without a key count for one project and have a rate per client address, without burst. */
export function createStrangers(config: AccessConfig['anonymous'], directory: Pick<Directory, 'project'>) {
  const networks = derived(() => config.cidrs, createNetworks);
  const rate = derived(
    () => config.ratePerSecondPerIp,
    (perSecond): RateLimits => ({ ratePerSecond: new Map([['address', perSecond]]), burstFactor: 1 }),
  );
  const known = createLru<string, { readonly buckets: Buckets }>({ max: MAX_ADDRESSES });
  const ratesOf = (network: string): { readonly limits: RateLimits; readonly buckets: Buckets } => {
    const { buckets } = known.get(network) ?? { buckets: new Map() };
    known.set(network, { buckets });
    return { limits: rate(), buckets };
  };
  return {
    isOpen: (): boolean => config.projectId !== null,
    ratesOf,
    /** Null: not allowed. */
    async find(address: string): Promise<Anonymous | null> {
      if (config.projectId === null || !networks()(address)) return null;
      const account = await directory.project(config.projectId);
      if (account === null || account.isDisabled) return null;
      const network = networkOf(address);
      const { projectId } = account;
      const caller: Caller = {
        projectId,
        keyId: null,
        plan: account.limits.plan,
        wallet: null,
        budgets: account.limits.budgets,
      };
      return { caller, account, network, ...ratesOf(network) };
    },
  };
}

export type Strangers = ReturnType<typeof createStrangers>;
