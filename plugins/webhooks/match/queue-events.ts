import type { NewJob } from '../../../src/kernel/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { type DeliveryPayload, deliveryKey, deliveryKind } from '../delivery/payload.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { REASONS } from '../delivery/reasons.ts';
import type { Webhook } from '../model/webhook.ts';
import { addRefs, type Blob, insertBlobs, knownPlaces, placeKey } from '../store/blobs.ts';
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
  const nowMs = parts.clock.now();
  const full = await parts.room.takeRoom(tx, chain, events);
  const known = await knownPlaces(
    tx,
    chain,
    events.map(({ signature }) => signature),
  );
  const jobsOf = (event: MatchedEvent): NewJob[] =>
    event.hooks.map((hook) => newJob({ chain, slot, nowMs, full }, event, hook));
  const blobOf = ({ signature, form, json }: MatchedEvent, refs: number): Blob => ({
    ...{ signature, slot, chain, form, json, refs },
  });
  const fresh = events.filter(({ signature }) => !known.has(signature));
  await insertBlobs(
    tx,
    fresh.map((event) => blobOf(event, event.hooks.length)),
    nowMs,
  );
  let added = await parts.queue.enqueue(tx, fresh.flatMap(jobsOf));
  for (const event of events) {
    const places = known.get(event.signature);
    if (places === undefined) continue;
    const jobs = jobsOf(event);
    const more = await parts.queue.enqueue(tx, jobs);
    added += more;
    const keys = jobs.map(({ key }) => key);
    if (more < jobs.length) await parts.queue.moveSlot(tx, chain, keys, slot);
    if (more === 0) continue;
    if (places.has(placeKey(slot, event.form))) await addRefs(tx, blobOf(event, more));
    else await insertBlobs(tx, [blobOf(event, more)], nowMs);
  }
  if (full.size > 0) await refuse(parts, tx, chain, events, full);
  return added;
}

interface JobPlace {
  readonly chain: ChainId;
  readonly slot: number;
  readonly nowMs: number;
  /** Webhooks that have no room left. */
  readonly full: ReadonlySet<string>;
}

/** More than any block has transactions; times the highest slot it is still an exact number. */
const POSITIONS = 1_000_000;
/** So long the events of a batch are waited for. */
const GATHER_MS = 1_000;

function newJob(
  { chain, slot, nowMs, full }: JobPlace,
  { signature, form, index }: MatchedEvent,
  hook: Webhook,
): NewJob {
  const payload: DeliveryPayload = { signature, slot, chain, form };
  const held = full.has(hook.id) ? REASONS.queueFull : hook.active ? null : REASONS.inactive;
  return {
    kind: deliveryKind(chain),
    key: deliveryKey(hook.id, signature),
    group: hook.id,
    payload,
    slot,
    ...(hook.ordered ? { position: slot * POSITIONS + index } : {}),
    ...(hook.batchSize > 1 ? { runAt: nowMs + GATHER_MS } : {}),
    ...(held === null ? {} : { held }),
  };
}

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
  await queue.failHeld(tx, chain, keys, REASONS.queueFull);
  const minute = Math.floor(clock.now() / MINUTE_MS);
  const none = { succeeded: 0, attemptsOk: 0, attemptsFailed: 0, lastSuccessAt: 0 };
  await addHealth(
    tx,
    [...failed].map(([number, count]): HealthDelta => ({ ...none, number, minute, failed: count })),
  );
}
