import { createSlotLength } from '../lib/slot-length.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Following } from '../ports/following.ts';
import type { Store } from '../ports/store.ts';
import { readHeaders, readMarks, writeFirstFloor } from './cursor.ts';

export interface FollowingParts {
  readonly store: Store;
  readonly follow: { readonly commitment: string; readonly startSlot: number | 'latest' };
  chain(id: ChainId): ChainReader | null;
}

const TIMEOUT_MS = 2_000;

/** What a process that does not follow a chain can fix and learn of it. */
export function createFollowing({ store, follow, chain }: FollowingParts): Following {
  const begun = new Set<ChainId>();
  return {
    async begin(id, signal) {
      const reader = chain(id);
      if (begun.has(id) || reader === null) return;
      if ((await readMarks(store.read, id)) === null) {
        const options = { timeoutMs: TIMEOUT_MS, ...(signal === undefined ? {} : { signal }) };
        const slot =
          follow.startSlot === 'latest'
            ? await reader.call<number>('getSlot', [{ commitment: follow.commitment }], options)
            : follow.startSlot;
        await store.write((tx) => writeFirstFloor(tx, id, slot));
      }
      begun.add(id);
    },
    async slotMs(id) {
      const length = createSlotLength();
      for (const { slot, blockTime } of (await readHeaders(store.read, id, 0)).reverse())
        length.sawBlock(slot, blockTime);
      return length.ms();
    },
  };
}
