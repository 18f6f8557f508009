import { type GateItem, GateRefusal } from '../../../src/kernel/plugin.ts';
import type { Limits } from '../plans/limits.ts';
import type { KeyRules } from './key-rules.ts';

const WALLET = '/v1/wallet/';

/** Why neither this key nor this plan may make a call, whatever is left of credits and rate; null when it may. */
export function itemRefusal(item: GateItem, index: number, rules: KeyRules | null, limits: Limits): GateRefusal | null {
  if (rules !== null && rules.permissions !== null && lacks(item, rules.permissions))
    return new GateRefusal('permission', { item: index });
  const { price } = item;
  if (price === undefined) return null;
  for (const group of price.groups)
    if (limits.ratePerSecond.get(group) === 0) return new GateRefusal('plan', { item: index });
  if (limits.refusedWallet !== null && item.name.startsWith(WALLET)) {
    const segment = item.name.slice(item.name.lastIndexOf('/') + 1);
    if (limits.refusedWallet.has(segment)) return new GateRefusal('plan', { item: index });
  }
  return null;
}

function lacks({ price, permission }: GateItem, permissions: ReadonlySet<string>): boolean {
  if (permission !== undefined) return !permissions.has(permission);
  return price !== undefined && !permissions.has(price.product);
}
