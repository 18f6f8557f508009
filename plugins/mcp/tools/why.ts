import { type Calls, count, orMissing, type ToolAnswer } from '../tool.ts';
import { itemsOf, memberOf, objectsOf } from './answers.ts';

interface Reason {
  readonly code: string;
  readonly sentence: string;
}

/** Newest gaps that are looked at. */
const GAPS = 100;

/**
 * Why a webhook did not send the event of a transaction, or what became of the delivery: the deciding reason first. Only what was found is
 * said; when nothing explains it, the answer says so.
 */
export async function whyNot(calls: Calls, path: string, signature: string): Promise<ToolAnswer> {
  const webhook = await calls.get(path);
  const [found, transaction] = await Promise.all([
    calls.get(`${path}/deliveries`, { signature, limit: 10 }),
    rawTransaction(calls, signature),
  ]);
  const deliveries = objectsOf(memberOf(found, 'data'));
  const reasons: Reason[] = deliveries.map(reasonOfDelivery);
  if (deliveries.length === 0) {
    if (transaction === null) reasons.push(...(await reasonsOfUnknown(calls, signature)));
    else
      reasons.push(
        ...(await reasonsOfSilence(calls, webhook, transaction, signature, itemsOf(memberOf(found, 'missed')))),
      );
  }
  if (memberOf(webhook, 'active') !== true) reasons.push(reasonOfOff(webhook));
  if (reasons.length === 0)
    reasons.push({
      code: 'not_explained',
      sentence:
        'The transaction touches a watched address, passes the filters and lies in no gap. Its block may be older than the webhook, or not indexed yet: ask again, or replay its slot.',
    });
  return {
    summary: reasons.map(({ sentence }) => sentence).join(' '),
    data: { reasons, items: deliveries, webhook },
  };
}

const rawTransaction = (calls: Calls, signature: string): Promise<unknown> =>
  calls.rpc('getTransaction', [
    signature,
    { encoding: 'json', maxSupportedTransactionVersion: 1, commitment: 'confirmed' },
  ]);

function reasonOfDelivery(delivery: Readonly<Record<string, unknown>>): Reason {
  const attempts = objectsOf(delivery['attempts']);
  const last = attempts.at(-1);
  const answer =
    last === undefined
      ? 'No request was sent yet'
      : `The last of ${count(attempts.length, 'request')} was answered with ${String(last['statusCode'] ?? 'nothing')}`;
  switch (delivery['status']) {
    case 'delivered':
      return { code: 'delivered', sentence: `The event was delivered. ${answer}.` };
    case 'failed':
      return { code: 'delivery_failed', sentence: `The delivery failed for good. ${answer}.` };
    case 'discarded':
      return { code: 'delivery_discarded', sentence: `The delivery was discarded. ${answer}.` };
    default:
      return {
        code: 'delivery_pending',
        sentence: `The delivery waits for its next request, at ${String(delivery['nextAttemptAt'] ?? 'once')}. ${answer}.`,
      };
  }
}

async function reasonsOfUnknown(calls: Calls, signature: string): Promise<readonly Reason[]> {
  const found = await calls.rpc('getSignatureStatuses', [[signature], { searchTransactionHistory: true }]);
  const [status = null] = itemsOf(memberOf(found, 'value'));
  return [
    status === null
      ? { code: 'transaction_unknown', sentence: 'No upstream knows the transaction: it is not on this chain.' }
      : {
          code: 'transaction_not_confirmed',
          sentence: 'The transaction is not confirmed yet: webhooks send confirmed transactions.',
        },
  ];
}

/** There is no delivery and no request failed: what kept the webhook from making one. */
async function reasonsOfSilence(
  calls: Calls,
  webhook: unknown,
  transaction: unknown,
  signature: string,
  missed: readonly unknown[],
): Promise<readonly Reason[]> {
  const slot = Number(memberOf(transaction, 'slot'));
  const reasons: Reason[] = [];
  if (memberOf(webhook, 'webhookType') !== 'parsed' && !touches(webhook, transaction))
    reasons.push({
      code: 'no_watched_address',
      sentence: 'No account of the transaction, and no owner of its token accounts, is an address of the webhook.',
    });
  const hasFailed = (memberOf(memberOf(transaction, 'meta'), 'err') ?? null) !== null;
  const wanted = memberOf(webhook, 'txnStatus');
  if ((wanted === 'success' && hasFailed) || (wanted === 'failed' && !hasFailed))
    reasons.push({
      code: 'status_not_wanted',
      sentence: `The transaction ${hasFailed ? 'failed' : 'succeeded'}, and the webhook sends only those that ${hasFailed ? 'succeed' : 'fail'} (txnStatus).`,
    });
  const type = await typeNotWanted(calls, webhook, signature);
  if (type !== null) reasons.push(type);
  const holes = await orMissing(calls.get('/v0/webhooks/gaps', { limit: GAPS }));
  const gaps = [...objectsOf(missed), ...objectsOf(memberOf(holes, 'data'))];
  if (gaps.some(({ fromSlot, toSlot }) => Number(fromSlot) <= slot && slot <= Number(toSlot)))
    reasons.push({
      code: 'slot_missed',
      sentence: `The daemon passed over slot ${slot} for this webhook, or has not filled the gap yet: replay the slot.`,
    });
  return reasons;
}

/** Whether an account of the transaction, or an owner of its token accounts, is watched. */
function touches(webhook: unknown, transaction: unknown): boolean {
  const watched = new Set(itemsOf(memberOf(webhook, 'accountAddresses')));
  const meta = memberOf(transaction, 'meta');
  const loaded = memberOf(meta, 'loadedAddresses');
  const accounts = [
    ...itemsOf(memberOf(memberOf(memberOf(transaction, 'transaction'), 'message'), 'accountKeys')),
    ...itemsOf(memberOf(loaded, 'writable')),
    ...itemsOf(memberOf(loaded, 'readonly')),
  ];
  const owners =
    memberOf(webhook, 'matchTokenOwners') === false
      ? []
      : ['preTokenBalances', 'postTokenBalances'].flatMap((name) =>
          objectsOf(memberOf(meta, name)).map(({ owner }) => owner),
        );
  return [...accounts, ...owners].some((address) => watched.has(address));
}

/** Only enhanced and discord webhooks choose by type. */
async function typeNotWanted(calls: Calls, webhook: unknown, signature: string): Promise<Reason | null> {
  const types = itemsOf(memberOf(webhook, 'transactionTypes'));
  const kind = String(memberOf(webhook, 'webhookType'));
  if (!/^(enhanced|discord)/.test(kind) || types.length === 0 || types.includes('ANY')) return null;
  const [effects] = itemsOf(await calls.send('POST', '/v0/transactions', { transactions: [signature] }));
  const type = memberOf(effects, 'type');
  if (type === undefined || types.includes(type)) return null;
  return {
    code: 'type_not_wanted',
    sentence: `The transaction has the type ${String(type)}, which is not in transactionTypes of the webhook.`,
  };
}

function reasonOfOff(webhook: unknown): Reason {
  const why = memberOf(webhook, 'disabledReason');
  return {
    code: 'webhook_off',
    sentence: `The webhook is switched off${typeof why === 'string' ? ` (${why})` : ''}: it sends nothing.`,
  };
}
