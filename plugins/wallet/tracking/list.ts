import type { AskOptions, Listed, WalletUpstream } from './upstream.ts';

/** The list of one address, newest first, read page by page as it is needed. */
export interface AddressList {
  readonly address: string;
  /** The next entry without taking it; null at the end. */
  peek(): Promise<Listed | null>;
  /** Takes the entry that `peek` showed. */
  take(): Listed;
}

export interface ListOptions {
  readonly upstream: WalletUpstream;
  readonly address: string;
  /** Entries from this slot on are passed over. */
  readonly belowSlot: number;
  /** A signature at or above `belowSlot` from which on the list is read; null for its top. */
  readonly before: string | null;
  readonly minSlot?: number;
  readonly ask: AskOptions;
}

/** A page that is shorter than asked for is not the end: some nodes give less. Only an empty one is. */
export function createAddressList({ upstream, address, belowSlot, before, minSlot, ask }: ListOptions): AddressList {
  let pending: Listed[] = [];
  let at = 0;
  let cursor = before;
  let hasEnded = false;

  async function fill(): Promise<void> {
    while (at >= pending.length && !hasEnded) {
      const page = await upstream.signatures(
        address,
        { before: cursor, ...(minSlot === undefined ? {} : { minSlot }) },
        ask,
      );
      const last = page.at(-1);
      // A node that answers with the same page for ever would be read for ever.
      if (last === undefined || last.signature === cursor) hasEnded = true;
      else cursor = last.signature;
      pending = page.filter(({ slot }) => slot < belowSlot);
      at = 0;
    }
  }

  return {
    address,
    async peek() {
      await fill();
      return pending[at] ?? null;
    },
    take() {
      const entry = pending[at];
      if (entry === undefined) throw new RangeError('the list has nothing left');
      at += 1;
      return entry;
    },
  };
}

/** A list that is not wanted. */
export const emptyList = (address: string): AddressList => ({
  address,
  peek: async () => null,
  take() {
    throw new RangeError('the list has nothing left');
  },
});
