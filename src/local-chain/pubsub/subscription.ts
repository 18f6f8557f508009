import { type AccountFormat, accountFormatOf } from '../encode/account.ts';
import type { Commitment } from '../ledger/types.ts';
import {
  accountConfig,
  type ContextConfig,
  logsConfig,
  logsFilter,
  programAccountsConfig,
  signatureSubscribeConfig,
} from '../rpc/configs.ts';
import { type Read, text, u64 } from '../rpc/deserialize.ts';
import { type Maybe, readParams, type Values } from '../rpc/method.ts';
import { type AccountMatch, filtersOf } from '../rpc/methods-accounts.ts';
import { invalidParams } from '../rpc/rpc-error.ts';
import { pubkey, signature } from '../rpc/values.ts';

interface Shared {
  readonly commitment: Commitment;
}

/** What a client asked to be told. */
export type Topic =
  | { readonly kind: 'slot' | 'root' | 'slotsUpdates' }
  | ({ readonly kind: 'logs'; readonly mentions: string | null } & Shared)
  | ({ readonly kind: 'signature'; readonly signature: string; readonly announces: boolean } & Shared)
  | ({ readonly kind: 'account'; readonly key: string; readonly format: AccountFormat } & Shared)
  | ({
      readonly kind: 'program';
      readonly program: string;
      readonly format: AccountFormat;
      readonly matches: AccountMatch;
    } & Shared);

type TopicReader = (params: unknown) => Topic;

const READERS: Readonly<Record<string, TopicReader>> = {
  slotSubscribe: topic([], [], () => ({ kind: 'slot' })),
  rootSubscribe: topic([], [], () => ({ kind: 'root' })),
  slotsUpdatesSubscribe: topic([], [], () => ({ kind: 'slotsUpdates' })),
  logsSubscribe: topic([logsFilter], [logsConfig], (filter, config) => {
    const keys = filter.kind === 'mentions' ? filter.content : [];
    if (filter.kind === 'mentions' && keys.length !== 1) {
      throw invalidParams('Invalid Request: Only 1 address supported');
    }
    const mentions = keys[0] === undefined ? null : checked(pubkey, keys[0], 'mentions');
    return { kind: 'logs', mentions, commitment: commitmentOf(config) };
  }),
  signatureSubscribe: topic([text], [signatureSubscribeConfig], (id, config) => ({
    kind: 'signature',
    signature: checked(signature, id, 'signature'),
    announces: config?.enableReceivedNotification === true,
    commitment: commitmentOf(config),
  })),
  accountSubscribe: topic([text], [accountConfig], (address, config) => ({
    kind: 'account',
    key: checked(pubkey, address, 'pubkey'),
    format: accountFormatOf(config),
    commitment: commitmentOf(config),
  })),
  programSubscribe: topic([text], [programAccountsConfig], (address, config) => ({
    kind: 'program',
    matches: programFilters(config?.filters),
    program: checked(pubkey, address, 'pubkey'),
    format: accountFormatOf(config),
    commitment: commitmentOf(config),
  })),
};

function topic<const R extends readonly Read<unknown>[], const O extends readonly Read<unknown>[]>(
  required: R,
  optional: O,
  make: (...values: [...Values<R>, ...Maybe<O>]) => Topic,
): TopicReader {
  return (params) => make(...(readParams(required, optional, params) as [...Values<R>, ...Maybe<O>]));
}

/** Reads a subscribe call; null where there is no such method. Throws -32602. */
export function topicOf(method: string, params: unknown): Topic | null {
  return Object.hasOwn(READERS, method) ? READERS[method]!(params) : null;
}

/** The subscription that a call ends, of whatever kind it is; null where the call is another one. Throws -32602. */
export function unsubscribedId(method: string, params: unknown): number | null {
  const known = method.endsWith('Unsubscribe') && Object.hasOwn(READERS, method.replace('Unsubscribe', 'Subscribe'));
  return known ? Number(readParams([u64], [], params)[0]) : null;
}

function commitmentOf(config: ContextConfig | undefined): Commitment {
  return config?.commitment ?? 'finalized';
}

function checked(read: (value: string) => string, value: string, what: string): string {
  try {
    return read(value);
  } catch {
    throw invalidParams(`Invalid Request: Invalid ${what} provided`);
  }
}

function programFilters(filters: Parameters<typeof filtersOf>[0]): AccountMatch {
  try {
    return filtersOf(filters);
  } catch (error) {
    throw invalidParams(`Invalid params: ${(error as Error).message}`);
  }
}
