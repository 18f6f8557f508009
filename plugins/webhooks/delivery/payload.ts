import type { ChainId } from '../../../src/ports/chain.ts';
import type { BodyForm } from '../bodies/form.ts';

/** What a delivery carries through the outbox; the webhook is the job's group. */
export interface DeliveryPayload {
  readonly signature: string;
  /** Slot of the block that matched; with the signature it names the stored element. */
  readonly slot: number;
  readonly chain: ChainId;
  /** What the webhook was when the transaction matched; raw where it is missing. */
  readonly form?: BodyForm;
}

/** One kind per chain: slots of different chains must not be confused when a fork is rolled back. */
export const deliveryKind = (chain: ChainId): string => (chain === 'main' ? 'webhooks.deliver' : 'webhooks.devnet');

/** At most one delivery per webhook and transaction. */
export const deliveryKey = (webhookId: string, signature: string): string => `${webhookId}:${signature}`;

/** The transaction of a key, also of one that was freed by a mark behind it. */
export function signatureOfKey(key: string): string {
  return /^[^:]*:([1-9A-HJ-NP-Za-km-z]+)/.exec(key)?.[1] ?? '';
}
