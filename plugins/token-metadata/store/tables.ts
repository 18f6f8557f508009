import { sql } from 'kysely';
import type { Migration, Queries, StoreTx } from '../../../src/ports/store.ts';

interface Tables {
  token_metadata_documents: {
    id: string;
    /** The fixed shape as JSON; null where there is none, and `error` says why. */
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

export type Db = Queries<Tables>;

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
    // What was written to on the chain, for whoever keeps it in memory.
    sql`CREATE TABLE token_metadata_changes (id ${serial}, mint TEXT NOT NULL, slot ${int} NOT NULL)`,
    sql`CREATE INDEX token_metadata_changes_by_slot ON token_metadata_changes (slot)`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create documents, mints and changes', breaking: false, up: createTables },
];
