import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';
import { batchesOf, endBatches } from '../store/batches.ts';
import { REASONS } from './batch.ts';
import type { DeliveryQueue } from './queue.ts';

/** What becomes of the deliveries that wait when their webhook changes. */
export interface WaitingDeliveries {
  /** Ends them, except what is being sent at this moment. */
  drop(tx: StoreTx, webhookId: string, reason: string): Promise<void>;
  /** The webhook is off: they are dropped, or kept where it wants that. */
  becameInactive(tx: StoreTx, hook: Webhook): Promise<void>;
  /** The webhook is on: what was kept goes out, in the order of its blocks. */
  becameActive(tx: StoreTx, hook: Webhook): Promise<void>;
  /** Each delivery goes alone, unless its batch is under way. */
  dissolveBatches(tx: StoreTx, webhookId: string): Promise<void>;
}

export function createWaitingDeliveries(queue: DeliveryQueue, maxHeld: number): WaitingDeliveries {
  /** Ends the batches of a webhook and gives what they held; one that is being sent shares the outcome of its request. */
  const endIdleBatches = async (tx: StoreTx, webhookId: string): Promise<ReadonlyMap<number, readonly number[]>> => {
    const underWay = await queue.underWay(tx, webhookId);
    const idle = new Map([...(await batchesOf(tx, webhookId))].filter(([leader]) => !underWay.has(leader)));
    await endBatches(tx, [...idle.keys()]);
    return idle;
  };
  const drop: WaitingDeliveries['drop'] = async (tx, webhookId, reason) => {
    // First what waits: then nothing can begin any more.
    await queue.discardWaiting(tx, webhookId, reason);
    const ended = await endIdleBatches(tx, webhookId);
    await queue.discardMembers(tx, [...ended.values()].flat(), reason);
  };
  const dropExcess = async (tx: StoreTx, chain: ChainId, webhookId: string): Promise<void> => {
    const excess = (await queue.countWaiting(tx, chain, webhookId, Number.MAX_SAFE_INTEGER)) - maxHeld;
    if (excess > 0) await queue.discardHeld(tx, webhookId, { limit: excess }, REASONS.tooManyHeld);
  };
  return {
    drop,
    async becameInactive(tx, hook) {
      if (hook.onInactive === 'drop') return await drop(tx, hook.id, REASONS.disabled);
      await queue.holdWaiting(tx, hook.id, REASONS.inactive);
      await dropExcess(tx, chainOf(hook.type), hook.id);
    },
    async becameActive(tx, { id }) {
      await queue.releaseHeld(tx, id, REASONS.inactive);
    },
    async dissolveBatches(tx, webhookId) {
      await queue.releaseMembers(tx, await endIdleBatches(tx, webhookId));
    },
  };
}
