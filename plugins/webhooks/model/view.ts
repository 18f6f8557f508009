import { effectiveStatus, type Webhook } from './webhook.ts';

/** What `wallet` says where nobody has one: clients take it for an address. */
const NO_WALLET = '11111111111111111111111111111111';

/**
 * The webhook as the API shows it. `addresses` may be cut; `addressCount` tells the full number. `wallet` is told of webhooks that were
 * made before makers were kept.
 */
export function webhookView(
  hook: Webhook,
  addresses: readonly string[],
  wallet: string | null,
  now: number,
): Record<string, unknown> {
  const inGrace = hook.active && hook.graceUntil !== null && hook.graceUntil > now;
  return {
    webhookID: hook.id,
    project: hook.projectId,
    wallet: hook.wallet ?? wallet ?? NO_WALLET,
    webhookURL: hook.url,
    transactionTypes: hook.transactionTypes,
    accountAddresses: addresses,
    webhookType: hook.type,
    authHeader: hook.authHeader ?? '',
    active: hook.active,
    addressCount: hook.addressCount,
    txnStatus: effectiveStatus(hook),
    ...(hook.encoding === null ? {} : { encoding: hook.encoding }),
    matchTokenOwners: hook.matchTokenOwners,
    retryPreset: hook.retryPreset,
    batchSize: hook.batchSize,
    ordered: hook.ordered,
    onInactive: hook.onInactive,
    ...(hook.disabledReason === null ? {} : { disabledReason: hook.disabledReason }),
    ...(hook.disabledAt === null ? {} : { disabledAt: isoTime(hook.disabledAt) }),
    ...(inGrace ? { graceUntil: isoTime(hook.graceUntil ?? 0) } : {}),
  };
}

export const isoTime = (ms: number): string => new Date(ms).toISOString();
