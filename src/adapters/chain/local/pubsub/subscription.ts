import { type AccountFormat, accountFormatOf } from '../encode/account.ts';
import type { Commitment } from '../ledger/types.ts';
import { filtersOf } from '../rpc/filters.ts';
import { asKey, commitmentOf, configAt, keyAt, listAt, signatureAt } from '../rpc/params.ts';
import { invalidParams } from '../rpc/rpc-error.ts';
import type { VmAccount } from '../vm/vm.ts';

interface Shared {
  readonly commitment: Commitment;
}

/** What a client asked to be told. */
export type Topic =
  | { readonly kind: 'slot' | 'root' | 'slotsUpdates' }
  | ({ readonly kind: 'logs'; readonly mentions: string | null } & Shared)
  | ({ readonly kind: 'signature'; readonly signature: string } & Shared)
  | ({ readonly kind: 'account'; readonly key: string; readonly format: AccountFormat } & Shared)
  | ({
      readonly kind: 'program';
      readonly program: string;
      readonly format: AccountFormat;
      readonly matches: (account: VmAccount) => boolean;
    } & Shared);

type Reader = (params: readonly unknown[]) => Topic;

const READERS: Readonly<Record<string, Reader>> = {
  slotSubscribe: () => ({ kind: 'slot' }),
  rootSubscribe: () => ({ kind: 'root' }),
  slotsUpdatesSubscribe: () => ({ kind: 'slotsUpdates' }),
  logsSubscribe: (params) => ({
    kind: 'logs',
    mentions: mentionsOf(params[0]),
    commitment: commitmentOf(configAt(params, 1)),
  }),
  signatureSubscribe: (params) => ({
    kind: 'signature',
    signature: signatureAt(params, 0),
    commitment: commitmentOf(configAt(params, 1)),
  }),
  accountSubscribe(params) {
    const config = configAt(params, 1);
    return {
      kind: 'account',
      key: keyAt(params, 0),
      format: accountFormatOf(config),
      commitment: commitmentOf(config),
    };
  },
  programSubscribe(params) {
    const config = configAt(params, 1);
    return {
      kind: 'program',
      program: keyAt(params, 0),
      format: accountFormatOf(config),
      matches: filtersOf(config['filters']),
      commitment: commitmentOf(config),
    };
  },
};

/** Reads a subscribe call; null where there is no such method. Throws -32602. */
export function topicOf(method: string, params: readonly unknown[]): Topic | null {
  return Object.hasOwn(READERS, method) ? READERS[method]!(params) : null;
}

/** Whether `method` ends a subscription. */
export function isUnsubscribe(method: string): boolean {
  return method.endsWith('Unsubscribe') && Object.hasOwn(READERS, method.replace('Unsubscribe', 'Subscribe'));
}

function mentionsOf(filter: unknown): string | null {
  if (filter === 'all' || filter === 'allWithVotes') return null;
  const { mentions } = (filter ?? {}) as { mentions?: unknown };
  const keys = listAt([mentions], 0, Number.MAX_SAFE_INTEGER);
  if (keys.length !== 1) throw invalidParams('Invalid Request: Only 1 address supported');
  return asKey(keys[0]);
}
