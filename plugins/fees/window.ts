import { sql } from 'kysely';
import { type BlockProcessor, RpcError, type Store } from '../../src/plugin/plugin.ts';
import type { Migration, Queries } from '../../src/ports/store.ts';
import { globalRates, packFees, type SlotFees, type Statistics, statisticsOf, unpackFees } from './slot-fees.ts';

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

interface WindowSlot {
  readonly blockhash: string;
  readonly fees: SlotFees;
  readonly bytes: number;
}

/**
 * The rows of the newest slots in memory. Each look at the store reads which blocks there are and fetches those that are new; that is
 * also how forks, restarts and other processes are seen. Nothing is read without requests.
 */
export function createWindow(store: () => Store): Window {
  let kept = new Map<number, WindowSlot>();
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
      kept = new Map(slots.filter((entry): entry is readonly [number, WindowSlot] => entry[1] !== undefined));
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
): Promise<ReadonlyMap<number, WindowSlot>> {
  if (wanted.length === 0) return new Map();
  const slots = wanted.map(({ slot }) => slot);
  const rows = await tables(read).selectFrom('fees_slots').selectAll().where('slot', 'in', slots).execute();
  const found = new Map<number, WindowSlot>();
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

/** How many slots an estimate looks back at most; slots without a priced transaction do not count. */
export const MAX_LOOKBACK_SLOTS = 150;
/** Rows of a chain whose blocks do not become final. */
const MAX_ROWS = 2_000;
/** How often, in slots, `MAX_ROWS` is looked after. */
const TRIM_EVERY = 256;

interface FeesTables {
  fees_slots: {
    slot: number;
    blockhash: string;
    /** Transactions in `fees`; 0 for a block that only shows that the chain is followed. */
    samples: number;
    /** See slot-fees.ts. */
    fees: Uint8Array;
  };
}

const tables = (db: Queries): Queries<FeesTables> => db as Queries<FeesTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create fees of slots',
    breaking: false,
    async up(tx) {
      const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
      const blob = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
      await sql`CREATE TABLE fees_slots (
        slot ${int} PRIMARY KEY, blockhash TEXT NOT NULL, samples ${int} NOT NULL, fees ${blob} NOT NULL)`.execute(
        tx.db,
      );
    },
  },
];

/**
 * Keeps the fees of the newest slots, one row for each block: what an estimate needs is there after a restart, in every process,
 * and no block is fetched for it. Nothing that may still be taken back is pruned for being old.
 */
export function createFeeProcessor(): BlockProcessor {
  return {
    name: 'fees',
    version: 1,
    chains: ['main'],
    wantsGaps: false,
    async apply(tx, block) {
      const { bytes, samples } = packFees(block);
      const { slot, blockhash } = block;
      await tables(tx.db)
        .insertInto('fees_slots')
        .values({ slot, blockhash, samples, fees: bytes })
        // Where the chain is indexed again from an earlier slot, its rows are still there.
        .onConflict((conflict) => conflict.column('slot').doUpdateSet({ blockhash, samples, fees: bytes }))
        .execute();
      if (block.slot % TRIM_EVERY !== 0) return;
      await sql`DELETE FROM fees_slots WHERE slot < (
        SELECT slot FROM fees_slots ORDER BY slot DESC LIMIT 1 OFFSET ${MAX_ROWS - 1})`.execute(tx.db);
    },
    async revert(tx, { slot }) {
      await tables(tx.db).deleteFrom('fees_slots').where('slot', '=', slot).execute();
    },
    async finalized(tx, slot) {
      await sql`DELETE FROM fees_slots WHERE (samples = 0 AND slot < ${slot}) OR slot < (
        SELECT slot FROM fees_slots WHERE samples > 0 AND slot <= ${slot}
        ORDER BY slot DESC LIMIT 1 OFFSET ${MAX_LOOKBACK_SLOTS - 1})`.execute(tx.db);
    },
  };
}
