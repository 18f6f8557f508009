import { setTimeout as sleep } from 'node:timers/promises';
import { Kysely, type QueryResult } from 'kysely';
import type pg from 'pg';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { SqlValue, Store, StoreTx } from '../ports/store.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { isDescriptorCode, outOfDescriptors } from './descriptors.ts';
import {
  beat,
  type Connection,
  conflictText,
  createDialect,
  createTransaction,
  type InsertRows,
  insertInto,
  insertText,
  quote,
} from './transaction.ts';

export interface PostgresStoreOptions {
  /** postgres://user:password@host:port/database; never logged. */
  readonly url: string;
  /** Total connections; half of them write, and at least one reads. */
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
}

const MAX_RUNS = 6;
/** A random pause from nothing to twice the base. */
const RERUN_BACKOFF = { firstMs: 10, jitter: 1 };

/**
 * Opens a PostgreSQL database and checks that it answers. Lost connections are replaced on their next use.
 * Errors: STORE_UNREACHABLE.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { default: library } = await import('pg');
  const types = sameValues(library.types);
  const shared = { url: options.url, statementTimeoutMs: options.statementTimeoutMs };
  const writing = Math.max(1, Math.floor(options.poolSize / 2));
  const writers = createPool(library, types, { ...shared, max: writing, readOnly: false });
  const readers = createPool(library, types, {
    ...shared,
    max: Math.max(1, options.poolSize - writing),
    readOnly: true,
  });
  const closePools = async () => {
    await Promise.all([readers.close(), writers.close()]);
  };
  try {
    readers.release(await readers.acquire());
    writers.release(await writers.acquire());
  } catch (error) {
    await closePools();
    throw error;
  }

  const read = new Kysely({
    dialect: createDialect('postgres', {
      acquire: async () => createPostgresConnection(await readers.acquire()),
      release: (held) => readers.release((held as PostgresConnection).client),
      // One snapshot for all statements, as in read transactions of SQLite.
      begin: 'begin isolation level repeatable read read only',
    }),
  });
  const running = new Set<Promise<unknown>>();
  const columnTypes: ColumnTypes = new Map();
  let closing: Promise<void> | null = null;
  const write = async <T>(work: (tx: StoreTx) => Promise<T>): Promise<T> => {
    if (closing !== null) throw new CodedError('STORE_CLOSED', 'the store is closed');
    const run = runWithReruns(() => runOnce(writers, columnTypes, work));
    running.add(run);
    try {
      return await run;
    } finally {
      running.delete(run);
    }
  };
  return {
    dialect: 'postgres',
    read,
    write,
    version: () => null,
    probe: () => beat(write, read),
    close() {
      closing ??= Promise.allSettled(running).then(closePools);
      return closing;
    },
  };
}

async function runOnce<T>(
  writers: ConnectionPool,
  columnTypes: ColumnTypes,
  work: (tx: StoreTx) => Promise<T>,
): Promise<T> {
  const client = await writers.acquire();
  const connection = createPostgresConnection(client);
  const transaction = createTransaction('postgres', connection, postgresInsert(columnTypes));
  let result: T;
  try {
    await connection.query('begin isolation level read committed read write', []);
    result = await transaction.run(work);
    await connection.query('commit', []);
  } catch (error) {
    const rolledBack = await connection.query('rollback', []).then(
      () => true,
      () => false,
    );
    writers.release(client, !rolledBack);
    throw error;
  }
  writers.release(client);
  await Promise.all(transaction.committed());
  return result;
}

/** A deadlock or serialization failure has rolled everything back: the work runs again, after increasing random pauses. */
async function runWithReruns<T>(once: () => Promise<T>): Promise<T> {
  for (let run = 1; ; run += 1) {
    try {
      return await once();
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      if (run >= MAX_RUNS || !(isSerialisationFailure(error) || isSerialisationFailure(cause)))
        throw postgresError(error);
      await sleep(backoffMs(run, { float: Math.random }, RERUN_BACKOFF));
    }
  }
}

export interface PostgresPoolOptions {
  readonly url: string;
  readonly max: number;
  readonly statementTimeoutMs: number;
  readonly readOnly: boolean;
}

export interface ConnectionPool {
  /** Errors: STORE_UNREACHABLE, STORE_CLOSED. */
  acquire(): Promise<pg.PoolClient>;
  /** A client that failed is discarded instead of reused. */
  release(client: pg.PoolClient, failed?: boolean): void;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;
/** A process that is paused or disconnected within a transaction must not block its successor for long. */
const IDLE_WRITER_MS = 15_000;
/** Timeout on the client side, for a server that has vanished without closing its sockets. */
const SILENCE_EXTRA_MS = 5_000;

function createPool(library: typeof pg, types: pg.CustomTypesConfig, options: PostgresPoolOptions): ConnectionPool {
  const pool = new library.Pool({
    connectionString: options.url,
    max: options.max,
    types,
    application_name: 'parhelion',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    statement_timeout: options.statementTimeoutMs,
    idle_in_transaction_session_timeout: options.readOnly
      ? options.statementTimeoutMs
      : Math.min(options.statementTimeoutMs, IDLE_WRITER_MS),
    query_timeout: options.statementTimeoutMs + SILENCE_EXTRA_MS,
    onConnect: async (client) => {
      if (options.readOnly) await client.query('set default_transaction_read_only = on');
    },
  });
  // A lost idle connection is replaced by the next acquire; without a listener the error would end the process.
  pool.on('error', () => {});

  const acquiring = new Set<Promise<pg.PoolClient>>();
  let isClosed = false;
  return {
    async acquire() {
      if (isClosed) throw new CodedError('STORE_CLOSED', 'the store is closed');
      const connecting = pool.connect();
      acquiring.add(connecting);
      try {
        const client = await connecting;
        if (client.listenerCount('error') === 0) client.on('error', () => {});
        return client;
      } catch (error) {
        throw postgresError(error);
      } finally {
        acquiring.delete(connecting);
      }
    },
    release: (client, failed = false) => client.release(failed),
    async close() {
      isClosed = true;
      // The pool never answers those that still wait for a connection when it ends.
      await Promise.allSettled(acquiring);
      await pool.end();
    },
  };
}

export interface PostgresConnection extends Connection {
  readonly client: pg.PoolClient;
}

function createPostgresConnection(client: pg.PoolClient): PostgresConnection {
  return {
    client,
    async query(sql, parameters): Promise<QueryResult<unknown>> {
      try {
        const { command, rows, rowCount } = await client.query(sql, bindable(parameters));
        const isChange = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE' || command === 'MERGE';
        return isChange ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
      } catch (error) {
        throw postgresError(error);
      }
    },
    stream(sql, parameters, chunkSize) {
      return cursorRows(this, sql, parameters, chunkSize);
    },
  };
}

/** The server keeps the rows (with `with hold` also outside of a transaction), so that this process never holds all of them. */
async function* cursorRows(connection: Connection, sql: string, parameters: readonly unknown[], chunkSize: number) {
  await connection.query(`declare parhelion_stream cursor with hold for ${sql}`, parameters);
  try {
    for (;;) {
      const { rows } = await connection.query(`fetch ${Math.max(1, Math.trunc(chunkSize))} from parhelion_stream`, []);
      if (rows.length > 0) yield rows;
      if (rows.length < chunkSize) return;
    }
  } finally {
    await connection.query('close parhelion_stream', []).catch(() => undefined);
  }
}

/** The protocol has 16 bits for the number of parameters. */
const MAX_PARAMETERS = 65_535;
const MAX_ROWS = 1_000;

/** Types of the columns of a table by name; of the tables that rows were inserted into. */
type ColumnTypes = Map<string, ReadonlyMap<string, number>>;

/**
 * Inserts several rows as one array per column: the server parses and plans a short text instead of one with a placeholder per value,
 * and bytes travel as they are. Values that are not of the type of their column, and types without an array here, go as single values.
 */
function postgresInsert(known: ColumnTypes): InsertRows {
  async function readTypes(connection: Connection, table: string): Promise<ReadonlyMap<string, number>> {
    const { rows } = await connection.query(COLUMN_TYPES, [quote(table)]);
    const types = new Map((rows as { name: string; type: number }[]).map(({ name, type }) => [name, Number(type)]));
    known.set(table, types);
    return types;
  }
  return async (connection, table, columns, rows, onConflict) => {
    const perStatement = Math.max(1, Math.min(MAX_ROWS, Math.floor(MAX_PARAMETERS / columns.length)));
    // Not waited for when it is known: the statement keeps its place among the others of the transaction.
    const types = rows.length === 1 ? null : (known.get(table) ?? (await readTypes(connection, table)));
    let written = 0;
    for (let start = 0; start < rows.length; start += perStatement) {
      const piece = rows.slice(start, start + perStatement);
      const arrays = types === null ? null : encodeColumns(types, columns, piece);
      const places = arrays?.map(({ name }, at) => `$${at + 1}::${name}[]`).join(',');
      const text =
        places === undefined
          ? insertText(table, columns, piece.length, onConflict, (position) => `$${position}`)
          : `${insertInto(table, columns)} select * from unnest(${places})${conflictText(onConflict)}`;
      const values = arrays === null ? piece.flat() : arrays.map(({ bytes }) => bytes);
      const { numAffectedRows } = await connection.query(text, values);
      written += Number(numAffectedRows ?? 0n);
    }
    return written;
  };
}

/** Null: a column or a value has no array form. */
function encodeColumns(
  types: ReadonlyMap<string, number>,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
): readonly { readonly name: string; readonly bytes: Buffer }[] | null {
  const arrays: { name: string; bytes: Buffer }[] = [];
  for (const [at, column] of columns.entries()) {
    const type = ARRAY_TYPES.get(types.get(column) ?? 0);
    if (type === undefined) return null;
    const bytes = encodeArray(
      type,
      rows.map((row) => row[at] ?? null),
    );
    if (bytes === null) return null;
    arrays.push({ name: type.name, bytes });
  }
  return arrays;
}

const COLUMN_TYPES = `select attname as name, atttypid as type from pg_attribute
  where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`;

/** A type whose arrays are encoded as the server stores them. */
interface ArrayType {
  readonly id: number;
  readonly name: string;
  /** Bytes of a value; null: it has another type. */
  encode(value: SqlValue): Uint8Array | null;
}

const BYTEA: ArrayType = { id: 17, name: 'bytea', encode: (value) => (value instanceof Uint8Array ? value : null) };
const ARRAY_TYPES: ReadonlyMap<number, ArrayType> = new Map(
  [
    BYTEA,
    { id: 20, name: 'bigint', encode: (value: SqlValue) => encodeInteger(value) },
    { id: 25, name: 'text', encode: (value: SqlValue) => (typeof value === 'string' ? Buffer.from(value) : null) },
  ].map((type) => [type.id, type]),
);

function encodeInteger(value: SqlValue): Uint8Array | null {
  if (!Number.isSafeInteger(value) && typeof value !== 'boolean') return null;
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64BE(BigInt(value as number | boolean));
  return bytes;
}

/** The binary form: number of dimensions, whether there are nulls, type, length, first index; then each value after its length. */
const ARRAY_HEADER = 20;
const NULL_LENGTH = -1;

function encodeArray({ id, encode }: ArrayType, values: readonly SqlValue[]): Buffer | null {
  const encoded: (Uint8Array | null)[] = [];
  let size = ARRAY_HEADER;
  for (const value of values) {
    const bytes = value === null ? null : encode(value);
    if (bytes === null && value !== null) return null;
    size += 4 + (bytes?.length ?? 0);
    encoded.push(bytes);
  }
  const array = Buffer.allocUnsafe(size);
  let at = 0;
  for (const word of [1, Number(values.includes(null)), id, values.length, 1]) at = array.writeInt32BE(word, at);
  for (const bytes of encoded) {
    at = array.writeInt32BE(bytes?.length ?? NULL_LENGTH, at);
    if (bytes === null) continue;
    array.set(bytes, at);
    at += bytes.length;
  }
  return array;
}

type TypeId = Parameters<typeof pg.types.getTypeParser>[0];

const BOOL = 16;
const INT8 = 20;
const NUMERIC = 1700;

type Parse = (text: string) => unknown;
interface Parsers {
  getTypeParser(oid: TypeId, format?: 'text' | 'binary'): unknown;
}

/**
 * Makes PostgreSQL return the same JavaScript values as SQLite: integers as numbers, booleans as 0 and 1.
 * `sum` of bigint columns is numeric and becomes a number too.
 */
function sameValues(defaults: Parsers): Parsers {
  const own = new Map<number, Parse>([
    [BOOL, (text) => (text === 't' ? 1 : 0)],
    [INT8, Number],
    [NUMERIC, Number],
  ]);
  return {
    getTypeParser: (oid, format) =>
      (format === 'binary' ? undefined : own.get(oid)) ?? defaults.getTypeParser(oid, format),
  };
}

/** Booleans are integers in our tables. Lists of bytes are sent as bytes: the library would write them as hexadecimal text. */
function bindable(parameters: readonly unknown[]): unknown[] {
  const isChanged = (value: unknown) => typeof value === 'boolean' || isListOfBytes(value);
  if (!parameters.some(isChanged)) return parameters as unknown[];
  return parameters.map((value) => {
    if (typeof value === 'boolean') return Number(value);
    return isListOfBytes(value) ? (encodeArray(BYTEA, value) ?? value) : value;
  });
}

const isListOfBytes = (value: unknown): value is readonly SqlValue[] =>
  Array.isArray(value) && value[0] instanceof Uint8Array;

const SQLSTATE = /^[0-9A-Z]{5}$/;
/** The server is starting or stopping, has no free connection, or ended an idle one. */
const UNREACHABLE_STATES = ['57P01', '57P02', '57P03', '57P05', '25P03', '53300'];
const DAMAGED_STATES = ['XX001', 'XX002'];
const NETWORK_CODES = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOENT|ERR_SSL|ERR_TLS|CERT_)/;
/** pg reports these without a code. */
const NETWORK_MESSAGES =
  /connection terminated|connection timeout|trying to connect|connection error|not queryable|query read timeout|unable to connect|does not support ssl/i;

/** Whether a retry of the whole transaction may help: serialization failure or deadlock. */
function isSerialisationFailure(error: unknown): boolean {
  const state = codeOf(error);
  return state === '40001' || state === '40P01';
}

/** Converts an error of pg to a coded one; programming errors (bad SQL) stay unchanged. */
export function postgresError(error: unknown): unknown {
  if (error instanceof CodedError) return error;
  const code = codeOf(error) ?? '';
  return SQLSTATE.test(code) && !NETWORK_CODES.test(code) ? stateError(error, code) : networkError(error, code);
}

function stateError(error: unknown, state: string): unknown {
  const options = { cause: error, facts: { sqlstate: state } };
  if (state === '23505') return new CodedError('STORE_CONFLICT', 'a row with this key exists', options);
  if (state.startsWith('23')) {
    return new CodedError('STORE_CONSTRAINT', `a row breaks a rule of its table (${state})`, options);
  }
  if (state === '53100')
    return new CodedError('STORE_FULL', 'the disk of the database server is full', {
      ...options,
      exitCode: EXIT.temporary,
    });
  if (state === '25006')
    return new CodedError('STORE_READ_ONLY', 'the database server accepts no writes', {
      ...options,
      exitCode: EXIT.temporary,
    });
  if (DAMAGED_STATES.includes(state)) {
    const message = `the database server reports damaged data (${state}): ${messageOf(error)}`;
    return new CodedError('STORE_CORRUPT', message, { ...options, exitCode: EXIT.config });
  }
  if (state.startsWith('58') || state.startsWith('XX')) {
    return new CodedError('STORE_IO', `the database server could not read or write its files (${state})`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (isSerialisationFailure(error) || state === '55P03' || state === '57014') {
    return new CodedError('STORE_BUSY', `the database server canceled the statement (${state})`, {
      ...options,
      exitCode: EXIT.temporary,
      retryable: true,
    });
  }
  if (state.startsWith('08') || UNREACHABLE_STATES.includes(state)) return unreachable(error, state);
  if (state.startsWith('28') || state === '3D000') {
    return new CodedError('STORE_UNREACHABLE', `the database server refuses the log-in: ${messageOf(error)}`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  return error;
}

function networkError(error: unknown, code: string): unknown {
  if (isDescriptorCode(code)) return outOfDescriptors(error);
  const isNetwork = NETWORK_CODES.test(code) || NETWORK_MESSAGES.test(messageOf(error));
  return isNetwork ? unreachable(error, code === '' ? messageOf(error) : code) : error;
}

function unreachable(error: unknown, reason: string): CodedError {
  return new CodedError('STORE_UNREACHABLE', `the database server does not answer (${reason})`, {
    cause: error,
    exitCode: EXIT.temporary,
    retryable: true,
  });
}
