import type { NewJob, PluginContext } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { JobState, Outbox, OutboxRow } from '../../../src/ports/outbox.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import {
  chainOf,
  type Delivery,
  type DeliveryPayload,
  type DeliveryStatus,
  deliveryKind,
  REASONS,
  SELF_HELD,
  type Webhook,
} from '../model.ts';
import { batchesOf, endBatches } from '../store/deliveries.ts';
import { sendAgain } from './resend.ts';

interface DeliveryPageQuery {
  readonly status: DeliveryStatus | null;
  /** Only ids below this one. */
  readonly before: number | null;
  readonly limit: number;
}

/** Held deliveries: at most `limit`, oldest first; with `createdBefore` only those created before it. */
interface HeldQuery {
  readonly limit: number;
  /** Unix milliseconds. */
  readonly createdBefore?: number;
}

/** The deliveries of webhooks in the outbox. */
export interface DeliveryQueue {
  /** Adds missing deliveries; returns how many. */
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  /** Drops the unattempted deliveries of a reverted block and frees their keys. */
  forget(tx: StoreTx, chain: ChainId, slot: number): Promise<void>;
  /** Records that the transaction of these deliveries is now in another block; returns the number of deliveries. */
  moveSlot(tx: StoreTx, chain: ChainId, keys: readonly string[], slot: number): Promise<number>;
  /** Discards the waiting deliveries of a webhook, except members of a batch. */
  discardWaiting(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** Ids of the deliveries of a webhook that are in flight. */
  inFlight(tx: StoreTx, webhookId: string): Promise<ReadonlySet<number>>;
  /** Members of batches, by leader: each is sent alone from now on and keeps the attempt count of its batch. */
  releaseMembers(tx: StoreTx, batches: ReadonlyMap<number, readonly number[]>): Promise<void>;
  /** Discards members of batches. */
  discardMembers(tx: StoreTx, ids: readonly number[], reason: string): Promise<void>;
  /** Holds the waiting deliveries of a webhook until they are released. */
  holdWaiting(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** Releases the deliveries of a webhook that are held for this reason; returns how many. */
  releaseHeld(tx: StoreTx, webhookId: string, reason: string): Promise<number>;
  /** Discards the oldest held deliveries of a webhook, except members of a batch; returns how many. */
  discardHeld(tx: StoreTx, webhookId: string, which: HeldQuery, reason: string): Promise<number>;
  /** Unfinished deliveries of a webhook, counted up to `atMost`. */
  countWaiting(tx: StoreTx, chain: ChainId, webhookId: string, atMost: number): Promise<number>;
  /** All stored, undelivered deliveries of a webhook, and the bytes of their elements. */
  stored(webhookId: string, tx?: StoreTx): Promise<{ readonly events: number; readonly bytes: number }>;
  /** Unfinished deliveries of all webhooks. */
  depth(atMost: number): Promise<number>;
  /** Newest first. */
  list(webhookId: string, query: DeliveryPageQuery): Promise<readonly Delivery[]>;
  get(webhookId: string, id: number): Promise<Delivery | null>;
  /** Makes finished deliveries pending again; returns how many. */
  requeueKeys(tx: StoreTx, chain: ChainId, keys: readonly string[]): Promise<number>;
  /** Makes a finished delivery pending again, with new attempts and the other deliveries of its request; false when it is not finished. */
  resend(tx: StoreTx, hook: Webhook, id: number): Promise<boolean>;
}

const STATES: Readonly<Record<DeliveryStatus, readonly JobState[]>> = {
  pending: ['pending', 'running', 'held'],
  delivered: ['done'],
  failed: ['failed'],
  discarded: ['discarded'],
};
const STATUSES: Readonly<Record<JobState, DeliveryStatus>> = {
  pending: 'pending',
  running: 'pending',
  held: 'pending',
  done: 'delivered',
  failed: 'failed',
  discarded: 'discarded',
};
/** Rows changed per statement. */
const BATCH = 10_000;
/** Page limit of the outbox. */
const MAX_PAGE = 1_000;
/** Above the number of deliveries of one webhook that are running or claimed. */
const MAX_RUNNING = 1_000;
const HELD: readonly JobState[] = ['held'];
/** States whose deliveries stay stored until they are sent or too old. */
const UNDELIVERED: readonly JobState[] = ['pending', 'running', 'held', 'failed', 'discarded'];

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

  /** Repeats a bounded change for each kind until no row is left; returns the number of changed rows. */
  const inChunks = async (change: (kind: string, limit: number) => Promise<number>): Promise<number> => {
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
      const which = [{ states: ['pending'] as const }, ...SELF_HELD.map((why) => ({ states: HELD, reason: why }))];
      for (const one of which) {
        await inChunks((kind, limit) => outbox.discard(tx, { ...one, kind, group: webhookId, limit }, reason));
      }
    },
    async inFlight(tx, webhookId) {
      const found = new Set<number>();
      for (const kind of kinds) {
        const page = { limit: MAX_RUNNING, tx };
        const rows = await outbox.list({ kind, group: webhookId, states: ['running'] }, page);
        for (const { id } of rows) found.add(id);
      }
      return found;
    },
    async releaseMembers(tx, batches) {
      const leaders = [...batches.keys()];
      const byAttempts = new Map<number, number[]>();
      for (let from = 0; from < leaders.length; from += MAX_PAGE) {
        const some = leaders.slice(from, from + MAX_PAGE);
        const attempts = new Map<number, number>();
        for (const kind of kinds)
          for (const row of await outbox.list({ kind, ids: some }, { limit: MAX_PAGE, tx }))
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
      await inChunks((kind, limit) => outbox.hold(tx, { kind, group: webhookId, limit }, reason));
    },
    releaseHeld: (tx, webhookId, reason) =>
      inChunks((kind, limit) => outbox.release(tx, { kind, group: webhookId, reason, limit })),
    async discardHeld(tx, webhookId, which, reason) {
      let left = which.limit;
      for (const kind of kinds) {
        for (const why of SELF_HELD) {
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
    error: row.holdReason ?? row.error,
    createdAt: row.createdAt,
    nextAttemptAt: status === 'pending' ? row.runAt : null,
  };
}

/** What happens to waiting deliveries when their webhook changes. */
export interface WaitingDeliveries {
  /** Drops them, except those in flight. */
  drop(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** The webhook is off: drops them, or holds them when it is configured so. */
  becameInactive(tx: StoreTx, hook: Webhook): Promise<void>;
  /** The webhook is on: releases held deliveries, in the order of their blocks. */
  becameActive(tx: StoreTx, hook: Webhook): Promise<void>;
  /** Each delivery is sent alone, unless its batch is in flight. */
  dissolveBatches(tx: StoreTx, webhookId: string): Promise<void>;
}

export function createWaitingDeliveries(queue: DeliveryQueue, maxHeld: number): WaitingDeliveries {
  /** Ends the idle batches of a webhook and returns their members; a batch in flight shares the outcome of its request. */
  const endIdleBatches = async (tx: StoreTx, webhookId: string): Promise<ReadonlyMap<number, readonly number[]>> => {
    const inFlight = await queue.inFlight(tx, webhookId);
    const idle = new Map([...(await batchesOf(tx, webhookId))].filter(([leader]) => !inFlight.has(leader)));
    await endBatches(tx, [...idle.keys()]);
    return idle;
  };
  const drop: WaitingDeliveries['drop'] = async (tx, webhookId, reason) => {
    // Waiting ones first: after this no delivery can start.
    await queue.discardWaiting(tx, webhookId, reason);
    const ended = await endIdleBatches(tx, webhookId);
    await queue.discardMembers(tx, [...ended.values()].flat(), reason);
  };
  const dropExcess = async (tx: StoreTx, chain: ChainId, webhookId: string): Promise<void> => {
    const excess = (await queue.countWaiting(tx, chain, webhookId, Number.MAX_SAFE_INTEGER)) - maxHeld;
    if (excess > 0) await queue.discardHeld(tx, webhookId, { limit: excess }, REASONS.tooManyHeld);
  };
  return {
    drop,
    async becameInactive(tx, hook) {
      if (hook.onInactive === 'drop') return await drop(tx, hook.id, REASONS.disabled);
      await queue.holdWaiting(tx, hook.id, REASONS.inactive);
      await dropExcess(tx, chainOf(hook.type), hook.id);
    },
    async becameActive(tx, { id }) {
      await queue.releaseHeld(tx, id, REASONS.inactive);
    },
    async dissolveBatches(tx, webhookId) {
      await queue.releaseMembers(tx, await endIdleBatches(tx, webhookId));
    },
  };
}
