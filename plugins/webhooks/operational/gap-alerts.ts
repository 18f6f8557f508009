import type { GapBook } from '../../../src/ports/gaps.ts';
import type { Store } from '../../../src/ports/store.ts';
import { networkOf } from '../model/webhook.ts';
import type { Operational } from './operational.ts';

/** Tells the operator of new holes in what webhooks have seen. */
export interface GapAlerts {
  look(): Promise<void>;
}

/** Each gap is told once, also over restarts: what is told is an event whose key names the gap. */
export function createGapAlerts(operational: Operational, book: GapBook, store: Store, processor: string): GapAlerts {
  let told = 0;
  return {
    async look() {
      if (!operational.isOn) return;
      const gaps = (await book.list({ processor, isOpen: true })).filter(
        ({ id, reason }) => id > told && reason !== 'manual',
      );
      if (gaps.length === 0) return;
      await store.write(async (tx) => {
        for (const { id, chain, fromSlot, toSlot, reason } of gaps) {
          const network = networkOf(chain);
          await operational.tell(tx, 'chain.gap', { id, network, fromSlot, toSlot, reason }, { once: `gap_${id}` });
        }
      });
      told = Math.max(told, ...gaps.map(({ id }) => id));
    },
  };
}
