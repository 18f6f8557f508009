import { type Static, Type } from '@sinclair/typebox';
import type { Product } from '../../../src/kernel/plugin.ts';
import type { Cycle } from '../cycle.ts';
import { rounded, toMicro } from '../metering/amount.ts';
import type { Limits } from '../plans/limits.ts';

const PRODUCTS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'laserstreamGrpc',
  'laserstreamWebsocket',
  'preConfirmations',
  'archival',
  'photon',
  'other',
] as const satisfies readonly Product[];
const BYTE_PRODUCTS = ['laserstreamGrpc', 'laserstreamWebsocket'] as const;
const REQUEST_PRODUCTS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'preConfirmations',
  'archival',
  'photon',
  'other',
] as const satisfies readonly Product[];

/** The older object that some clients read: which products each of its members sums up. */
const OLD_USAGE: Readonly<Record<string, readonly Product[]>> = {
  api: ['enhancedApi', 'walletApi', 'other'],
  archival: ['archival'],
  das: ['das'],
  grpc: ['laserstreamGrpc'],
  grpcGeyser: [],
  photon: ['photon'],
  rpc: ['rpc'],
  stream: ['preConfirmations'],
  webhook: ['webhooks'],
  websocket: ['laserstreamWebsocket'],
};

const count = Type.Integer({ minimum: 0 });
const day = Type.String({ description: 'YYYY-MM-DD, UTC' });
const span = Type.Object({ start: day, end: day });
const counts = (names: readonly string[]) => Type.Object(Object.fromEntries(names.map((name) => [name, count])));

/** The usage record of a project. */
export const usageReply = Type.Object({
  creditsRemaining: count,
  creditsUsed: count,
  prepaidCreditsRemaining: count,
  prepaidCreditsUsed: count,
  creditCycle: span,
  subscriptionDetails: Type.Object({
    billingCycle: Type.Union([span, Type.Null()]),
    creditsLimit: count,
    plan: Type.String(),
  }),
  credits: counts(PRODUCTS),
  requests: counts(REQUEST_PRODUCTS),
  dataTransfer: counts(BYTE_PRODUCTS),
  usage: counts(Object.keys(OLD_USAGE)),
});

export type UsageRecord = Static<typeof usageReply>;

/** What a project used in a cycle, unrounded. */
export interface CycleUsage {
  readonly cycle: Cycle;
  readonly limits: Limits;
  /** Millionths of a credit. */
  readonly regular: bigint;
  readonly prepaid: bigint;
  readonly prepaidLeft: bigint;
  readonly products: ReadonlyMap<string, ProductUsage>;
}

export interface ProductUsage {
  readonly micro: bigint;
  readonly requests: number;
  readonly bytes: number;
}

/** Every number is rounded once, by itself. */
export function usageRecord({ cycle, limits, regular, prepaid, prepaidLeft, products }: CycleUsage): UsageRecord {
  const span = { start: cycle.start, end: cycle.end };
  const microOf = (names: readonly string[]) =>
    names.reduce((sum, name) => sum + (products.get(name)?.micro ?? 0n), 0n);
  const each = (names: readonly string[], value: (name: string) => number) =>
    Object.fromEntries(names.map((name) => [name, value(name)]));
  const left = toMicro(limits.creditsLimit, 0) - regular;
  return {
    creditsRemaining: left > 0n ? rounded(left) : 0,
    creditsUsed: rounded(regular + prepaid),
    prepaidCreditsRemaining: prepaidLeft > 0n ? rounded(prepaidLeft) : 0,
    prepaidCreditsUsed: rounded(prepaid),
    creditCycle: span,
    subscriptionDetails: {
      billingCycle: limits.invoiced ? span : null,
      creditsLimit: limits.creditsLimit,
      plan: limits.plan,
    },
    credits: each(PRODUCTS, (name) => rounded(microOf([name]))),
    requests: each(REQUEST_PRODUCTS, (name) => products.get(name)?.requests ?? 0),
    dataTransfer: each(BYTE_PRODUCTS, (name) => products.get(name)?.bytes ?? 0),
    usage: each(Object.keys(OLD_USAGE), (name) => rounded(microOf(OLD_USAGE[name] ?? []))),
  };
}
