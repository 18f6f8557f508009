import { RequestError } from '../../../src/plugin/request.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import type { Store } from '../../../src/ports/store.ts';
import { type Delivery, RESEND_STATUSES, SELF_HELD, type Webhook } from '../model.ts';
import { batchOfDelivery } from '../store/deliveries.ts';
import type { WebhookDb } from '../store/tables.ts';
import { DELIVERY_PRICE } from './attempt.ts';
import type { DeliveryQueue, FinishedRange } from './queue.ts';

export interface RecoverParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly charges: AccessCharges | null;
}

export interface Recovered {
  readonly queued: number;
  /** Matching deliveries beyond the limit of one call. */
  readonly remaining: number;
}

/** Which deliveries of a webhook are sent again or at once. */
export interface ResendRange {
  /** Empty: only waiting ones. */
  readonly states: FinishedRange['states'];
  readonly waiting: boolean;
  readonly sinceMs: number;
  readonly untilMs: number;
}

const CHOICES: Readonly<Record<(typeof RESEND_STATUSES)[number], Pick<ResendRange, 'states' | 'waiting'>>> = {
  undelivered: { states: ['failed', 'discarded'], waiting: true },
  pending: { states: [], waiting: true },
  failed: { states: ['failed'], waiting: false },
  discarded: { states: ['discarded'], waiting: false },
  all: { states: ['done', 'failed', 'discarded'], waiting: true },
};

/** Errors: 400. */
export function resendChoice(status: unknown): Pick<ResendRange, 'states' | 'waiting'> {
  const known = RESEND_STATUSES.find((one) => one === (status ?? 'undelivered'));
  if (known === undefined) throw new RequestError(400, `status: must be one of ${RESEND_STATUSES.join(', ')}`);
  return CHOICES[known];
}

/**
 * Sends one delivery, with its whole request: a waiting one now, a finished one again. Errors: 409 when the webhook is off, while the
 * delivery waits for something else than time, and when its block was rolled back; 429 with too few credits.
 */
export async function resendDelivery(
  parts: RecoverParts,
  hook: Webhook,
  { id, status, error }: Delivery,
): Promise<void> {
  const { store, queue, charges } = parts;
  if (!hook.active) throw new RequestError(409, 'webhook is inactive');
  if (status === 'pending') {
    if (SELF_HELD.some((reason) => reason === error)) throw new RequestError(409, `the delivery is held: ${error}`);
    const batch = await batchOfDelivery(store.read as WebhookDb, id);
    await store.write((tx) => queue.hasten(tx, hook, { ids: [batch?.leaderId ?? id] }));
    return;
  }
  await refuseUnpaid(charges, hook.projectId, 1);
  const queued = await store.write((tx) => queue.resend(tx, hook, [id]));
  if (queued === 0) throw new RequestError(409, 'the block of this delivery was rolled back, or it is pending again');
}

/** Sends waiting deliveries now and finished ones again. Errors: as of `recoverDeliveries`. */
export async function resendDeliveries(
  parts: RecoverParts,
  hook: Webhook,
  { states, waiting, sinceMs, untilMs }: ResendRange,
): Promise<Recovered> {
  if (!hook.active) throw new RequestError(409, 'webhook is inactive');
  const hastened = waiting ? await parts.store.write((tx) => parts.queue.hasten(tx, hook, { sinceMs, untilMs })) : 0;
  if (states.length === 0) return { queued: hastened, remaining: 0 };
  const { queued, remaining } = await recoverDeliveries(parts, hook, { states, sinceMs, untilMs });
  return { queued: hastened + queued, remaining };
}

const MAX_ROWS = 10_000;
/** Deliveries per transaction; with the other members of their batches this stays within what the outbox changes at once. */
const BATCH = 100;

/**
 * Makes finished deliveries of a webhook pending again, oldest first, each for one attempt, after new deliveries, with the same webhook-id;
 * the other deliveries of the same request are sent again too.
 * Errors: 409 when the webhook is off, 429 with too few credits for all of them.
 */
export async function recoverDeliveries(parts: RecoverParts, hook: Webhook, range: FinishedRange): Promise<Recovered> {
  const { store, queue } = parts;
  if (!hook.active) throw new RequestError(409, 'webhook is inactive');
  const matching = await queue.countFinished(hook, range);
  await refuseUnpaid(parts.charges, hook.projectId, Math.min(matching, MAX_ROWS));
  let queued = 0;
  let afterId: number | null = 0;
  while (afterId !== null && queued < MAX_ROWS) {
    const from: number = afterId;
    const page = await store.write(async (tx) => {
      const ids = await queue.finished(tx, hook, range, { afterId: from, limit: BATCH });
      return { ids, changed: await queue.resend(tx, hook, ids, { once: true }) };
    });
    queued += page.changed;
    afterId = page.ids.length < BATCH ? null : (page.ids.at(-1) ?? null);
  }
  return { queued, remaining: queued < MAX_ROWS ? 0 : Math.max(0, matching - queued) };
}

/** Throws 429 when a project has too few credits for this number of deliveries. */
async function refuseUnpaid(charges: AccessCharges | null, projectId: string, count: number): Promise<void> {
  if (charges === null || count === 0) return;
  if ((await charges.left(projectId)) >= count * DELIVERY_PRICE.credits) return;
  throw new RequestError(429, 'too few credits for these deliveries', { retryAfterS: 3_600 });
}
