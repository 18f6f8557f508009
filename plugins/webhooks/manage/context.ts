import { RequestError } from '../../../src/plugin/request.ts';
import type { AccessCharges, AccessPlans, StoredBudgets } from '../../../src/ports/access.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import type { WaitingDeliveries } from '../delivery/waiting.ts';
import type { InputRules } from '../input/fields.ts';
import type { Webhook } from '../model/webhook.ts';
import { beginChange, recordChange } from '../store/changes.ts';
import { findHook } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';

/** What the management of webhooks works with. */
export interface ManageContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  readonly rules: InputRules;
  /** What the plans of projects allow; null when nobody knows. */
  readonly plans: AccessPlans | null;
  /** Their credits; null when nobody counts them. */
  readonly charges: AccessCharges | null;
  readonly budgets: StoredBudgets | null;
  /** Makes sure that what happens on a chain from now on will be seen. */
  keepPromises(chain: ChainId): Promise<void>;
  /** The deliveries that have not been finished. */
  readonly waiting: WaitingDeliveries;
}

/** A write to one webhook, open in a transaction. */
export interface HookWrite {
  readonly tx: StoreTx;
  readonly db: Db;
  readonly hook: Webhook;
  readonly now: number;
  /** Tells the address indexes what changed; without keys only the webhook's own row is read again. */
  record(removed?: readonly Uint8Array[], added?: readonly Uint8Array[]): Promise<void>;
}

/**
 * Runs a write to one webhook of a project. Writes follow each other, over all processes, so that what is read here holds until
 * the commit. Throws 404 for a webhook that is not there or belongs to another project.
 */
export function writeHook<T>(
  { store, clock }: ManageContext,
  projectId: string,
  id: string,
  work: (write: HookWrite) => Promise<T>,
): Promise<T> {
  return store.write(async (tx) => {
    const version = await beginChange(tx);
    const db = tx.db as Db;
    const hook = await findHook(db, projectId, id);
    if (hook === null) throw notFound();
    const now = clock.now();
    const { number } = hook;
    return work({
      tx,
      db,
      hook,
      now,
      record: (removed = [], added = []) => recordChange(tx, { version, number, removed, added }, now),
    });
  });
}

/** Addresses that one webhook of a project may watch. */
export async function maxAddresses({ plans, config }: ManageContext, db: Db, projectId: string): Promise<number> {
  return Math.min(config.maxAddresses, (await plans?.maxAddresses(db, projectId)) ?? config.maxAddresses);
}

export const notFound = (): RequestError => new RequestError(404, 'webhook not found');
