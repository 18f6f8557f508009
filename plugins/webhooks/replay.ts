import { slotsIn } from '../../src/lib/slot-length.ts';
import type { BlockProcessor } from '../../src/plugin/plugin.ts';
import { RequestError } from '../../src/plugin/request.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { GapRecords } from '../../src/ports/following.ts';
import type { Queries, Store, StoreTx } from '../../src/ports/store.ts';
import { matchBlock } from '../../src/solana/address-set.ts';
import type { BodyBuilder } from './bodies.ts';
import type { HookSync } from './hook-index.ts';
import { type ManageContext, webhookNotFound, writeHook } from './manage.ts';
import { matchedEvents, type ParsedMatcher, type QueueEventsParts, queueEvents } from './match.ts';
import { chainOf, deliveryKey, REPLAYED_HOURS, type Webhook } from './model.ts';
import { findHook } from './store/hooks.ts';
import { forgetMissed } from './store/missed.ts';
import type { WebhookDb } from './store/tables.ts';

/** Slots to read again for one webhook. */
export interface ReplayRange {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly force: boolean;
}

/** Replays past blocks for one webhook, while the follower continues. */
export interface HookReplays {
  /**
   * Errors: 400 for more slots than `REPLAYED_HOURS` have; 404; 409 when the webhook is off or has a replay in flight; 429 when the
   * project has reached its number of replays.
   */
  begin(context: ManageContext, projectId: string, webhookId: string, range: ReplayRange): Promise<Replay>;
  /** Marks replays whose blocks have all been read as finished. */
  finish(): Promise<void>;
}

/** The processor that gets the blocks of replays, separate from the one that follows, whose blocks are for all webhooks. */
const REPLAY_PROCESSOR = { name: 'webhooks-replay', version: 1 } as const;

const MAX_GAPS = 1_000;
/** A replay whose blocks no upstream has stays open: after this time another one may start. */
const STUCK_MS = 3_600_000;

interface ReplaysParts {
  readonly gapRecords: GapRecords;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** Measured slot length; null until it is known. */
  slotMs(chain: ChainId): Promise<number | null>;
}

export function createReplays({ gapRecords, store, clock, random, slotMs }: ReplaysParts): HookReplays {
  async function checkLength(hook: Webhook | null, { fromSlot, toSlot }: ReplayRange): Promise<void> {
    if (hook === null) throw webhookNotFound();
    const most = slotsIn(REPLAYED_HOURS * 3_600_000, await slotMs(chainOf(hook.type)));
    if (toSlot - fromSlot >= most)
      throw new RequestError(400, `at most ${most} slots at once, ${REPLAYED_HOURS} hours of the chain`);
  }

  return {
    async begin(context, projectId, webhookId, range) {
      await checkLength(await findHook(store.read as WebhookDb, projectId, webhookId), range);
      return await writeHook(context, projectId, webhookId, async ({ tx, hook, now, record }) => {
        await record();
        if (!hook.active) throw new RequestError(409, 'webhook is inactive');
        const open = await openReplays(tx.db, { number: hook.number });
        if (open.some(({ createdAt }) => now - createdAt < STUCK_MS))
          throw new RequestError(409, 'a replay of this webhook is running');
        await refuseTooMany(context, tx, projectId, now);
        if (open.length > 0)
          await finishReplays(
            tx,
            open.map(({ id }) => id),
            now,
          );
        const chain = chainOf(hook.type);
        const { fromSlot, toSlot } = range;
        const fill = { chain, processor: REPLAY_PROCESSOR, fromSlot, toSlot, addresses: null };
        const gapId = await gapRecords.request(tx, fill);
        const replay = { ...range, id: random.uuid(), number: hook.number, chain, gapId, queued: 0, createdAt: now };
        await insertReplay(tx, replay);
        return replay;
      });
    },
    async finish() {
      const open = await openReplays(store.read);
      if (open.length === 0) return;
      const { name } = REPLAY_PROCESSOR;
      const gaps = await gapRecords.list({ processor: name, isOpen: true, limit: MAX_GAPS });
      const running = new Set(gaps.map(({ id }) => id));
      const over = open.filter(({ gapId }) => !running.has(gapId));
      if (over.length === 0) return;
      const filled = await gapRecords.list({ processor: name, limit: MAX_GAPS });
      const read = new Set(filled.filter(({ status }) => status === 'filled').map(({ id }) => id));
      await store.write(async (tx) => {
        // Missed events have been replayed, except those without room again.
        for (const replay of over)
          if (read.has(replay.gapId)) await forgetMissed(tx, { ...replay, before: replay.createdAt });
        const ids = over.map(({ id }) => id);
        await finishReplays(tx, ids, clock.now());
      });
    },
  };
}

/** Replays of a project share the calls that the follower leaves. */
async function refuseTooMany(
  { plans, budgets }: ManageContext,
  tx: StoreTx,
  projectId: string,
  now: number,
): Promise<void> {
  const most = (await plans?.budgets(tx.db, projectId))?.replays ?? null;
  if (most === null || (await countReplays(tx.db, projectId, now)) < most) return;
  budgets?.refused('replays', projectId);
  throw new RequestError(429, `at most ${most} replays of a project run at once`, { retryAfterS: 60 });
}

interface ReplayProcessorParts extends QueueEventsParts {
  readonly sync: HookSync;
  readonly chains: readonly ChainId[];
  readonly bodies: BodyBuilder;
  readonly store: Store;
  /** Null: transactions cannot be parsed. */
  readonly parsed: ParsedMatcher | null;
}

/** Matches blocks again only for the webhooks that requested them. Other blocks cost one look-up. */
export function createReplayProcessor(parts: ReplayProcessorParts): BlockProcessor {
  const { queue, store, parsed: matcher } = parts;
  return {
    ...REPLAY_PROCESSOR,
    chains: parts.chains,
    outOfOrder: true,
    // It gets only requested ranges.
    wantsGaps: false,
    ...(matcher !== null && {
      async prepare(block: ChainBlock, chain: ChainId) {
        if (chain !== 'main') return;
        const replays = await openReplays(store.read, { chain, slot: block.slot });
        if (replays.length > 0) await matcher.prepare(block, { isLive: false });
      },
    }),
    async apply(tx, block, chain) {
      const replays = await openReplays(tx.db, { chain, slot: block.slot });
      if (replays.length === 0) return;
      const index = await parts.sync.current(tx);
      const found = matchBlock(block, index.addresses(chain), { owners: true });
      const parsed = chain === 'main' ? (matcher?.of(block).events ?? []) : [];
      const all = matchedEvents(block, chain, index, { found, parsed }, parts.bodies);
      for (const { id, number, force } of replays) {
        const events = all
          .map((event) => ({ ...event, hooks: event.hooks.filter((hook) => hook.number === number) }))
          .filter(({ hooks }) => hooks.length > 0);
        if (events.length === 0) continue;
        let queued = 0;
        if (force) {
          const keys = events.flatMap(({ hooks, signature }) => hooks.map((hook) => deliveryKey(hook.id, signature)));
          queued += await queue.requeueKeys(tx, chain, keys);
        }
        queued += await queueEvents(parts, tx, chain, block.slot, events);
        if (queued > 0) await addQueued(tx, id, queued);
      }
    },
    // Its deliveries belong to final blocks, or to the main processor of webhooks.
    revert: async () => {},
  };
}

/** A requested replay. */
interface Replay {
  readonly id: string;
  /** Number of the webhook. */
  readonly number: number;
  readonly chain: ChainId;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** Whether existing deliveries are sent again. */
  readonly force: boolean;
  /** Id of the gap record. */
  readonly gapId: number;
  /** Deliveries created so far. */
  readonly queued: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

async function insertReplay(tx: StoreTx, replay: Replay): Promise<void> {
  await (tx.db as WebhookDb)
    .insertInto('webhook_replays')
    .values({
      id: replay.id,
      number: replay.number,
      chain: replay.chain,
      from_slot: replay.fromSlot,
      to_slot: replay.toSlot,
      force: replay.force ? 1 : 0,
      gap_id: replay.gapId,
      queued: replay.queued,
      created_at: replay.createdAt,
      finished_at: null,
    })
    .execute();
}

/** Unfinished replays: all, of one webhook, or those that need a slot. */
async function openReplays(
  db: Queries,
  which: { readonly number?: number; readonly chain?: ChainId; readonly slot?: number } = {},
): Promise<readonly Replay[]> {
  let query = (db as WebhookDb).selectFrom('webhook_replays').selectAll().where('finished_at', 'is', null);
  if (which.number !== undefined) query = query.where('number', '=', which.number);
  if (which.chain !== undefined) query = query.where('chain', '=', which.chain);
  if (which.slot !== undefined) query = query.where('from_slot', '<=', which.slot).where('to_slot', '>=', which.slot);
  return (await query.execute()).map((row) => ({
    id: row.id,
    number: row.number,
    chain: row.chain as ChainId,
    fromSlot: row.from_slot,
    toSlot: row.to_slot,
    force: row.force === 1,
    gapId: row.gap_id,
    queued: row.queued,
    createdAt: row.created_at,
  }));
}

/** Replays of a project in flight, except stuck ones; `now` in unix milliseconds. */
export async function countReplays(db: Queries, projectId: string, now: number): Promise<number> {
  const row = await (db as WebhookDb)
    .selectFrom('webhook_replays')
    .innerJoin('webhooks', 'webhooks.number', 'webhook_replays.number')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .where('finished_at', 'is', null)
    .where('webhook_replays.created_at', '>', now - STUCK_MS)
    .executeTakeFirstOrThrow();
  return Number(row.count);
}

async function addQueued(tx: StoreTx, id: string, count: number): Promise<void> {
  await (tx.db as WebhookDb)
    .updateTable('webhook_replays')
    .set((eb) => ({ queued: eb('queued', '+', count) }))
    .where('id', '=', id)
    .execute();
}

async function finishReplays(tx: StoreTx, ids: readonly string[], now: number): Promise<void> {
  await (tx.db as WebhookDb).updateTable('webhook_replays').set({ finished_at: now }).where('id', 'in', ids).execute();
}
