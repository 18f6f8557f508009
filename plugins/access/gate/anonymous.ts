import type { Caller } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { AccessConfig } from '../config.ts';
import type { Account } from '../metering/account.ts';
import type { Buckets, RateLimits } from '../rates/rates.ts';
import type { Directory } from './directory.ts';
import { createNetworks } from './key-rules.ts';

/** A client without a key. */
export interface Anonymous {
  readonly caller: Caller;
  readonly account: Account;
  readonly limits: RateLimits;
  readonly buckets: Buckets;
}

const MAX_ADDRESSES = 10_000;

/** Calls without a key count to one project and have a rate per client address, without a burst. Null where they are not taken. */
export function createAnonymous(
  config: AccessConfig['anonymous'],
  directory: Pick<Directory, 'project'>,
): (address: string) => Promise<Anonymous | null> {
  const isAllowed = createNetworks(config.cidrs);
  const limits: RateLimits = { ratePerSecond: new Map([['address', config.ratePerSecondPerIp]]), burstFactor: 1 };
  const known = createLru<string, { readonly buckets: Buckets }>({ max: MAX_ADDRESSES });
  return async (address) => {
    if (config.projectId === null || !isAllowed(address)) return null;
    const account = await directory.project(config.projectId);
    if (account === null) return null;
    const { buckets } = known.get(address) ?? { buckets: new Map() };
    known.set(address, { buckets });
    const { projectId } = account;
    const caller: Caller = { projectId, keyId: null, plan: account.limits.plan, wallet: null };
    return { caller, account, limits, buckets };
  };
}
