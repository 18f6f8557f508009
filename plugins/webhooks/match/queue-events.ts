import type { NewJob } from '../../../src/kernel/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { type DeliveryPayload, deliveryKey, deliveryKind } from '../delivery/payload.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { addRefs, type Blob, insertBlobs, knownSlots } from '../store/blobs.ts';
import { addHealth, type HealthDelta, MINUTE_MS } from '../store/health.ts';
import type { MatchedEvent } from './events.ts';
import type { HookRoom } from './hook-room.ts';

export interface QueueEventsParts {
  readonly queue: DeliveryQueue;
  readonly clock: Clock;
  readonly room: HookRoom;
}

/**
 * Puts the events of a block into the outbox, each with its element. A transaction that was seen in another block before keeps the
 * deliveries that were tried; only missing ones are made. Returns how many were added.
 */
export async function queueEvents(
  parts: QueueEventsParts,
  tx: StoreTx,
  chain: ChainId,
  slot: number,
  events: readonly MatchedEvent[],
): Promise<number> {
  const full = await parts.room.takeRoom(tx, chain, events);
  const known = await knownSlots(
    tx,
    chain,
    events.map(({ signature }) => signature),
  );
  const jobsOf = (event: MatchedEvent): NewJob[] => event.hooks.map(({ id }) => newJob(chain, slot, event, id, full));
  const blobOf = ({ signature, json }: MatchedEvent, refs: number): Blob => ({ signature, slot, chain, json, refs });
  const fresh = events.filter(({ signature }) => !known.has(signature));
  await insertBlobs(
    tx,
    fresh.map((event) => blobOf(event, event.hooks.length)),
    parts.clock.now(),
  );
  let added = await parts.queue.enqueue(tx, fresh.flatMap(jobsOf));
  for (const event of events) {
    const slots = known.get(event.signature);
    if (slots === undefined) continue;
    const jobs = jobsOf(event);
    const more = await parts.queue.enqueue(tx, jobs);
    added += more;
    const keys = jobs.map(({ key }) => key);
    if (more < jobs.length) await parts.queue.moveSlot(tx, chain, keys, slot);
    if (more === 0) continue;
    if (slots.has(slot)) await addRefs(tx, blobOf(event, more));
    else await insertBlobs(tx, [blobOf(event, more)], parts.clock.now());
  }
  if (full.size > 0) await refuse(parts, tx, chain, events, full);
  return added;
}

function newJob(
  chain: ChainId,
  slot: number,
  { signature }: MatchedEvent,
  webhookId: string,
  full: ReadonlySet<string>,
): NewJob {
  const payload: DeliveryPayload = { signature, slot, chain };
  return {
    kind: deliveryKind(chain),
    key: deliveryKey(webhookId, signature),
    group: webhookId,
    payload,
    slot,
    ...(full.has(webhookId) ? { held: QUEUE_FULL } : {}),
  };
}

const QUEUE_FULL = 'queue_full';

/** Deliveries beyond the bound of their webhook are over at once; they can be sent again by hand. */
async function refuse(
  { queue, clock }: QueueEventsParts,
  tx: StoreTx,
  chain: ChainId,
  events: readonly MatchedEvent[],
  full: ReadonlySet<string>,
): Promise<void> {
  const keys: string[] = [];
  const failed = new Map<number, number>();
  for (const { signature, hooks } of events) {
    for (const { id, number } of hooks) {
      if (!full.has(id)) continue;
      keys.push(deliveryKey(id, signature));
      failed.set(number, (failed.get(number) ?? 0) + 1);
    }
  }
  await queue.discardKeys(tx, chain, keys, QUEUE_FULL);
  const minute = Math.floor(clock.now() / MINUTE_MS);
  const none = { succeeded: 0, attemptsOk: 0, attemptsFailed: 0, lastSuccessAt: 0 };
  await addHealth(
    tx,
    [...failed].map(([number, count]): HealthDelta => ({ ...none, number, minute, failed: count })),
  );
}
