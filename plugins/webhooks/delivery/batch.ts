import type { Job } from '../../../src/plugin/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createBodyRoom, formOf, mergeBodies, wrapElement } from '../bodies/form.ts';
import type { Webhook } from '../model/webhook.ts';
import { endBatches, insertBatch, type Member, readBatches } from '../store/batches.ts';
import { blobKey, readBlobs } from '../store/blobs.ts';
import type { DeliveryPayload } from './queue.ts';

export interface BatchParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly clock: Clock;
}

/** A batch that is ready to be sent: the deliveries beside the one that leads it, and the request body of all. */
export interface Batch {
  readonly members: readonly Member[];
  readonly body: Buffer;
  /** What is in it was written down before it was sent. */
  readonly isFixed: boolean;
}

/** Discord takes no more embeds in one message. */
const MAX_EMBEDS = 10;

export const batchLimit = (hook: Webhook): number =>
  formOf(hook.type) === 'discord' ? Math.min(hook.batchSize, MAX_EMBEDS) : hook.batchSize;

/**
 * Takes further deliveries of the webhook into the request of a first attempt: as many as are due, belong together and fit. What the
 * batch holds is fixed before it is sent, so that each attempt sends the same bytes, whoever makes it.
 */
export function gatherBatch(
  { store, outbox, clock }: BatchParts,
  job: Job,
  hook: Webhook,
  own: Buffer,
): Promise<Batch> {
  const form = (job.payload as DeliveryPayload).form ?? 'raw';
  return store.write(async (tx) => {
    const scope = { kind: job.kind, group: job.group };
    const taken = await outbox.take(tx, { ...scope, limit: batchLimit(hook) - 1 }, REASONS.batch);
    const payloads = taken.map(({ payload }) => payload as DeliveryPayload);
    const source = { read: tx.db, dialect: tx.dialect };
    const elements = await readBlobs(source, [...new Set(payloads.map(({ signature }) => signature))]);
    // One that was not sent by the process that began it still has a batch of its own.
    const leading = await readBatches(
      tx.db,
      tx.dialect,
      taken.map(({ id }) => id),
    );
    const members: Member[] = [];
    const bodies = [own];
    const fits = createBodyRoom(form, own);
    for (const [at, payload] of payloads.entries()) {
      const id = taken[at]?.id ?? 0;
      const element = elements.get(blobKey(payload));
      if (element === undefined || (payload.form ?? 'raw') !== form || leading.has(id)) break;
      const body = wrapElement(form, element);
      if (!fits(body)) break;
      bodies.push(body);
      members.push({ id, payload });
    }
    const left = taken.slice(members.length).map(({ id }) => id);
    await outbox.giveBack(tx, { kind: job.kind, ids: left }, REASONS.batch);
    const leader = { id: job.id, payload: job.payload as DeliveryPayload, webhookId: hook.id };
    await insertBatch(tx, leader, members, clock.now());
    return { members, body: members.length === 0 ? own : mergeBodies(form, bodies), isFixed: true };
  });
}

/** The webhook wants smaller batches since this one was fixed: from now on each of its deliveries goes alone, with the attempts behind it. */
export function dissolveBatch(
  { store, outbox }: BatchParts,
  job: Job,
  members: readonly Member[],
  own: Buffer,
): Promise<Batch> {
  return store.write(async (tx) => {
    const change = { kind: job.kind, ids: members.map(({ id }) => id), reason: REASONS.batch };
    await outbox.release(tx, change, { attempts: job.attempts });
    await endBatches(tx, [job.id]);
    return { members: [], body: own, isFixed: false };
  });
}

/** The batch that was fixed at an earlier attempt. Null: what it is made of is gone. */
export async function repeatBatch(
  { store }: BatchParts,
  job: Job,
  members: readonly Member[],
  own: Buffer,
): Promise<Batch | null> {
  const form = (job.payload as DeliveryPayload).form ?? 'raw';
  const elements = await readBlobs(store, [...new Set(members.map(({ payload }) => payload.signature))]);
  const bodies = [own];
  for (const { payload } of members) {
    const element = elements.get(blobKey(payload));
    if (element === undefined) return null;
    bodies.push(wrapElement(form, element));
  }
  return { members, body: members.length === 0 ? own : mergeBodies(form, bodies), isFixed: true };
}

/** Why a delivery is held, discarded or failed without an answer: shown in its `reason`. */
export const REASONS = {
  disabled: 'webhook disabled',
  deleted: 'webhook deleted',
  /** Kept until the webhook is switched on. */
  inactive: 'webhook inactive',
  /** Kept until the project has credits again. */
  credits: 'credits',
  /** Kept too long, or pushed out by newer ones. */
  heldTooLong: 'held too long',
  tooManyHeld: 'too many held',
  /** Travels in the request of another delivery. */
  batch: 'batch',
} as const;

/** Why a delivery can be held for itself, so that it may be dropped for itself. */
export const HELD_ALONE = [REASONS.inactive, REASONS.credits] as const;
