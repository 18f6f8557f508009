import { createLru } from '../../../src/lib/lru.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { REASONS } from '../delivery/reasons.ts';
import type { Webhook } from '../model/webhook.ts';
import type { MatchedEvent } from './events.ts';

export interface HookRoom {
  /** Takes room for the events and returns the webhooks that have too little left. */
  takeRoom(tx: StoreTx, chain: ChainId, events: readonly MatchedEvent[]): Promise<ReadonlySet<string>>;
}

export interface RoomBounds {
  /** Waiting deliveries of a webhook that is on. */
  readonly perWebhook: number;
  /** Held ones of a webhook that is off and holds. */
  readonly held: number;
}

const MAX_WEBHOOKS = 100_000;

/**
 * Bounds the waiting deliveries of each webhook. A webhook is counted once and then again only when the room that was left at that
 * count is used up, so that the ordinary block needs no count at all. One that is off and holds has always room: the oldest go.
 */
export function createHookRoom(queue: DeliveryQueue, bounds: RoomBounds): HookRoom {
  const left = createLru<string, number>({ max: MAX_WEBHOOKS });

  async function take(tx: StoreTx, chain: ChainId, { id, active }: Webhook, need: number): Promise<boolean> {
    const most = active ? bounds.perWebhook : bounds.held;
    const name = active ? id : `${id} held`;
    let room = left.get(name) ?? 0;
    if (room < need) room = most - (await queue.countWaiting(tx, chain, id, most));
    if (room < need && !active) {
      room += await queue.discardHeld(tx, id, { limit: need - room }, REASONS.tooManyHeld);
      // What a single block has beyond the bound is let in once: it is pushed out by the next ones.
      room = Math.max(room, need);
    }
    // What a rolled back block took is not given back: the next count corrects it.
    if (room < need) return false;
    left.set(name, room - need);
    return true;
  }

  return {
    async takeRoom(tx, chain, events) {
      const needs = new Map<Webhook, number>();
      for (const { hooks } of events) for (const hook of hooks) needs.set(hook, (needs.get(hook) ?? 0) + 1);
      const full = new Set<string>();
      for (const [hook, need] of needs) if (!(await take(tx, chain, hook, need))) full.add(hook.id);
      return full;
    },
  };
}
