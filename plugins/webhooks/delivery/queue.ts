import type { Job, NewJob, PluginContext } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { JobState, Outbox, OutboxFilter, OutboxRow } from '../../../src/ports/outbox.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import {
  batchLimit,
  chainOf,
  type Delivery,
  type DeliveryPayload,
  type DeliveryStatus,
  deliveryKey,
  deliveryKind,
  REASONS,
  SELF_HELD,
  type Webhook,
} from '../model.ts';
import { batchesOf, endBatches, reopenSent, sentBatches } from '../store/deliveries.ts';

interface DeliveryPageQuery {
  readonly status: DeliveryStatus | null;
  /** Only ids below this one. */
  readonly before: number | null;
  readonly limit: number;
  /** Only the deliveries of this transaction; null: of all. */
  readonly signature: string | null;
}

/** Held deliveries: at most `limit`, oldest first; with `createdBefore` only those created before it. */
interface HeldQuery {
  readonly limit: number;
  /** Unix milliseconds. */
  readonly createdBefore?: number;
}

/** Waiting deliveries of a webhook; without a member: all of them. Times are unix milliseconds of creation. */
export interface HastenQuery {
  readonly ids?: readonly number[];
  readonly sinceMs?: number;
  /** Exclusive. */
  readonly untilMs?: number;
}

/** Finished deliveries of a webhook. */
export interface FinishedRange {
  readonly states: readonly ('done' | 'failed' | 'discarded')[];
  /** Unix milliseconds of creation. */
  readonly sinceMs: number;
  /** Exclusive. */
  readonly untilMs: number;
}

/** The deliveries of webhooks in the outbox: all reads and changes of them pass here. */
export interface DeliveryQueue {
  /** The keys that have a delivery already. */
  existing(tx: StoreTx, chain: ChainId, keys: readonly string[]): Promise<ReadonlySet<string>>;
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
  /** Takes up to `limit` other due first attempts of the webhook for the request of this one; see `Outbox.take`. */
  takeMembers(tx: StoreTx, leader: Job, limit: number): Promise<readonly OutboxRow[]>;
  /** Undoes `takeMembers`. */
  giveBackMembers(tx: StoreTx, leader: Job, ids: readonly number[]): Promise<void>;
  /** Members get the outcome of their request. */
  finishMembers(
    tx: StoreTx,
    leader: Job,
    ids: readonly number[],
    end: { readonly state: 'done' } | { readonly state: 'failed'; readonly error: string },
  ): Promise<void>;
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
  /**
   * Makes finished deliveries pending again, together with the other deliveries of their requests: the id of a request is derived from its
   * whole content, and the receiver recognizes only an identical request. Returns how many became pending. `once`: each request gets a
   * single attempt, after new deliveries.
   */
  resend(tx: StoreTx, hook: Webhook, ids: readonly number[], options?: { readonly once?: boolean }): Promise<number>;
  /** Waiting deliveries of a webhook, or of these ids, are attempted now; returns how many were not due. */
  hasten(tx: StoreTx, hook: Webhook, which: HastenQuery): Promise<number>;
  /** Waiting and held deliveries of each webhook, and when the next attempt is due; a webhook without any is absent. */
  unfinishedOf(
    webhookIds: readonly string[],
  ): Promise<ReadonlyMap<string, { readonly waiting: number; readonly held: number; readonly nextAt: number | null }>>;
  /** Finished deliveries of the kind that the webhook has now. */
  countFinished(hook: Webhook, range: FinishedRange): Promise<number>;
  /** Their ids above `afterId`, oldest first. */
  finished(
    tx: StoreTx,
    hook: Webhook,
    range: FinishedRange,
    page: { readonly afterId: number; readonly limit: number },
  ): Promise<readonly number[]>;
  /** The ids of deliveries that are not finished. */
  unfinished(ids: readonly number[]): Promise<ReadonlySet<number>>;
  /** Deliveries of a webhook that wait or run, and held ones, both counted up to `atMost`. */
  counts(hook: Webhook, atMost: number): Promise<{ readonly waiting: number; readonly held: number }>;
  /** Deletes and returns up to `limit` deliveries that finished before. */
  prune(
    tx: StoreTx,
    chain: ChainId,
    options: {
      readonly state: 'done' | 'failed' | 'discarded';
      readonly finishedBefore: number;
      readonly limit: number;
    },
  ): Promise<readonly { readonly id: number; readonly payload: DeliveryPayload }[]>;
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
class OutboxQueue implements DeliveryQueue {
  private readonly parts: OutboxQueueParts;
  // A webhook whose type moved to another chain has deliveries of both kinds.
  private readonly kinds: string[];

  constructor(parts: OutboxQueueParts) {
    this.parts = parts;
    this.kinds = parts.chains.map(deliveryKind);
  }

  private async rowsOf(find: (kind: string) => Promise<readonly OutboxRow[]>): Promise<readonly Delivery[]> {
    return (await Promise.all(this.kinds.map(find)))
      .flat()
      .sort((a, b) => b.id - a.id)
      .map(toDelivery);
  }

  /** Repeats a bounded change for each kind until no row is left; returns the number of changed rows. */
  private async inChunks(change: (kind: string, limit: number) => Promise<number>): Promise<number> {
    let sum = 0;
    for (const kind of this.kinds) {
      let changed = BATCH;
      while (changed === BATCH) {
        changed = await change(kind, BATCH);
        sum += changed;
      }
    }
    return sum;
  }

  readonly existing: DeliveryQueue['existing'] = (tx, chain, keys) =>
    this.parts.outbox.existing(tx, deliveryKind(chain), keys);

  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number> {
    return this.parts.enqueue(tx, jobs);
  }

  readonly forget: DeliveryQueue['forget'] = async (tx, chain, slot) => {
    await this.parts.outbox.discardUntried(tx, { kind: deliveryKind(chain), fromSlot: slot, toSlot: slot });
  };

  readonly moveSlot: DeliveryQueue['moveSlot'] = (tx, chain, keys, slot) =>
    this.parts.outbox.moveSlot(tx, deliveryKind(chain), keys, slot);

  readonly discardWaiting: DeliveryQueue['discardWaiting'] = async (tx, webhookId, reason) => {
    const which = [{ states: ['pending'] as const }, ...SELF_HELD.map((why) => ({ states: HELD, reason: why }))];
    for (const one of which) {
      await this.inChunks((kind, limit) =>
        this.parts.outbox.discard(tx, { ...one, kind, group: webhookId, limit }, reason),
      );
    }
  };

  readonly inFlight: DeliveryQueue['inFlight'] = async (tx, webhookId) => {
    const found = new Set<number>();
    for (const kind of this.kinds) {
      const page = { limit: MAX_RUNNING, tx };
      const rows = await this.parts.outbox.list({ kind, group: webhookId, states: ['running'] }, page);
      for (const { id } of rows) found.add(id);
    }
    return found;
  };

  readonly takeMembers: DeliveryQueue['takeMembers'] = (tx, { kind, group }, limit) =>
    this.parts.outbox.take(tx, { kind, group, limit }, REASONS.batch);

  readonly giveBackMembers: DeliveryQueue['giveBackMembers'] = (tx, { kind }, ids) =>
    this.parts.outbox.giveBack(tx, { kind, ids }, REASONS.batch);

  readonly finishMembers: DeliveryQueue['finishMembers'] = async (tx, { kind }, ids, end) => {
    await this.parts.outbox.finish(tx, { kind, ids, reason: REASONS.batch }, end);
  };

  readonly releaseMembers: DeliveryQueue['releaseMembers'] = async (tx, batches) => {
    const leaders = [...batches.keys()];
    const byAttempts = new Map<number, number[]>();
    for (let from = 0; from < leaders.length; from += MAX_PAGE) {
      const some = leaders.slice(from, from + MAX_PAGE);
      const attempts = new Map<number, number>();
      for (const kind of this.kinds)
        for (const row of await this.parts.outbox.list({ kind, ids: some }, { limit: MAX_PAGE, tx }))
          attempts.set(row.id, row.attempts);
      for (const leader of some) {
        const count = attempts.get(leader) ?? 0;
        byAttempts.set(count, [...(byAttempts.get(count) ?? []), ...(batches.get(leader) ?? [])]);
      }
    }
    for (const [attempts, ids] of byAttempts)
      for (const kind of this.kinds)
        await this.parts.outbox.release(tx, { kind, ids, reason: REASONS.batch }, { attempts });
  };

  readonly discardMembers: DeliveryQueue['discardMembers'] = async (tx, ids, reason) => {
    for (const kind of this.kinds)
      await this.parts.outbox.discard(tx, { kind, ids, states: HELD, reason: REASONS.batch }, reason);
  };

  readonly holdWaiting: DeliveryQueue['holdWaiting'] = async (tx, webhookId, reason) => {
    await this.inChunks((kind, limit) => this.parts.outbox.hold(tx, { kind, group: webhookId, limit }, reason));
  };

  readonly releaseHeld: DeliveryQueue['releaseHeld'] = (tx, webhookId, reason) =>
    this.inChunks((kind, limit) => this.parts.outbox.release(tx, { kind, group: webhookId, reason, limit }));

  readonly discardHeld: DeliveryQueue['discardHeld'] = async (tx, webhookId, which, reason) => {
    let left = which.limit;
    for (const kind of this.kinds) {
      for (const why of SELF_HELD) {
        if (left <= 0) break;
        const change = { ...which, kind, group: webhookId, states: HELD, reason: why, limit: left };
        left -= await this.parts.outbox.discard(tx, change, reason);
      }
    }
    return which.limit - left;
  };

  readonly countWaiting: DeliveryQueue['countWaiting'] = (tx, chain, webhookId, atMost) =>
    this.parts.outbox.count({ kind: deliveryKind(chain), group: webhookId, states: STATES.pending }, { atMost, tx });

  readonly stored: DeliveryQueue['stored'] = async (webhookId, tx) => {
    const all = { events: 0, bytes: 0 };
    for (const kind of this.kinds) {
      const { rows, sum } = await this.parts.outbox.total({ kind, group: webhookId, states: UNDELIVERED }, 'bytes', {
        ...(tx && { tx }),
      });
      all.events += rows;
      all.bytes += sum;
    }
    return all;
  };

  readonly depth: DeliveryQueue['depth'] = async (atMost) => {
    const counts = await Promise.all(
      this.kinds.map((kind) => this.parts.outbox.count({ kind, states: STATES.pending }, { atMost })),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };

  readonly list: DeliveryQueue['list'] = async (webhookId, { status, before, limit, signature }) => {
    const filter = {
      group: webhookId,
      ...(status === null ? {} : { states: STATES[status] }),
      ...(signature === null ? {} : { keys: [deliveryKey(webhookId, signature)] }),
    };
    const page = { limit, ...(before === null ? {} : { beforeId: before }) };
    return (await this.rowsOf((kind) => this.parts.outbox.list({ kind, ...filter }, page))).slice(0, limit);
  };

  readonly get: DeliveryQueue['get'] = async (webhookId, id) => {
    const found = await this.rowsOf((kind) =>
      this.parts.outbox.list({ kind, group: webhookId, ids: [id] }, { limit: 1 }),
    );
    return found[0] ?? null;
  };

  readonly requeueKeys: DeliveryQueue['requeueKeys'] = async (tx, chain, keys) => {
    let sum = 0;
    for (let from = 0; from < keys.length; from += BATCH) {
      const batch = keys.slice(from, from + BATCH);
      sum += await this.parts.outbox.requeue(tx, { kind: deliveryKind(chain), keys: batch, limit: BATCH });
    }
    return sum;
  };

  readonly resend: DeliveryQueue['resend'] = async (tx, hook, ids, { once = false } = {}) => {
    let sum = 0;
    for (const kind of this.kinds) sum += await resendOf(this.parts.outbox, tx, { kind, hook, ids, once });
    return sum;
  };

  readonly hasten: DeliveryQueue['hasten'] = (tx, { id }, { ids, sinceMs, untilMs }) =>
    this.inChunks((kind, limit) =>
      this.parts.outbox.hasten(tx, {
        kind,
        group: id,
        limit,
        ...(ids && { ids }),
        ...(sinceMs === undefined ? {} : { createdFrom: sinceMs }),
        ...(untilMs === undefined ? {} : { createdBefore: untilMs }),
      }),
    );

  readonly unfinishedOf: DeliveryQueue['unfinishedOf'] = async (webhookIds) => {
    const [first = new Map(), ...others] = await Promise.all(
      this.kinds.map((kind) => this.parts.outbox.unfinished(kind, webhookIds)),
    );
    const all = new Map(first);
    for (const [id, { waiting, held, nextAt }] of others.flatMap((more) => [...more])) {
      const known = all.get(id) ?? { waiting: 0, held: 0, nextAt: null };
      const times = [known.nextAt, nextAt].filter((time) => time !== null);
      all.set(id, {
        waiting: known.waiting + waiting,
        held: known.held + held,
        nextAt: times.length === 0 ? null : Math.min(...times),
      });
    }
    return all;
  };

  readonly countFinished: DeliveryQueue['countFinished'] = (hook, range) =>
    this.parts.outbox.count(finishedOf(hook, range));

  readonly finished: DeliveryQueue['finished'] = async (tx, hook, range, page) => {
    return (await this.parts.outbox.list(finishedOf(hook, range), { ...page, tx })).map(({ id }) => id);
  };

  readonly unfinished: DeliveryQueue['unfinished'] = async (ids) => {
    const found = new Set<number>();
    for (const kind of this.kinds) {
      for (const { id } of await this.parts.outbox.list({ kind, ids, states: STATES.pending }, { limit: MAX_PAGE }))
        found.add(id);
    }
    return found;
  };

  readonly counts: DeliveryQueue['counts'] = async ({ id, type }, atMost) => {
    const which = { kind: deliveryKind(chainOf(type)), group: id };
    return {
      waiting: await this.parts.outbox.count({ ...which, states: ['pending', 'running'] }, { atMost }),
      held: await this.parts.outbox.count({ ...which, states: HELD }, { atMost }),
    };
  };

  readonly prune: DeliveryQueue['prune'] = async (tx, chain, options) => {
    const rows = await this.parts.outbox.prune(tx, { kind: deliveryKind(chain), ...options });
    return rows.map(({ id, payload }) => ({ id, payload: payload as DeliveryPayload }));
  };
}

export const createOutboxQueue = (parts: OutboxQueueParts): DeliveryQueue => new OutboxQueue(parts);

const finishedOf = (hook: Webhook, { states, sinceMs, untilMs }: FinishedRange): OutboxFilter => ({
  kind: deliveryKind(chainOf(hook.type)),
  group: hook.id,
  states,
  createdFrom: sinceMs,
  createdBefore: untilMs,
});

interface Resend {
  readonly kind: string;
  readonly hook: Webhook;
  readonly ids: readonly number[];
  readonly once: boolean;
}

async function resendOf(outbox: Outbox, tx: StoreTx, { kind, hook, ids, once }: Resend): Promise<number> {
  const changed = await outbox.requeue(tx, { kind, ids }, { once });
  if (changed === 0) return 0;
  const limit = batchLimit(hook);
  const fitting = [...(await sentBatches(tx, ids))].filter(([, members]) => Math.max(1, members.length) < limit);
  const leaders = fitting.map(([leader]) => leader);
  const more = await outbox.requeue(tx, { kind, ids: fitting.flat(2) }, { once });
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

/** `hold.maxRows`: events kept for a webhook that is off. */
export function createWaitingDeliveries(queue: DeliveryQueue, hold: { readonly maxRows: number }): WaitingDeliveries {
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
    const excess = (await queue.countWaiting(tx, chain, webhookId, Number.MAX_SAFE_INTEGER)) - hold.maxRows;
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
