import { RequestError } from '../../../src/plugin/request.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import type { Outbox, OutboxFilter } from '../../../src/ports/outbox.ts';
import type { Store } from '../../../src/ports/store.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';
import { sendAgain } from './outbox-queue.ts';
import { deliveryKind } from './queue.ts';
import { DELIVERY_PRICE } from './run.ts';

export interface RecoverParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly charges: AccessCharges | null;
}

export interface RecoverRange {
  readonly states: readonly ('done' | 'failed' | 'discarded')[];
  /** Unix milliseconds, of the time at which deliveries were made. */
  readonly sinceMs: number;
  /** Exclusive. */
  readonly untilMs: number;
}

export interface Recovered {
  readonly queued: number;
  /** That match and were beyond the bound of one call. */
  readonly remaining: number;
}

const MAX_ROWS = 10_000;
/** With all that was sent with them no more than the outbox changes at once. */
const BATCH = 100;

/**
 * Makes finished deliveries of a webhook pending again, the oldest first, each for one attempt, behind what is new, with its old webhook-id;
 * what was sent with one of them goes again with it.
 * Errors: 409 when the webhook is off, 429 with too few credits for all of them.
 */
export async function recoverDeliveries(parts: RecoverParts, hook: Webhook, range: RecoverRange): Promise<Recovered> {
  const { store, outbox } = parts;
  if (!hook.active) throw new RequestError(409, 'webhook is inactive');
  const filter: OutboxFilter = {
    kind: deliveryKind(chainOf(hook.type)),
    group: hook.id,
    states: range.states,
    createdFrom: range.sinceMs,
    createdBefore: range.untilMs,
  };
  const matching = await outbox.count(filter);
  await refuseUnpaid(parts.charges, hook.projectId, Math.min(matching, MAX_ROWS));
  let queued = 0;
  let afterId: number | null = 0;
  while (afterId !== null && queued < MAX_ROWS) {
    const from: number = afterId;
    const page = await store.write(async (tx) => {
      const rows = await outbox.list(filter, { afterId: from, limit: BATCH, tx });
      const ids = rows.map(({ id }) => id);
      return { ids, changed: await sendAgain(outbox, tx, { kind: filter.kind, hook, ids, once: true }) };
    });
    queued += page.changed;
    afterId = page.ids.length < BATCH ? null : (page.ids.at(-1) ?? null);
  }
  return { queued, remaining: queued < MAX_ROWS ? 0 : Math.max(0, matching - queued) };
}

/** Throws 429 where a project cannot pay for so many deliveries. */
export async function refuseUnpaid(charges: AccessCharges | null, projectId: string, count: number): Promise<void> {
  if (charges === null || count === 0) return;
  if ((await charges.left(projectId)) >= count * DELIVERY_PRICE.credits) return;
  throw new RequestError(429, 'too few credits for these deliveries', { retryAfterS: 3_600 });
}
