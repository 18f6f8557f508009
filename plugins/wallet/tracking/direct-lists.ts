import type { Clock } from '../../../src/plugin/plugin.ts';
import type { WalletConfig } from '../config.ts';
import { type ChainHistory, type HistoryAskOptions, isNotFound } from './chain-history.ts';
import { type AddressList, createAddressList } from './gather.ts';
import { behind, createPatience } from './patience.ts';

const NONE: ReadonlySet<string> = new Set();
/** Blocks without a transaction that are passed over to find a signature. */
const MAX_EMPTY_BLOCKS = 16;

/** Which signatures a list can begin below: of any transaction, or, with some upstream, of the address alone. */
export interface Cursors {
  kind: 'any' | 'own';
}

interface ListParts {
  readonly clock: Clock;
  readonly upstream: ChainHistory;
  readonly config: Pick<WalletConfig, 'readThroughMs'>;
  readonly ask: HistoryAskOptions;
  readonly cursors: Cursors;
}

/** Lists of signatures that begin at any place of the chain. */
export interface SignatureLists {
  /** Monotonic; how long the call waits for upstreams that are behind. */
  readonly deadlineMs: number;
  /** The newest slot that the call sees. It does not move during the call but by `reach`. */
  top(): Promise<number>;
  reach(slot: number): Promise<void>;
  /** The list of an address, from a slot down; null: from its top. */
  from(address: string, slot: number | null): Promise<AddressList>;
}

export function createDirectLists({ clock, upstream, config, ask, cursors }: ListParts): SignatureLists {
  const deadlineMs = clock.monotonic() + config.readThroughMs;
  let top: Promise<number> | null = null;

  /** Waits for an upstream that has reached a slot. Errors: 503 on timeout. */
  const reached = (slot: number): Promise<number> =>
    createPatience(
      clock,
      deadlineMs,
      ask.signal,
    )(async () => {
      const found = await upstream.slot(ask);
      if (found < slot) throw behind();
      return found;
    });

  const topNow = (): Promise<number> => {
    top ??= upstream.slot(ask);
    return top;
  };

  /** A signature above everything of a slot, other than those that are left out; null: the list has to be read from its top. */
  async function signatureAbove(slot: number, leftOut: ReadonlySet<string> = NONE): Promise<string | null> {
    const newest = await topNow();
    let below = slot;
    for (let looked = 0; looked < MAX_EMPTY_BLOCKS && below < newest; looked += 1) {
      const block = await upstream.blockFrom(below + 1, newest, ask);
      const order = block === null ? null : await upstream.order(block, ask);
      if (block === null || order === null) return null;
      for (const signature of order.keys()) if (!leftOut.has(signature)) return signature;
      below = block;
    }
    return null;
  }

  return {
    deadlineMs,
    top: topNow,
    async reach(slot) {
      if (slot <= (await topNow())) return;
      top = reached(slot);
      await top;
    },
    async from(listed, slot) {
      const before = slot === null || cursors.kind === 'own' ? null : await signatureAbove(slot);
      if (before === null) return await open(listed, slot, null);
      const list = await open(listed, slot, before);
      try {
        if ((await list.peek()) !== null || (await isBelowAny(listed))) return list;
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
      return await open(listed, slot, null);
    },
  };

  async function open(listed: string, slot: number | null, before: string | null): Promise<AddressList> {
    const newest = await topNow();
    const belowSlot = Math.min(slot ?? newest, newest) + 1;
    return createAddressList({ upstream, address: listed, belowSlot, before, minSlot: newest, ask });
  }

  /**
   * Nodes list what is below any signature of the chain. Servers with a list of their own may know only the signatures of the address, and
   * answer others with an empty list: whether an empty list is one, is found out with an entry that exists.
   */
  async function isBelowAny(listed: string): Promise<boolean> {
    const minSlot = await topNow();
    const newest = await upstream.signatures(listed, { before: null, minSlot }, ask);
    const entry = newest.at(-1);
    if (entry === undefined) return true;
    const own = new Set(newest.map(({ signature }) => signature));
    const above = await signatureAbove(entry.slot, own);
    const below = above === null ? [] : await upstream.signatures(listed, { before: above, minSlot }, ask);
    if (below.some(({ signature }) => signature === entry.signature)) return true;
    if (above !== null) cursors.kind = 'own';
    return false;
  }
}
