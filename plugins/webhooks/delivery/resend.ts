import { RequestError } from '../../../src/plugin/request.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import type { Outbox, OutboxFilter } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { chainOf, deliveryKind, REASONS, type Webhook } from '../model.ts';
import { reopenSent, sentBatches } from '../store/deliveries.ts';
import { batchLimit, DELIVERY_PRICE } from './attempt.ts';

/** Finished deliveries of one webhook. */
export interface SendAgain {
  readonly kind: string;
  readonly hook: Webhook;
  readonly ids: readonly number[];
  /** Each request gets a single attempt, after new deliveries. */
  readonly once?: boolean;
}

/**
 * Makes finished deliveries pending again, together with the other deliveries of their requests: the id of a request is derived from its
 * whole content, and the receiver recognizes only an identical request. Returns how many became pending.
 */
export async function sendAgain(
  outbox: Outbox,
  tx: StoreTx,
  { kind, hook, ids, once = false }: SendAgain,
): Promise<number> {
  const changed = await outbox.requeue(tx, { kind, ids }, { once });
  if (changed === 0) return 0;
  const limit = batchLimit(hook);
  const fitting = [...(await sentBatches(tx, ids))].filter(([, members]) => Math.max(1, members.length) < limit);
  const leaders = fitting.map(([leader]) => leader);
  const all = fitting.flat(2);
  const more = await outbox.requeue(tx, { kind, ids: all }, { once });
  const ready = new Set<number>();
  for (let at = 0; at < leaders.length; at += MAX_PAGE) {
    const some = leaders.slice(at, at + MAX_PAGE);
    const rows = await outbox.list({ kind, ids: some, states: ['pending'] }, { limit: MAX_PAGE, tx });
    for (const { id } of rows) ready.add(id);
  }
  // A batch whose leader was reverted, or is in flight alone, cannot be sent unchanged.
  const whole = fitting.filter(([leader]) => ready.has(leader));
  await reopenSent(
    tx,
    whole.map(([leader]) => leader),
  );
  await outbox.hold(tx, { kind, ids: whole.flatMap(([, members]) => members) }, REASONS.batch);
  return changed + more;
}

export interface RecoverParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly charges: AccessCharges | null;
}

export interface RecoverRange {
  readonly states: readonly ('done' | 'failed' | 'discarded')[];
  /** Unix milliseconds of creation. */
  readonly sinceMs: number;
  /** Exclusive. */
  readonly untilMs: number;
}

export interface Recovered {
  readonly queued: number;
  /** Matching deliveries beyond the limit of one call. */
  readonly remaining: number;
}

/** Page limit of the outbox. */
const MAX_PAGE = 1_000;
const MAX_ROWS = 10_000;
/** With the other deliveries of their requests, no more than the outbox changes at once. */
const BATCH = 100;

/**
 * Makes finished deliveries of a webhook pending again, oldest first, each for one attempt, after new deliveries, with the same webhook-id;
 * the other deliveries of the same request are sent again too.
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

/** Throws 429 when a project has too few credits for this number of deliveries. */
export async function refuseUnpaid(charges: AccessCharges | null, projectId: string, count: number): Promise<void> {
  if (charges === null || count === 0) return;
  if ((await charges.left(projectId)) >= count * DELIVERY_PRICE.credits) return;
  throw new RequestError(429, 'too few credits for these deliveries', { retryAfterS: 3_600 });
}
