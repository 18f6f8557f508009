import type { Outbox } from '../../../src/ports/outbox.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { reopenSent, sentBatches } from '../store/batches.ts';
import { batchLimit } from './batch.ts';
import { REASONS } from './reasons.ts';

/** Finished deliveries of one webhook. */
export interface SendAgain {
  readonly kind: string;
  readonly hook: Webhook;
  readonly ids: readonly number[];
  /** Each request gets a single attempt, behind what is new. */
  readonly once?: boolean;
}

/**
 * Makes finished deliveries pending again, and with them all that went in the same requests: the id of a request is made of everything
 * in it, and only the same request is one that its receiver knows. Returns how many became pending.
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
  for (let at = 0; at < leaders.length; at += LONGEST_PAGE) {
    const some = leaders.slice(at, at + LONGEST_PAGE);
    const rows = await outbox.list({ kind, ids: some, states: ['pending'] }, { limit: LONGEST_PAGE, tx });
    for (const { id } of rows) ready.add(id);
  }
  // One whose leader belongs to no block any more, or is under way alone, is not sent as it was.
  const whole = fitting.filter(([leader]) => ready.has(leader));
  await reopenSent(
    tx,
    whole.map(([leader]) => leader),
  );
  await outbox.hold(tx, { kind, ids: whole.flatMap(([, members]) => members) }, REASONS.batch);
  return changed + more;
}

/** Of the outbox. */
const LONGEST_PAGE = 1_000;
