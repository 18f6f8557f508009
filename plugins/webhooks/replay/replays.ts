import { RequestError } from '../../../src/kernel/request.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import type { Store } from '../../../src/ports/store.ts';
import { type ManageContext, writeHook } from '../manage/context.ts';
import { chainOf } from '../model/webhook.ts';
import { finishReplays, insertReplay, openReplays, type Replay } from '../store/replays.ts';

/** Slots that are read again for one webhook. */
export interface SlotRange {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly force: boolean;
}

/** Reading past blocks again for one webhook, beside the following. */
export interface Replays {
  /** Errors: 404; 409 when the webhook is off, or another one of it runs. */
  begin(context: ManageContext, projectId: string, webhookId: string, range: SlotRange): Promise<Replay>;
  /** Notes the ones whose blocks have all been read. */
  finish(): Promise<void>;
}

/** The processor that gets the blocks of replays: apart from the one that follows, whose blocks are for all webhooks. */
export const REPLAY_PROCESSOR = { name: 'webhooks-replay', version: 1 } as const;

/** One whose blocks nobody has stays open: after this time another one may begin. */
const STUCK_MS = 3_600_000;

export interface ReplaysParts {
  readonly book: GapBook;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
}

export function createReplays({ book, store, clock, random }: ReplaysParts): Replays {
  return {
    begin: (context, projectId, webhookId, range) =>
      writeHook(context, projectId, webhookId, async ({ tx, hook, now, record }) => {
        await record();
        if (!hook.active) throw new RequestError(409, 'webhook is inactive');
        const open = await openReplays(tx.db, { number: hook.number });
        if (open.some(({ createdAt }) => now - createdAt < STUCK_MS))
          throw new RequestError(409, 'a replay of this webhook is running');
        if (open.length > 0)
          await finishReplays(
            tx,
            open.map(({ id }) => id),
            now,
          );
        const chain = chainOf(hook.type);
        const { fromSlot, toSlot } = range;
        const wish = { chain, processor: REPLAY_PROCESSOR, fromSlot, toSlot, addresses: null };
        const gapId = await book.request(tx, wish);
        const replay = { ...range, id: random.uuid(), number: hook.number, chain, gapId, queued: 0, createdAt: now };
        await insertReplay(tx, replay);
        return replay;
      }),
    async finish() {
      const open = await openReplays(store.read);
      if (open.length === 0) return;
      const gaps = await book.list({ processor: REPLAY_PROCESSOR.name, isOpen: true, limit: 1_000 });
      const running = new Set(gaps.map(({ id }) => id));
      const over = open.filter(({ gapId }) => !running.has(gapId)).map(({ id }) => id);
      if (over.length > 0) await store.write((tx) => finishReplays(tx, over, clock.now()));
    },
  };
}
