/** Why a key or a plan does not allow a call, independent of credits and rates. */
import type { Credentials, GateItem } from '../../../src/plugin/host.ts';
import { GateRefusal } from '../../../src/plugin/plugin.ts';
import type { KeyRules } from '../directory.ts';
import type { Limits, PlanBatchLimits } from '../plans.ts';

const WALLET = '/v1/wallet/';

/** Why this key or plan may not make a call, independent of credits and rate; null if it may. */
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
  if (permission === null) return false;
  if (permission !== undefined) return !permissions.has(permission);
  return price !== undefined && !permissions.has(price.product);
}

/** Why the plan does not allow this batch; null if it does. */
export function batchRefusal(items: readonly GateItem[], limits: PlanBatchLimits): GateRefusal | null {
  const refuse = (details: string) => new GateRefusal('batch', { details });
  if (limits.maxItems !== null && items.length > limits.maxItems)
    return refuse(`a batch has at most ${limits.maxItems} items on this plan`);
  let historical = 0;
  let transactions = 0;
  for (const { name, price } of items) {
    if (limits.notBatchable.has(name)) return refuse(`${name} cannot be part of a batch on this plan`);
    if (name === 'getTransaction') transactions += 1;
    else if (price?.product === 'archival') historical += 1;
  }
  if (limits.historicalMax !== null && historical > limits.historicalMax)
    return refuse(`a batch has at most ${limits.historicalMax} historical calls on this plan`);
  if (limits.getTransactionMax !== null && transactions > limits.getTransactionMax)
    return refuse(`a batch has at most ${limits.getTransactionMax} getTransaction calls on this plan`);
  return null;
}

/** Whether a permission was removed; null: all permissions. */
export function isNarrower(now: KeyRules['permissions'], before: KeyRules['permissions']): boolean {
  if (now === null) return false;
  return before === null || [...before].some((permission) => !now.has(permission));
}

/**
 * The key that counts: the first of query, `X-Api-Key` and Bearer that is set. Null if none is. Throws `bad-key` if the query contains
 * several keys.
 */
export function presentedKey({ query, header, bearer }: Credentials): string | null {
  const first = query[0];
  if (query.length === 1 && first !== undefined && first !== '') return first;
  if (query.length > 0) {
    const given = new Set(query.filter((value) => value !== ''));
    if (given.size > 1) throw new GateRefusal('bad-key');
    const [key] = given;
    if (key !== undefined) return key;
  }
  return header || bearer || null;
}
