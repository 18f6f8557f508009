import { type RawBuilder, sql } from 'kysely';
import type { ChainId } from '../../src/ports/block.ts';
import type { Migration, Queries, Store, StoreTx } from '../../src/ports/store.ts';

/**
 * What the daemon says and is told about its sinks. None of it decides what is written: that is the position in the target.
 */
interface SinkStateRow {
  name: string;
  /** 1: an operator stopped it. */
  is_paused: number;
  /** The thread that writes it, and until when (unix ms) others leave it alone. */
  holder: string | null;
  held_until: number;
  /** Slots of the part that follows the chain, as the target said last; null: not known yet. */
  first_slot: number | null;
  last_slot: number | null;
  /** Why it does not go on; null while it does. */
  error_code: string | null;
  error: string | null;
  updated_at: number;
}

export type TaskKind = 'backfill' | 'verify';
/** `open` until it is done or found impossible. */
export type TaskState = 'open' | 'done' | 'failed';

export interface SinkTaskRow {
  id: string;
  sink: string;
  kind: TaskKind;
  /** Slots, both inclusive. */
  first_slot: number;
  last_slot: number;
  /** Everything below is done. */
  next_slot: number;
  state: TaskState;
  /** JSON of what `verify` found, or the text of a failure. */
  detail: string | null;
  created_at: number;
}

interface SinkTables {
  sinks_state: SinkStateRow;
  sinks_tasks: SinkTaskRow;
  /** Rows that no block contains. `slot`: null until it is fixed; `body`: the row as JSON, with 0 for its slot and entry. */
  sinks_events: { id: number; chain: string; name: string; slot: number | null; body: string };
  /**
   * What is known of a table of them: rows of slots up to `fixed_to` no longer change; those below `kept_from` are not, or no longer, kept.
   * `bytes`: the bodies of the rows that have a slot.
   */
  sinks_event_heads: { chain: string; name: string; fixed_to: number; kept_from: number; bytes: number };
  /** Slots, both inclusive, whose rows were dropped at the bound before every sink had them. */
  sinks_event_cuts: { chain: string; name: string; first_slot: number; last_slot: number; row_count: number };
  /** Slots of a sink, both inclusive, that were written without the rows of a table: those were cut before. */
  sinks_holes: { sink: string; name: string; first_slot: number; last_slot: number };
}

const tables = (db: Queries): Queries<SinkTables> => db as Queries<SinkTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create states and tasks of sinks',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('sinks_state')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('is_paused', 'bigint', (column) => column.notNull())
        .addColumn('holder', 'text')
        .addColumn('held_until', 'bigint', (column) => column.notNull())
        .addColumn('first_slot', 'bigint')
        .addColumn('last_slot', 'bigint')
        .addColumn('error_code', 'text')
        .addColumn('error', 'text')
        .addColumn('updated_at', 'bigint', (column) => column.notNull())
        .execute();
      await tx.db.schema
        .createTable('sinks_tasks')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('sink', 'text', (column) => column.notNull())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('first_slot', 'bigint', (column) => column.notNull())
        .addColumn('last_slot', 'bigint', (column) => column.notNull())
        .addColumn('next_slot', 'bigint', (column) => column.notNull())
        .addColumn('state', 'text', (column) => column.notNull())
        .addColumn('detail', 'text')
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
      await tx.db.schema.createIndex('sinks_tasks_open').on('sinks_tasks').columns(['sink', 'state']).execute();
    },
  },
  {
    version: 2,
    name: 'create rows that no block contains',
    breaking: false,
    async up({ db, dialect }) {
      const isSqlite = dialect === 'sqlite';
      const int = sql.raw(isSqlite ? 'INTEGER' : 'BIGINT');
      const serial = sql.raw(
        isSqlite ? 'INTEGER PRIMARY KEY AUTOINCREMENT' : 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
      );
      const statements = [
        sql`CREATE TABLE sinks_events (
          id ${serial}, chain TEXT NOT NULL, name TEXT NOT NULL, slot ${int}, body TEXT NOT NULL)`,
        sql`CREATE INDEX sinks_events_by_slot ON sinks_events (chain, name, slot, id)`,
        sql`CREATE TABLE sinks_event_heads (
          chain TEXT NOT NULL, name TEXT NOT NULL, fixed_to ${int} NOT NULL, kept_from ${int} NOT NULL,
          PRIMARY KEY (chain, name))`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  },
  {
    version: 3,
    name: 'create the bound of rows that no block contains, and the holes of sinks',
    breaking: false,
    async up({ db, dialect }) {
      const int = sql.raw(dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
      const statements = [
        sql`ALTER TABLE sinks_event_heads ADD COLUMN bytes ${int} NOT NULL DEFAULT 0`,
        sql`UPDATE sinks_event_heads SET bytes = COALESCE((
          SELECT SUM(octet_length(e.body)) FROM sinks_events e
          WHERE e.chain = sinks_event_heads.chain AND e.name = sinks_event_heads.name AND e.slot IS NOT NULL), 0)`,
        sql`CREATE TABLE sinks_event_cuts (
          chain TEXT NOT NULL, name TEXT NOT NULL, first_slot ${int} NOT NULL, last_slot ${int} NOT NULL, row_count ${int} NOT NULL,
          PRIMARY KEY (chain, name, first_slot))`,
        sql`CREATE TABLE sinks_holes (
          sink TEXT NOT NULL, name TEXT NOT NULL, first_slot ${int} NOT NULL, last_slot ${int} NOT NULL,
          PRIMARY KEY (sink, name, first_slot))`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  },
];

export interface SinkState {
  readonly name: string;
  readonly isPaused: boolean;
  readonly first: number | null;
  readonly last: number | null;
  readonly errorCode: string | null;
  readonly error: string | null;
  /** Unix ms; 0: it was never written. */
  readonly updatedAt: number;
}

const UNKNOWN = { isPaused: false, first: null, last: null, errorCode: null, error: null, updatedAt: 0 };

export async function readStates(db: Store['read'], names: readonly string[]): Promise<ReadonlyMap<string, SinkState>> {
  const rows = await tables(db).selectFrom('sinks_state').selectAll().execute();
  const found = new Map(rows.map((row) => [row.name, stateOf(row)]));
  return new Map(names.map((name) => [name, found.get(name) ?? { name, ...UNKNOWN }]));
}

const stateOf = (row: SinkStateRow): SinkState => ({
  name: row.name,
  isPaused: row.is_paused === 1,
  first: row.first_slot,
  last: row.last_slot,
  errorCode: row.error_code,
  error: row.error,
  updatedAt: row.updated_at,
});

const newRow = (name: string, now: number): SinkStateRow => ({
  name,
  is_paused: 0,
  holder: null,
  held_until: 0,
  first_slot: null,
  last_slot: null,
  error_code: null,
  error: null,
  updated_at: now,
});

/**
 * Whether this thread is the one that writes the sink, from now until `leaseMs` later. It only spares the target several writers: a writer
 * whose lease ended loses the race for the position.
 */
export async function claimSink(store: Store, { name, holder, now, leaseMs, isGone }: ClaimRequest): Promise<boolean> {
  return await store.write(async (tx) => {
    const row = newRow(name, now);
    await tx.insertMany('sinks_state', Object.keys(row), [Object.values(row)], 'ignore');
    const db = tables(tx.db);
    const state = await db
      .selectFrom('sinks_state')
      .select(['holder', 'held_until'])
      .where('name', '=', name)
      .executeTakeFirstOrThrow();
    const isFree =
      state.holder === null || state.holder === holder || Number(state.held_until) < now || isGone(state.holder);
    if (!isFree) return false;
    const { numUpdatedRows } = await db
      .updateTable('sinks_state')
      .set({ holder, held_until: now + leaseMs })
      .where('name', '=', name)
      // Another one may have claimed it since.
      .where('holder', state.holder === null ? 'is' : '=', state.holder)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  });
}

interface ClaimRequest {
  readonly name: string;
  readonly holder: string;
  /** Unix milliseconds. */
  readonly now: number;
  readonly leaseMs: number;
  /** Whether a holder is known to have ended: nobody waits for its lease. */
  readonly isGone: (holder: string) => boolean;
}

export async function releaseSink(store: Store, name: string, holder: string): Promise<void> {
  await store.write(async (tx) => {
    await tables(tx.db)
      .updateTable('sinks_state')
      .set({ holder: null, held_until: 0 })
      .where('name', '=', name)
      .where('holder', '=', holder)
      .execute();
  });
}

export interface SinkReport {
  readonly first: number | null;
  readonly last: number | null;
  readonly errorCode: string | null;
  readonly error: string | null;
}

export async function reportSink(store: Store, name: string, report: SinkReport, now: number): Promise<void> {
  await store.write(async (tx) => {
    await tables(tx.db)
      .updateTable('sinks_state')
      .set({
        first_slot: report.first,
        last_slot: report.last,
        error_code: report.errorCode,
        error: report.error,
        updated_at: now,
      })
      .where('name', '=', name)
      .execute();
  });
}

export async function setPaused(store: Store, name: string, isPaused: boolean, now: number): Promise<void> {
  await store.write(async (tx) => {
    const row = newRow(name, now);
    await tx.insertMany('sinks_state', Object.keys(row), [Object.values(row)], 'ignore');
    await tables(tx.db)
      .updateTable('sinks_state')
      .set({ is_paused: isPaused ? 1 : 0 })
      .where('name', '=', name)
      .execute();
  });
}

export async function addTask(store: Store, task: SinkTaskRow): Promise<void> {
  await store.write(async (tx) => {
    await tx.insertMany('sinks_tasks', Object.keys(task), [Object.values(task) as (string | number | null)[]]);
  });
}

export async function openTasks(db: Store['read'], sink: string): Promise<readonly SinkTaskRow[]> {
  return await tables(db)
    .selectFrom('sinks_tasks')
    .selectAll()
    .where('sink', '=', sink)
    .where('state', '=', 'open')
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

export async function readTask(db: Store['read'], id: string): Promise<SinkTaskRow | null> {
  return (await tables(db).selectFrom('sinks_tasks').selectAll().where('id', '=', id).executeTakeFirst()) ?? null;
}

export async function updateTask(
  store: Store,
  id: string,
  change: Partial<Pick<SinkTaskRow, 'next_slot' | 'state' | 'detail'>>,
): Promise<void> {
  await store.write(async (tx) => {
    await tables(tx.db).updateTable('sinks_tasks').set(change).where('id', '=', id).execute();
  });
}

/** A table of rows that no block contains. */
export interface EventTable {
  readonly chain: ChainId;
  readonly name: string;
}

export interface EventHead {
  readonly fixedTo: number;
  readonly keptFrom: number;
}

/** Null: no sink ever asked for the table. */
export async function readEventHead(
  db: Store['read'] | StoreTx['db'],
  { chain, name }: EventTable,
): Promise<EventHead | null> {
  const row = await tables(db)
    .selectFrom('sinks_event_heads')
    .selectAll()
    .where('chain', '=', chain)
    .where('name', '=', name)
    .executeTakeFirst();
  return row === undefined ? null : { fixedTo: row.fixed_to, keptFrom: row.kept_from };
}

/** The table is kept from this slot on, unless it is kept already. */
export async function beginEvents(tx: StoreTx, { chain, name }: EventTable, slot: number): Promise<void> {
  const row = [chain, name, slot - 1, slot, 0];
  await tx.insertMany('sinks_event_heads', ['chain', 'name', 'fixed_to', 'kept_from', 'bytes'], [row], 'ignore');
}

/** Moves the end of what is fixed; false: another one was faster. It locks the head until the transaction ends. */
export async function moveEvents(
  tx: StoreTx,
  { chain, name }: EventTable,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<boolean> {
  const { numUpdatedRows } = await tables(tx.db)
    .updateTable('sinks_event_heads')
    .set({ fixed_to: to })
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('fixed_to', '=', from)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Rows that get their slot when it is fixed. */
export async function addEvents(tx: StoreTx, { chain, name }: EventTable, bodies: readonly string[]): Promise<void> {
  const values = bodies.map((body) => [chain, name, null, body]);
  await tx.insertMany('sinks_events', ['chain', 'name', 'slot', 'body'], values);
}

/** Rows of known slots. The head is locked. */
export async function addFixedEvents(
  tx: StoreTx,
  { chain, name }: EventTable,
  rows: readonly { readonly slot: number; readonly body: string }[],
): Promise<void> {
  const values = rows.map(({ slot, body }) => [chain, name, slot, body]);
  await tx.insertMany('sinks_events', ['chain', 'name', 'slot', 'body'], values);
  const bytes = rows.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  await addBytes(tx, { chain, name }, bytes);
}

/** Rows that have no slot get this one. The head is locked. */
export async function fixEvents(tx: StoreTx, { chain, name }: EventTable, slot: number): Promise<void> {
  await addBytes(tx, { chain, name }, await bytesWhere(tx, { chain, name }, sql<boolean>`slot IS NULL`));
  await tables(tx.db)
    .updateTable('sinks_events')
    .set({ slot })
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('slot', 'is', null)
    .execute();
}

/** Bytes of the bodies of some rows of a table. */
async function bytesWhere(tx: StoreTx, { chain, name }: EventTable, which: RawBuilder<boolean>): Promise<number> {
  const found = await tables(tx.db)
    .selectFrom('sinks_events')
    .select(sql<number | null>`CAST(SUM(octet_length(body)) AS BIGINT)`.as('bytes'))
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where(which)
    .executeTakeFirst();
  return Number(found?.bytes ?? 0);
}

async function addBytes(tx: StoreTx, { chain, name }: EventTable, bytes: number): Promise<void> {
  if (bytes === 0) return;
  await tables(tx.db)
    .updateTable('sinks_event_heads')
    .set((head) => ({ bytes: head('bytes', '+', bytes) }))
    .where('chain', '=', chain)
    .where('name', '=', name)
    .execute();
}

/** Slots with rows, both inclusive, ascending. */
export async function eventSlots(
  db: Store['read'],
  { chain, name }: EventTable,
  [first, last]: readonly [number, number],
): Promise<readonly number[]> {
  const rows = await tables(db)
    .selectFrom('sinks_events')
    .select('slot')
    .distinct()
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('slot', '>=', first)
    .where('slot', '<=', last)
    .orderBy('slot')
    .execute();
  return rows.map(({ slot }) => slot as number);
}

export async function eventBodies(
  db: Store['read'],
  { chain, name }: EventTable,
  slot: number,
): Promise<readonly string[]> {
  const rows = await tables(db)
    .selectFrom('sinks_events')
    .select('body')
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('slot', '=', slot)
    .orderBy('id')
    .execute();
  return rows.map(({ body }) => body);
}

/** Rows below a slot are kept no longer. */
export async function dropEvents(tx: StoreTx, { chain, name }: EventTable, below: number): Promise<void> {
  // First, so that the head is locked.
  await tables(tx.db)
    .updateTable('sinks_event_heads')
    .set({ kept_from: below })
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('kept_from', '<', below)
    .execute();
  await addBytes(tx, { chain, name }, -(await bytesWhere(tx, { chain, name }, sql<boolean>`slot < ${below}`)));
  await tables(tx.db)
    .deleteFrom('sinks_events')
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('slot', '<', below)
    .execute();
}

export async function readEventBytes(db: Store['read']): Promise<number> {
  const heads = await tables(db).selectFrom('sinks_event_heads').select('bytes').execute();
  return heads.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Slots of a table, both inclusive. */
export interface EventRange {
  readonly name: string;
  readonly first: number;
  readonly last: number;
}

export interface EventCut extends EventRange {
  readonly chain: string;
  readonly rows: number;
}

/**
 * Drops rows until those of all tables take at most `limitBytes`: first what every sink has, then the oldest of the largest table, whoever
 * lacks them. The latter are cuts, written down in the same transaction. `takenTo`: the first slot of a table that some sink lacks.
 */
export async function boundEvents(
  store: Store,
  limitBytes: number,
  takenTo: (table: { readonly chain: string; readonly name: string }) => number,
): Promise<readonly EventCut[]> {
  if ((await readEventBytes(store.read)) <= limitBytes) return [];
  return await store.write(async (tx) => {
    // Locks the heads: of two threads one cuts, and the other sees it.
    await tables(tx.db)
      .updateTable('sinks_event_heads')
      .set((head) => ({ bytes: head.ref('bytes') }))
      .execute();
    const heads = await tables(tx.db).selectFrom('sinks_event_heads').selectAll().orderBy('bytes', 'desc').execute();
    let excess = heads.reduce((sum, { bytes }) => sum + bytes, 0) - limitBytes;
    const cuts: EventCut[] = [];
    for (const isTaken of [true, false])
      for (const { chain, name, kept_from } of heads) {
        if (excess <= 0) break;
        const table = { chain: chain as ChainId, name };
        const taken = takenTo(table);
        const oldest = await oldestEvents(tx, table, { before: isTaken ? taken : Number.MAX_SAFE_INTEGER, excess });
        if (oldest.rows === 0) continue;
        await dropEvents(tx, table, oldest.last + 1);
        excess -= oldest.bytes;
        if (isTaken) continue;
        const cut = { chain, name, first: Math.max(kept_from, taken), last: oldest.last, rows: oldest.rows };
        await addCut(tx, cut);
        cuts.push(cut);
      }
    return cuts;
  });
}

/** Slots of one question. */
const SLOTS_AT_ONCE = 500;

/** The oldest rows of a table, whole slots, until they take `excess` bytes. */
async function oldestEvents(
  tx: StoreTx,
  { chain, name }: EventTable,
  { before, excess }: { readonly before: number; readonly excess: number },
) {
  const found = { rows: 0, bytes: 0, last: -1 };
  for (;;) {
    const slots = await tables(tx.db)
      .selectFrom('sinks_events')
      .select([
        'slot',
        sql<number>`CAST(SUM(octet_length(body)) AS BIGINT)`.as('bytes'),
        sql<number>`COUNT(*)`.as('rows'),
      ])
      .where('chain', '=', chain)
      .where('name', '=', name)
      .where('slot', '>', found.last)
      .where('slot', '<', before)
      .groupBy('slot')
      .orderBy('slot')
      .limit(SLOTS_AT_ONCE)
      .execute();
    for (const { slot, bytes, rows } of slots) {
      if (found.bytes >= excess) return found;
      found.bytes += Number(bytes);
      found.rows += Number(rows);
      found.last = slot!;
    }
    if (slots.length < SLOTS_AT_ONCE) return found;
  }
}

/** One that goes on where another one ended makes it longer. */
async function addCut(tx: StoreTx, { chain, name, first, last, rows }: EventCut): Promise<void> {
  const { numUpdatedRows } = await tables(tx.db)
    .updateTable('sinks_event_cuts')
    .set((cut) => ({ last_slot: last, row_count: cut('row_count', '+', rows) }))
    .where('chain', '=', chain)
    .where('name', '=', name)
    .where('last_slot', '=', first - 1)
    .executeTakeFirst();
  if (numUpdatedRows > 0n) return;
  const columns = ['chain', 'name', 'first_slot', 'last_slot', 'row_count'];
  await tx.insertMany('sinks_event_cuts', columns, [[chain, name, first, last, rows]]);
}

/** What was cut of tables, at or above a slot. */
export async function readCuts(
  db: Store['read'],
  { chain, names, from }: { readonly chain: ChainId; readonly names: readonly string[]; readonly from: number },
): Promise<readonly EventRange[]> {
  if (names.length === 0) return [];
  const cuts = await tables(db)
    .selectFrom('sinks_event_cuts')
    .selectAll()
    .where('chain', '=', chain)
    .where('name', 'in', [...names])
    .where('last_slot', '>=', from)
    .orderBy('first_slot')
    .execute();
  return cuts.map(({ name, first_slot, last_slot }) => ({ name, first: Math.max(from, first_slot), last: last_slot }));
}

/** Before the batch that lacks them is written; a batch that is repeated finds them there. */
export async function addHoles(store: Store, sink: string, holes: readonly EventRange[]): Promise<void> {
  await store.write(async (tx) => {
    for (const { name, first, last } of holes) {
      const touching = await tables(tx.db)
        .selectFrom('sinks_holes')
        .selectAll()
        .where('sink', '=', sink)
        .where('name', '=', name)
        .where('first_slot', '<=', last + 1)
        .where('last_slot', '>=', first - 1)
        .execute();
      for (const { first_slot } of touching)
        await tables(tx.db)
          .deleteFrom('sinks_holes')
          .where('sink', '=', sink)
          .where('name', '=', name)
          .where('first_slot', '=', first_slot)
          .execute();
      const from = Math.min(first, ...touching.map(({ first_slot }) => first_slot));
      const to = Math.max(last, ...touching.map(({ last_slot }) => last_slot));
      await tx.insertMany('sinks_holes', ['sink', 'name', 'first_slot', 'last_slot'], [[sink, name, from, to]]);
    }
  });
}

export async function readHoles(db: Store['read'], sink: string): Promise<readonly EventRange[]> {
  const holes = await tables(db)
    .selectFrom('sinks_holes')
    .selectAll()
    .where('sink', '=', sink)
    .orderBy('name')
    .orderBy('first_slot')
    .execute();
  return holes.map(({ name, first_slot: first, last_slot: last }) => ({ name, first, last }));
}
