import type { NewJob } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { BodyForm } from '../bodies/form.ts';
import type { Webhook } from '../model/webhook.ts';

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'discarded'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** A matched transaction on its way to a webhook. Times are unix milliseconds. */
export interface Delivery {
  readonly id: number;
  readonly webhookId: string;
  readonly status: DeliveryStatus;
  readonly payload: DeliveryPayload;
  /** Of the last attempt, or why it was discarded. */
  readonly error: string | null;
  readonly createdAt: number;
  /** Null once it is finished. */
  readonly nextAttemptAt: number | null;
}

interface DeliveryPageQuery {
  readonly status: DeliveryStatus | null;
  /** Only ids below this one. */
  readonly before: number | null;
  readonly limit: number;
}

/** Held deliveries: at most `limit`, the oldest first, made before `createdBefore` where it is given. */
interface HeldQuery {
  readonly limit: number;
  /** Unix milliseconds. */
  readonly createdBefore?: number;
}

/** The deliveries of webhooks in the outbox of the kernel. */
export interface DeliveryQueue {
  /** Adds what is not there yet; returns how many were added. */
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  /** Drops the never tried deliveries of a block that was rolled back; their keys are free again. */
  forget(tx: StoreTx, chain: ChainId, slot: number): Promise<void>;
  /** Notes that the transaction of deliveries which stayed is in another block now; returns how many there are. */
  moveSlot(tx: StoreTx, chain: ChainId, keys: readonly string[], slot: number): Promise<number>;
  /** Ends the deliveries of a webhook that wait, but not those that travel with another one. */
  discardWaiting(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** The deliveries of a webhook that are under way, by id. */
  underWay(tx: StoreTx, webhookId: string): Promise<ReadonlySet<number>>;
  /** Of deliveries that travel with another one, by that one: each goes alone from now on, with the attempts of its batch behind it. */
  releaseMembers(tx: StoreTx, batches: ReadonlyMap<number, readonly number[]>): Promise<void>;
  /** Of deliveries that travel with another one: they end. */
  discardMembers(tx: StoreTx, ids: readonly number[], reason: string): Promise<void>;
  /** Keeps the deliveries of a webhook that wait until they are released. */
  holdWaiting(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** Lets the deliveries of a webhook that are held for this reason go; returns how many. */
  releaseHeld(tx: StoreTx, webhookId: string, reason: string): Promise<number>;
  /** Drops the oldest held deliveries of a webhook, but not those that travel with another one; returns how many. */
  discardHeld(tx: StoreTx, webhookId: string, which: HeldQuery, reason: string): Promise<number>;
  /** Deliveries of a webhook that are not finished, counted no further than `atMost`. */
  countWaiting(tx: StoreTx, chain: ChainId, webhookId: string, atMost: number): Promise<number>;
  /** All deliveries of a webhook that are stored and were not delivered, and the bytes of their elements. */
  stored(webhookId: string, tx?: StoreTx): Promise<{ readonly events: number; readonly bytes: number }>;
  /** Deliveries of all webhooks that are not finished. */
  depth(atMost: number): Promise<number>;
  /** Newest first. */
  list(webhookId: string, query: DeliveryPageQuery): Promise<readonly Delivery[]>;
  get(webhookId: string, id: number): Promise<Delivery | null>;
  /** Makes finished deliveries pending again; returns how many. */
  requeueKeys(tx: StoreTx, chain: ChainId, keys: readonly string[]): Promise<number>;
  /** Makes a finished delivery pending again, with a new series of attempts and all that it was sent with; false when it is not finished. */
  resend(tx: StoreTx, hook: Webhook, id: number): Promise<boolean>;
}

/** What a delivery carries through the outbox; the webhook is the job's group. */
export interface DeliveryPayload {
  readonly signature: string;
  /** Slot of the block that matched; with the signature it names the stored element. */
  readonly slot: number;
  readonly chain: ChainId;
  /** What the webhook was when the transaction matched; raw where it is missing. */
  readonly form?: BodyForm;
  /** Of the stored element; missing in rows of an older version. */
  readonly bytes?: number;
}

/** One kind per chain: slots of different chains must not be confused when a fork is rolled back. */
export const deliveryKind = (chain: ChainId): string => (chain === 'main' ? 'webhooks.deliver' : 'webhooks.devnet');

/** At most one delivery per webhook and transaction. */
export const deliveryKey = (webhookId: string, signature: string): string => `${webhookId}:${signature}`;

/** The transaction of a key, also of one that was freed by a mark behind it. */
export function signatureOfKey(key: string): string {
  return /^[^:]*:([1-9A-HJ-NP-Za-km-z]+)/.exec(key)?.[1] ?? '';
}
