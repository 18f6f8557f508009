import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { inList } from '../../src/lib/in-list.ts';
import { stringify } from '../../src/lib/json.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Migration, Queries, Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import type { MintFacts, MintTransferFee } from '../../src/ports/tokens.ts';
import { type OffChainDocument, shapeDocument } from './document-shape.ts';

interface Tables {
  token_metadata_documents: {
    id: string;
    /** The fixed shape as JSON; null when missing, with the reason in `error`. */
    document: string | null;
    error: string;
    expires_at: number;
  };
  token_metadata_mints: {
    mint: string;
    /** JSON, with large numbers as text. */
    facts: string;
    /** JSON list of the accounts that they were read from. */
    keys: string;
    slot: number;
    read_at: number;
  };
  token_metadata_changes: { id: number; mint: string; slot: number };
}

export type MetadataDb = Queries<Tables>;

async function createTables(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const serial = sql.raw(
    tx.dialect === 'sqlite' ? 'INTEGER PRIMARY KEY AUTOINCREMENT' : 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
  );
  const statements = [
    // By the hash of the uri: some are longer than an index entry may be.
    sql`CREATE TABLE token_metadata_documents (
      id TEXT PRIMARY KEY, document TEXT, error TEXT NOT NULL, expires_at ${int} NOT NULL)`,
    sql`CREATE INDEX token_metadata_documents_by_age ON token_metadata_documents (expires_at)`,
    sql`CREATE TABLE token_metadata_mints (
      mint TEXT PRIMARY KEY, facts TEXT NOT NULL, keys TEXT NOT NULL, slot ${int} NOT NULL, read_at ${int} NOT NULL)`,
    sql`CREATE INDEX token_metadata_mints_by_age ON token_metadata_mints (read_at)`,
    // Changed mints, for processes that cache their facts.
    sql`CREATE TABLE token_metadata_changes (id ${serial}, mint TEXT NOT NULL, slot ${int} NOT NULL)`,
    sql`CREATE INDEX token_metadata_changes_by_slot ON token_metadata_changes (slot)`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create documents, mints and changes', breaking: false, up: createTables },
];

/** Facts of a mint, the accounts that they come from, and when. */
export interface KeptFacts {
  readonly mint: string;
  /** Null: there was no mint. */
  readonly facts: MintFacts | null;
  readonly keys: readonly string[];
  /** The oldest slot of what was read. */
  readonly slot: number;
  /** Unix milliseconds. */
  readonly readAtMs: number;
}

/** Facts that all threads and processes share; the block processor watches their accounts. */
export interface MintStore {
  /** Facts read after `afterMs` (Unix milliseconds). Empty when the store cannot be read. */
  load(mints: readonly string[], afterMs: number): Promise<readonly KeptFacts[]>;
  /** Written a little later, unless the chain has moved on. */
  save(kept: KeptFacts): void;
  prune(beforeMs: number): Promise<void>;
  flush(): Promise<void>;
  stop(): Promise<void>;
}

interface MintStoreParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxMints: number;
}

export function createMintStore({ store, clock, log, maxMints }: MintStoreParts): MintStore {
  const behind = createWriteBehind<KeptFacts>({ store, clock, log, what: 'facts of mints', write: writeMints });
  return {
    async load(mints, afterMs) {
      try {
        const rows = await (store.read as MetadataDb)
          .selectFrom('token_metadata_mints')
          .selectAll()
          .where(inList(store.dialect, 'mint', mints))
          .where('read_at', '>', afterMs)
          .execute();
        return rows.map(({ mint, facts, keys, slot, read_at }) => ({
          mint,
          facts: readFacts(facts),
          keys: JSON.parse(keys) as string[],
          slot,
          readAtMs: read_at,
        }));
      } catch (error) {
        log.warn({ err: error }, 'facts of mints cannot be looked up');
        return [];
      }
    },
    save: (kept) => behind.add(kept.mint, kept),
    prune: (beforeMs) => store.write((tx) => pruneMints(tx, beforeMs, maxMints)),
    flush: behind.flush,
    stop: behind.stop,
  };
}

async function writeMints(tx: StoreTx, given: readonly KeptFacts[]): Promise<void> {
  const db = tx.db as MetadataDb;
  const mints = given.map(({ mint }) => mint);
  const changes = await db
    .selectFrom('token_metadata_changes')
    .select(['mint', 'slot'])
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  const changedAt = new Map<string, number>();
  for (const { mint, slot } of changes) changedAt.set(mint, Math.max(slot, changedAt.get(mint) ?? 0));
  const current = given.filter(({ mint, slot }) => slot >= (changedAt.get(mint) ?? 0));
  await db
    .deleteFrom('token_metadata_mints')
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  await tx.insertMany(
    'token_metadata_mints',
    ['mint', 'facts', 'keys', 'slot', 'read_at'],
    current.map(({ mint, facts, keys, slot, readAtMs }) => [
      mint,
      writeFacts(facts),
      JSON.stringify(keys),
      slot,
      Math.floor(readAtMs),
    ]),
    'ignore',
  );
}

async function pruneMints(tx: StoreTx, beforeMs: number, maxMints: number): Promise<void> {
  const db = tx.db as MetadataDb;
  await db.deleteFrom('token_metadata_mints').where('read_at', '<', beforeMs).execute();
  const newest = db.selectFrom('token_metadata_mints').select('read_at').orderBy('read_at', 'desc');
  const oldest = await newest.offset(maxMints).limit(1).executeTakeFirst();
  if (oldest === undefined) return;
  await db.deleteFrom('token_metadata_mints').where('read_at', '<=', oldest.read_at).execute();
}

/** Facts as JSON text: large numbers are texts in it. */
function writeFacts(facts: MintFacts | null): string {
  return JSON.stringify(facts, (_name, value: unknown) => (typeof value === 'bigint' ? value.toString() : value));
}

/** Reads what `writeFacts` wrote. */
function readFacts(text: string): MintFacts | null {
  const facts = JSON.parse(text) as MintFacts | null;
  if (facts === null) return null;
  const fee = (given: MintTransferFee['newer']): MintTransferFee['newer'] => ({
    ...given,
    epoch: BigInt(given.epoch),
    maximum: BigInt(given.maximum),
  });
  const { transferFee } = facts;
  return {
    ...facts,
    supply: BigInt(facts.supply),
    transferFee: transferFee && { older: fee(transferFee.older), newer: fee(transferFee.newer) },
  };
}

interface Stored {
  readonly answer: OffChainAnswer;
  readonly untilMs: number;
}

/** Documents that outlive the process. */
export interface DocumentStore {
  /** Stored documents that have not expired. Empty when the store cannot be read. */
  load(uris: readonly string[]): Promise<ReadonlyMap<string, Stored>>;
  /** Written a little later. */
  save(uri: string, answer: OffChainAnswer, untilMs: number): void;
  /** Forgets what no longer counts, and the oldest of too many. */
  prune(): Promise<void>;
  flush(): Promise<void>;
  stop(): Promise<void>;
}

interface DocumentStoreParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxKept: number;
}

type DocumentValues = readonly [id: string, document: string | null, error: string, untilMs: number];

export function createDocumentStore({ store, clock, log, maxKept }: DocumentStoreParts): DocumentStore {
  const behind = createWriteBehind<DocumentValues>({ store, clock, log, what: 'documents', write: writeDocuments });
  return {
    async load(uris) {
      const uriOf = new Map(uris.map((uri) => [idOf(uri), uri]));
      try {
        const rows = await (store.read as MetadataDb)
          .selectFrom('token_metadata_documents')
          .selectAll()
          .where(inList(store.dialect, 'id', [...uriOf.keys()]))
          .where('expires_at', '>', clock.now())
          .execute();
        return new Map(
          rows.map((row) => [uriOf.get(row.id) ?? '', { answer: answerOf(row), untilMs: row.expires_at }]),
        );
      } catch (error) {
        log.warn({ err: error }, 'documents cannot be looked up');
        return new Map();
      }
    },
    save(uri, answer, untilMs) {
      // What stands in the uri itself needs no second place.
      if (uri.slice(0, 5).toLowerCase() === 'data:') return;
      const text = answer.document === null ? null : stringify(answer.document.original);
      behind.add(uri, [idOf(uri), text, answer.error, untilMs]);
    },
    prune: () => store.write((tx) => pruneDocuments(tx, clock.now(), maxKept)),
    flush: behind.flush,
    stop: behind.stop,
  };
}

const idOf = (uri: string): string => createHash('sha256').update(uri).digest('hex');

function answerOf({ document, error }: { document: string | null; error: string }): OffChainAnswer {
  const shaped = document === null ? null : shapeDocument(document);
  if (shaped !== null) return { document: shaped, error: '' };
  return { document: null, error: error === 'TIMEOUT' ? 'TIMEOUT' : 'UNKNOWN' };
}

async function writeDocuments(tx: StoreTx, rows: readonly DocumentValues[]): Promise<void> {
  const ids = rows.map(([id]) => id);
  await (tx.db as MetadataDb)
    .deleteFrom('token_metadata_documents')
    .where(inList(tx.dialect, 'id', ids))
    .execute();
  // Another process may have written the same one in between.
  await tx.insertMany('token_metadata_documents', ['id', 'document', 'error', 'expires_at'], rows, 'ignore');
}

async function pruneDocuments(tx: StoreTx, now: number, maxKept: number): Promise<void> {
  const db = tx.db as MetadataDb;
  await db.deleteFrom('token_metadata_documents').where('expires_at', '<=', now).execute();
  const oldest = await db
    .selectFrom('token_metadata_documents')
    .select('expires_at')
    .orderBy('expires_at', 'desc')
    .offset(maxKept)
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return;
  await db.deleteFrom('token_metadata_documents').where('expires_at', '<=', oldest.expires_at).execute();
}

/** A document, or the reason why it is missing. */
export type OffChainAnswer =
  | { readonly document: OffChainDocument; readonly error: '' }
  | { readonly document: null; readonly error: 'TIMEOUT' | 'UNKNOWN' };

export const failedDocument = (error: 'TIMEOUT' | 'UNKNOWN'): OffChainAnswer => ({ document: null, error });

/** Collects rows and writes them in batches a little later: no request waits for a cache write. */
export interface WriteBehind<Row> {
  /** A later row of the same key replaces the earlier one. Dropped when too many wait. */
  add(key: string, row: Row): void;
  /** Writes what waits now. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export interface WriteBehindParts<Row> {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** What is written, for the log. */
  readonly what: string;
  readonly write: (tx: StoreTx, rows: readonly Row[]) => Promise<void>;
}

const PAUSE_MS = 200;
const MAX_ROWS = 5_000;

function createWriteBehind<Row>({ store, clock, log, what, write }: WriteBehindParts<Row>): WriteBehind<Row> {
  let rows = new Map<string, Row>();
  let cancel: (() => void) | null = null;
  let writing: Promise<void> = Promise.resolve();
  let stopped = false;

  async function writeNow(): Promise<void> {
    if (rows.size === 0) return;
    const batch = [...rows.values()];
    rows = new Map();
    try {
      await store.write((tx) => write(tx, batch));
    } catch (error) {
      // A cache: what is not kept is read again.
      log.warn({ err: error, rows: batch.length }, `${what} were not kept`);
    }
  }

  const flush = (): Promise<void> => {
    cancel?.();
    cancel = null;
    writing = writing.then(writeNow);
    return writing;
  };

  return {
    add(key, row) {
      if (stopped || (rows.size >= MAX_ROWS && !rows.has(key))) return;
      rows.set(key, row);
      cancel ??= clock.timeout(PAUSE_MS, () => void flush());
    },
    flush,
    stop() {
      stopped = true;
      return flush();
    },
  };
}

export interface Upkeep {
  start(): void;
  stop(): void;
}

export interface UpkeepParts {
  readonly documents: DocumentStore;
  readonly mints: MintStore;
  readonly factsTtlMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

const PRUNE_MS = 600_000;

/** Removes what no longer counts from the store, every ten minutes. */
export function createMetadataUpkeep({ documents, mints, factsTtlMs, clock, log }: UpkeepParts): Upkeep {
  let cancel = (): void => {};
  let stopped = false;

  async function prune(): Promise<void> {
    try {
      await documents.prune();
      await mints.prune(clock.now() - factsTtlMs);
    } catch (error) {
      log.warn({ err: error }, 'old rows were not removed');
    }
  }

  function arm(): void {
    cancel = clock.timeout(PRUNE_MS, async () => {
      await prune();
      if (!stopped) arm();
    });
  }

  return {
    start: arm,
    stop() {
      stopped = true;
      cancel();
    },
  };
}
