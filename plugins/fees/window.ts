import { RpcError, type Store } from '../../src/plugin/plugin.ts';
import { globalRates, type Statistics, statisticsOf } from './estimate.ts';
import { type SlotFees, unpackFees } from './slot-fees.ts';
import { MAX_LOOKBACK_SLOTS, tables } from './store.ts';

export interface View {
  /** Newest first, at most 150. */
  readonly slots: readonly SlotFees[];
  /** Statistics of all transactions of the newest slots; kept until a block comes or goes. */
  global(lookbackSlots: number, includeVote: boolean): Statistics;
}

export interface Window {
  /** What the store has now. Throws -32002 as long as no block was followed. */
  current(): Promise<View>;
  /** Slots in memory. */
  readonly size: number;
  readonly bytes: number;
}

interface Kept {
  readonly blockhash: string;
  readonly fees: SlotFees;
  readonly bytes: number;
}

/**
 * The rows of the newest slots in memory. Each look at the store reads which blocks there are and fetches those that are new; that is
 * also how forks, restarts and other processes are seen. Nothing is read as long as nobody asks.
 */
export function createWindow(store: () => Store): Window {
  let kept = new Map<number, Kept>();
  let view: View | null = null;
  let version: number | null = null;
  let running: Promise<View> | null = null;
  let next: Promise<View> | null = null;

  async function refresh(): Promise<View> {
    const seen = store().version();
    if (view !== null && seen !== null && seen === version) return view;
    const { read } = store();
    const rows = await tables(read)
      .selectFrom('fees_slots')
      .select(['slot', 'blockhash'])
      .where('samples', '>', 0)
      .orderBy('slot', 'desc')
      .limit(MAX_LOOKBACK_SLOTS)
      .execute();
    if (rows.length === 0) await demandBlocks(read);
    const missing = rows.filter(({ slot, blockhash }) => kept.get(slot)?.blockhash !== blockhash);
    const fetched = await fetchFees(read, missing);
    if (view === null || missing.length > 0 || rows.length !== kept.size) {
      // A block that was taken back between the two reads is not there any more.
      const slots = rows.map(({ slot, blockhash }) => {
        const old = kept.get(slot);
        return [slot, old?.blockhash === blockhash ? old : fetched.get(slot)] as const;
      });
      kept = new Map(slots.filter((entry): entry is readonly [number, Kept] => entry[1] !== undefined));
      view = createView([...kept.values()].map(({ fees }) => fees));
    }
    version = seen;
    return view;
  }

  return {
    get size() {
      return kept.size;
    },
    get bytes() {
      return [...kept.values()].reduce((sum, { bytes }) => sum + bytes, 0);
    },
    current() {
      if (running === null) {
        running = refresh().finally(() => {
          running = null;
        });
        return running;
      }
      // What is being read may be older than this call.
      next ??= running
        .catch(() => undefined)
        .then(() => {
          next = null;
          return this.current();
        });
      return next;
    },
  };
}

async function demandBlocks(read: Store['read']): Promise<void> {
  const any = await tables(read).selectFrom('fees_slots').select('slot').limit(1).executeTakeFirst();
  if (any !== undefined) return;
  throw new RpcError('unavailable', {
    details: 'no block has been followed yet, so there are no fees',
    retryAfterS: 1,
  });
}

async function fetchFees(
  read: Store['read'],
  wanted: readonly { readonly slot: number }[],
): Promise<ReadonlyMap<number, Kept>> {
  if (wanted.length === 0) return new Map();
  const slots = wanted.map(({ slot }) => slot);
  const rows = await tables(read).selectFrom('fees_slots').selectAll().where('slot', 'in', slots).execute();
  const found = new Map<number, Kept>();
  for (const { slot, blockhash, fees } of rows) {
    const unpacked = unpackFees(fees);
    if (unpacked !== null) found.set(slot, { blockhash, fees: unpacked, bytes: fees.length });
  }
  return found;
}

function createView(slots: readonly SlotFees[]): View {
  const known = new Map<string, Statistics>();
  return {
    slots,
    global(lookbackSlots, includeVote) {
      const name = `${Math.min(lookbackSlots, slots.length)} ${includeVote}`;
      let found = known.get(name);
      if (found === undefined) {
        found = statisticsOf(globalRates(slots.slice(0, lookbackSlots), includeVote));
        known.set(name, found);
      }
      return found;
    },
  };
}
