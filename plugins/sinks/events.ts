import type { ChainId } from '../../src/ports/block.ts';
import type { SinkEvents, SinkRow, SinkTable } from '../../src/ports/sink.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { AccountReading } from './account-writes.ts';
import { EVENT_TABLES } from './rows/tables.ts';
import {
  addEvents,
  addFixedEvents,
  beginEvents,
  dropEvents,
  eventBodies,
  eventSlots,
  fixEvents,
  moveEvents,
  readCuts,
  readEventHead,
} from './store.ts';
import { lineOf, rowOf } from './targets/ndjson.ts';

/** Rows that no block contains, of one chain, for the sinks that write them. */
export interface EventReader {
  /** The tables that are kept. */
  readonly tables: readonly SinkTable[];
  /** Fixes what was added by now. Returns the slot up to which the rows of these tables no longer change, at most `final`. */
  fix(tables: readonly SinkTable[], final: number, signal: AbortSignal): Promise<number>;
  /** Slots with rows, both inclusive, ascending. */
  slots(table: SinkTable, first: number, last: number): Promise<readonly number[]>;
  /** In their order. */
  rows(table: SinkTable, slot: number): Promise<readonly SinkRow[]>;
  /** Rows of lower slots are not kept; infinite: none are. */
  keptFrom(table: SinkTable): Promise<number>;
  /** Slots, both inclusive, whose rows were dropped at the bound before every sink had them. */
  cuts(table: SinkTable, first: number, last: number): Promise<readonly (readonly [first: number, last: number])[]>;
  /** Rows of lower slots are no longer needed. */
  drop(table: SinkTable, below: number): Promise<void>;
}

const isEvent = ({ name }: SinkTable): boolean => EVENT_TABLES.some((table) => table.name === name);
export const eventTablesOf = (tables: readonly SinkTable[]): readonly SinkTable[] => tables.filter(isEvent);

/** What other plugins add. `wanted`: names of tables by chain. */
export function createSinkEvents(wanted: ReadonlyMap<ChainId, ReadonlySet<string>>): SinkEvents {
  return {
    wants: (chain, table) => wanted.get(chain)?.has(table) === true,
    async add(tx, chain, name, rows) {
      const table = EVENT_TABLES.find((one) => one.name === name);
      if (table === undefined || rows.length === 0) return;
      await addEvents(
        tx,
        { chain, name },
        rows.map((row) => bodyOf(table, row)),
      );
    },
  };
}

const bodyOf = (table: SinkTable, row: SinkRow): string => lineOf(table, [0, 0, ...row]);

interface EventParts {
  readonly chain: ChainId;
  readonly store: () => Store;
  /** States of accounts are read when their block is final. */
  readonly accounts: AccountReading;
}

/**
 * A row of the daemon has no slot by itself. It gets the newest final slot, once, in a transaction that sees it committed: what commits later
 * gets a later slot. So the rows up to a fixed slot are the same whenever they are read.
 */
export function createEventReader({ chain, store, accounts }: EventParts): EventReader {
  const fixNow = async (name: string, final: number): Promise<number> =>
    await store().write(async (tx: StoreTx) => {
      await beginEvents(tx, { chain, name }, final);
      const head = (await readEventHead(tx.db, { chain, name }))!;
      if (head.fixedTo >= final || !(await moveEvents(tx, { chain, name }, { from: head.fixedTo, to: final })))
        return head.fixedTo;
      await fixEvents(tx, { chain, name }, final);
      return final;
    });

  const fixAccounts = async (final: number, signal: AbortSignal): Promise<number> => {
    const name = 'account_writes';
    const head = await readEventHead(store().read, { chain, name });
    if (head === null) {
      await store().write((tx) => beginEvents(tx, { chain, name }, final + 1));
      return final;
    }
    const { fixedTo } = head;
    if (fixedTo >= final) return fixedTo;
    const { to, rows } = await accounts.read(fixedTo + 1, final, signal);
    const table = EVENT_TABLES.find((one) => one.name === name)!;
    const bodies = rows.map(({ slot, row }) => ({ slot, body: bodyOf(table, row) }));
    const isOurs = await store().write(async (tx) => {
      if (!(await moveEvents(tx, { chain, name }, { from: fixedTo, to }))) return false;
      await addFixedEvents(tx, { chain, name }, bodies);
      return true;
    });
    // When two readers meet, one writes, and the other goes on from there.
    return isOurs ? to : fixedTo;
  };

  /** Several sinks of a thread read accounts once. */
  let reading: Promise<unknown> = Promise.resolve();
  const fixOne = async (name: string, final: number, signal: AbortSignal): Promise<number> => {
    const known = await readEventHead(store().read, { chain, name });
    if (known !== null && known.fixedTo >= final) return known.fixedTo;
    if (name !== 'account_writes') return await fixNow(name, final);
    const next = reading.then(() => fixAccounts(final, signal));
    reading = next.catch(() => undefined);
    return await next;
  };

  return {
    tables: EVENT_TABLES,
    async fix(tables, final, signal) {
      let to = final;
      // No block is final yet: nothing has a slot.
      if (final < 0) return final;
      for (const { name } of tables) to = Math.min(to, await fixOne(name, final, signal));
      return to;
    },
    slots: (table, first, last) => eventSlots(store().read, { chain, name: table.name }, [first, last]),
    async rows(table, slot) {
      const bodies = await eventBodies(store().read, { chain, name: table.name }, slot);
      return bodies.map((body, entry) => [slot, entry, ...rowOf(table, body).slice(2)]);
    },
    async keptFrom(table) {
      const head = await readEventHead(store().read, { chain, name: table.name });
      return head?.keptFrom ?? Number.POSITIVE_INFINITY;
    },
    async cuts({ name }, first, last) {
      const cuts = await readCuts(store().read, { chain, names: [name], from: first });
      return cuts.flatMap((cut) => (cut.first <= last ? [[cut.first, Math.min(cut.last, last)] as const] : []));
    },
    drop: (table, below) => store().write((tx) => dropEvents(tx, { chain, name: table.name }, below)),
  };
}
