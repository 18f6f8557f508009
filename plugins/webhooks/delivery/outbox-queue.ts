import type { NewJob, PluginContext } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Outbox, OutboxRow, OutboxState } from '../../../src/ports/outbox.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { reopenSent, sentBatches } from '../store/batches.ts';
import { batchLimit, HELD_ALONE, REASONS } from './batch.ts';
import { type Delivery, type DeliveryPayload, type DeliveryQueue, type DeliveryStatus, deliveryKind } from './queue.ts';

const STATES: Readonly<Record<DeliveryStatus, readonly OutboxState[]>> = {
  pending: ['pending', 'running', 'held'],
  delivered: ['done'],
  failed: ['failed'],
  discarded: ['discarded'],
};
const STATUSES: Readonly<Record<OutboxState, DeliveryStatus>> = {
  pending: 'pending',
  running: 'pending',
  held: 'pending',
  done: 'delivered',
  failed: 'failed',
  discarded: 'discarded',
};
/** Rows that one statement changes. */
const BATCH = 10_000;
/** Of the outbox. */
const LONGEST_PAGE = 1_000;
/** More than run of one webhook at once, or are claimed for it. */
const MOST_RUNNING = 1_000;
const HELD: readonly OutboxState[] = ['held'];
/** What stays stored until it is sent or too old. */
const UNDELIVERED: readonly OutboxState[] = ['pending', 'running', 'held', 'failed', 'discarded'];

interface OutboxQueueParts {
  readonly outbox: Outbox;
  readonly enqueue: PluginContext['jobs']['add'];
  readonly chains: readonly ChainId[];
}

/** The deliveries of webhooks as rows of the outbox. */
export function createOutboxQueue({ outbox, enqueue, chains }: OutboxQueueParts): DeliveryQueue {
  // A webhook whose type moved to another chain has deliveries of both kinds.
  const kinds = chains.map(deliveryKind);

  const rowsOf = async (find: (kind: string) => Promise<readonly OutboxRow[]>): Promise<readonly Delivery[]> =>
    (await Promise.all(kinds.map(find)))
      .flat()
      .sort((a, b) => b.id - a.id)
      .map(toDelivery);

  /** A change of all kinds, one statement after the other until nothing is left; returns how many rows it changed. */
  const whole = async (change: (kind: string, limit: number) => Promise<number>): Promise<number> => {
    let sum = 0;
    for (const kind of kinds) {
      let changed = BATCH;
      while (changed === BATCH) {
        changed = await change(kind, BATCH);
        sum += changed;
      }
    }
    return sum;
  };

  return {
    enqueue: (tx: StoreTx, jobs: readonly NewJob[]) => enqueue(tx, jobs),
    forget: async (tx, chain, slot) => {
      await outbox.discardUntried(tx, { kind: deliveryKind(chain), fromSlot: slot, toSlot: slot });
    },
    moveSlot: (tx, chain, keys, slot) => outbox.moveSlot(tx, deliveryKind(chain), keys, slot),
    async discardWaiting(tx, webhookId, reason) {
      const which = [{ states: ['pending'] as const }, ...HELD_ALONE.map((why) => ({ states: HELD, reason: why }))];
      for (const one of which) {
        await whole((kind, limit) => outbox.discard(tx, { ...one, kind, group: webhookId, limit }, reason));
      }
    },
    async underWay(tx, webhookId) {
      const found = new Set<number>();
      for (const kind of kinds) {
        const page = { limit: MOST_RUNNING, tx };
        const rows = await outbox.list({ kind, group: webhookId, states: ['running'] }, page);
        for (const { id } of rows) found.add(id);
      }
      return found;
    },
    async releaseMembers(tx, batches) {
      const leaders = [...batches.keys()];
      const byAttempts = new Map<number, number[]>();
      for (let from = 0; from < leaders.length; from += LONGEST_PAGE) {
        const some = leaders.slice(from, from + LONGEST_PAGE);
        const attempts = new Map<number, number>();
        for (const kind of kinds)
          for (const row of await outbox.list({ kind, ids: some }, { limit: LONGEST_PAGE, tx }))
            attempts.set(row.id, row.attempts);
        for (const leader of some) {
          const count = attempts.get(leader) ?? 0;
          byAttempts.set(count, [...(byAttempts.get(count) ?? []), ...(batches.get(leader) ?? [])]);
        }
      }
      for (const [attempts, ids] of byAttempts)
        for (const kind of kinds) await outbox.release(tx, { kind, ids, reason: REASONS.batch }, { attempts });
    },
    async discardMembers(tx, ids, reason) {
      for (const kind of kinds) await outbox.discard(tx, { kind, ids, states: HELD, reason: REASONS.batch }, reason);
    },
    async holdWaiting(tx, webhookId, reason) {
      await whole((kind, limit) => outbox.hold(tx, { kind, group: webhookId, limit }, reason));
    },
    releaseHeld: (tx, webhookId, reason) =>
      whole((kind, limit) => outbox.release(tx, { kind, group: webhookId, reason, limit })),
    async discardHeld(tx, webhookId, which, reason) {
      let left = which.limit;
      for (const kind of kinds) {
        for (const why of HELD_ALONE) {
          if (left <= 0) break;
          const change = { ...which, kind, group: webhookId, states: HELD, reason: why, limit: left };
          left -= await outbox.discard(tx, change, reason);
        }
      }
      return which.limit - left;
    },
    countWaiting: (tx, chain, webhookId, atMost) =>
      outbox.count({ kind: deliveryKind(chain), group: webhookId, states: STATES.pending }, { atMost, tx }),
    async stored(webhookId, tx) {
      const all = { events: 0, bytes: 0 };
      for (const kind of kinds) {
        const { rows, sum } = await outbox.total({ kind, group: webhookId, states: UNDELIVERED }, 'bytes', {
          ...(tx && { tx }),
        });
        all.events += rows;
        all.bytes += sum;
      }
      return all;
    },
    async depth(atMost) {
      const counts = await Promise.all(kinds.map((kind) => outbox.count({ kind, states: STATES.pending }, { atMost })));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    async list(webhookId, { status, before, limit }) {
      const filter = { group: webhookId, ...(status === null ? {} : { states: STATES[status] }) };
      const page = { limit, ...(before === null ? {} : { beforeId: before }) };
      return (await rowsOf((kind) => outbox.list({ kind, ...filter }, page))).slice(0, limit);
    },
    async get(webhookId, id) {
      const found = await rowsOf((kind) => outbox.list({ kind, group: webhookId, ids: [id] }, { limit: 1 }));
      return found[0] ?? null;
    },
    async requeueKeys(tx, chain, keys) {
      let sum = 0;
      for (let from = 0; from < keys.length; from += BATCH) {
        const batch = keys.slice(from, from + BATCH);
        sum += await outbox.requeue(tx, { kind: deliveryKind(chain), keys: batch, limit: BATCH });
      }
      return sum;
    },
    async resend(tx, hook, id) {
      for (const kind of kinds) if ((await sendAgain(outbox, tx, { kind, hook, ids: [id] })) > 0) return true;
      return false;
    },
  };
}

function toDelivery(row: OutboxRow): Delivery {
  const status = STATUSES[row.state];
  return {
    id: row.id,
    webhookId: row.group,
    status,
    payload: row.payload as DeliveryPayload,
    error: row.error,
    createdAt: row.createdAt,
    nextAttemptAt: status === 'pending' ? row.runAt : null,
  };
}

/** Finished deliveries of one webhook. */
interface SendAgain {
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
