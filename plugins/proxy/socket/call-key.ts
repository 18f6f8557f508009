import { isPlainObject, parseExact, stringify, withSortedMembers } from '../../../src/lib/json.ts';

/** Members of the configuration that make a subscription, with the values that a node takes for absent ones (Agave 4.2.1, rpc_subscription_tracker.rs). */
type Members = Readonly<Record<string, string | boolean | null>>;

const NO_CONFIG: Members = {};
const ACCOUNT: Members = { commitment: 'finalized', encoding: 'binary', dataSlice: null };
/** Number of params before the configuration, and its members. */
const STANDARD: Readonly<Record<string, readonly [before: number, members: Members]>> = {
  slotSubscribe: [0, NO_CONFIG],
  rootSubscribe: [0, NO_CONFIG],
  voteSubscribe: [0, NO_CONFIG],
  slotsUpdatesSubscribe: [0, NO_CONFIG],
  accountSubscribe: [1, ACCOUNT],
  programSubscribe: [1, { ...ACCOUNT, filters: null, withContext: false }],
  logsSubscribe: [1, { commitment: 'finalized' }],
  signatureSubscribe: [1, { commitment: 'finalized', enableReceivedNotification: false }],
  blockSubscribe: [
    1,
    {
      commitment: 'finalized',
      encoding: 'base64',
      transactionDetails: 'full',
      showRewards: null,
      maxSupportedTransactionVersion: null,
    },
  ],
};
const COMMITMENTS: readonly unknown[] = ['processed', 'confirmed', 'finalized'];

/**
 * What makes a subscription: two calls are one on a node when their values are equal after defaults, whatever their text. Members that the node does
 * not know or that do not make the subscription (`minContextSlot`) are left out. Params that are not understood stay as they are written.
 */
export function callKey(method: string, paramsText: string | null): string {
  const written = `${method} ${paramsText ?? '[]'}`;
  let params: unknown;
  try {
    params = parseExact(paramsText ?? '[]');
  } catch {
    return written;
  }
  if (!Object.hasOwn(STANDARD, method)) return `${method} ${stringify(withSortedMembers(params))}`;
  const [before, members] = STANDARD[method]!;
  const given: unknown = params === null ? [] : params;
  const most = members === NO_CONFIG ? before : before + 1;
  if (!Array.isArray(given) || given.length < before || given.length > most) return written;
  const config: unknown = given[before] ?? {};
  if (!isPlainObject(config)) return written;
  const { commitment } = config;
  if (commitment != null && !COMMITMENTS.includes(commitment)) return written;
  const chosen = Object.entries(members).map(([name, standard]) => config[name] ?? standard);
  return `${method} ${stringify(withSortedMembers([...(given.slice(0, before) as unknown[]), ...chosen]))}`;
}
