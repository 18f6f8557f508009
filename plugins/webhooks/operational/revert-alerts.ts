import type { ChainId } from '../../../src/ports/chain.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { networkOf } from '../model/webhook.ts';
import type { Operational } from './operational.ts';

/** Tells the operator of blocks that were taken back: once for a whole fork. */
export interface RevertAlerts {
  /** In the transaction that takes the blocks back. */
  reverted(tx: StoreTx, chain: ChainId, slot: number): void;
}

export function createRevertAlerts(operational: Operational, store: Store, log: Log): RevertAlerts {
  /** Of the forks whose transaction is open. */
  const open = new WeakMap<StoreTx, number[]>();

  async function tell(chain: ChainId, slots: readonly number[]): Promise<void> {
    const network = networkOf(chain);
    const range = { network, blocks: slots.length, fromSlot: Math.min(...slots), toSlot: Math.max(...slots) };
    await store.write((tx) => operational.tell(tx, 'chain.reverted', range));
  }

  return {
    reverted(tx, chain, slot) {
      if (!operational.isOn) return;
      const known = open.get(tx);
      if (known !== undefined) {
        known.push(slot);
        return;
      }
      const slots = [slot];
      open.set(tx, slots);
      tx.onCommit(() => {
        tell(chain, slots).catch((error: unknown) =>
          log.warn({ err: error }, 'the operator could not be told of a fork'),
        );
      });
    },
  };
}
