import { LRUCache } from 'lru-cache';
import { lazy } from '../../../src/lib/lazy.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import type { MatchedEvent } from './events.ts';

export interface HookRoom {
  /** Takes room for the events and returns the webhooks that have too little left. */
  takeRoom(tx: StoreTx, chain: ChainId, events: readonly MatchedEvent[]): Promise<ReadonlySet<string>>;
}

const MAX_WEBHOOKS = 100_000;

/**
 * Bounds the waiting deliveries of each webhook. A webhook is counted once and then again only when the room that was left at that
 * count is used up, so that the ordinary block needs no count at all.
 */
export function createHookRoom(queue: DeliveryQueue, maxPerWebhook: number): HookRoom {
  // Its room is taken at once: only in the thread that matches.
  const left = lazy(() => new LRUCache<string, number>({ max: MAX_WEBHOOKS }));

  return {
    async takeRoom(tx, chain, events) {
      const needs = new Map<string, number>();
      for (const { hooks } of events) for (const { id } of hooks) needs.set(id, (needs.get(id) ?? 0) + 1);
      const full = new Set<string>();
      for (const [id, need] of needs) {
        let room = left().get(id) ?? 0;
        if (room < need) room = maxPerWebhook - (await queue.countWaiting(tx, chain, id, maxPerWebhook));
        // What a rolled back block took is not given back: the next count corrects it.
        if (room < need) full.add(id);
        else left().set(id, room - need);
      }
      return full;
    },
  };
}
