import type pg from 'pg';
import { messageOf } from '../../../src/lib/coded-error.ts';
import type {
  OpenSink,
  SinkBatch,
  SinkColumnKind,
  SinkKind,
  SinkPosition,
  SinkRow,
  SinkTable,
  SinkTarget,
  SinkValue,
} from '../../../src/ports/sink.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';

/**
 * Rows in PostgreSQL. A batch is one transaction: it moves the row of `sink_positions` from where it has to be, copies the rows, and
 * commits. Of two writers one finds the position moved, and writes nothing.
 */
export const postgresKind: SinkKind = {
  kind: 'postgres',
  batch: { slots: 256, seconds: 1 },
  open: openPostgres,
};

const TYPES: Readonly<Record<SinkColumnKind, string>> = {
  slot: 'bigint',
  int: 'integer',
  u64: 'numeric(20, 0)',
  text: 'text',
  bool: 'boolean',
  time: 'timestamptz',
  bytes: 'bytea',
  json: 'json',
  texts: 'text[]',
};

const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;
const CONNECT_TIMEOUT_MS = 10_000;

const quoted = (name: string) => `"${name}"`;

async function openPostgres(sink: OpenSink): Promise<SinkTarget> {
  const schema = sink.options['schema'] ?? `sink_${sink.name.replaceAll('-', '_')}`;
  if (!SCHEMA.test(schema)) throw refused(`sink ${sink.name}: the schema must match ${SCHEMA.source}`);
  const { default: library } = await import('pg');
  let client: pg.Client;
  try {
    client = new library.Client({
      connectionString: sink.target,
      application_name: `parhelion sink ${sink.name}`,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
    // A lost connection rejects what runs on it; between two batches the next one fails.
    client.on('error', () => undefined);
    await client.connect();
  } catch (error) {
    throw unreachable(`sink ${sink.name}: PostgreSQL does not answer: ${messageOf(error)}`, error);
  }
  const target = new PostgresTarget(client, library.Query as unknown as QueryClass, sink, schema);
  try {
    await target.prepare();
  } catch (error) {
    await target.close();
    throw error;
  }
  return target;
}

/** What pg calls while a COPY runs. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}
type QueryClass = new (text: string, values: undefined, callback: (error: Error | null) => void) => pg.Query;

class PostgresTarget implements SinkTarget {
  readonly #client: pg.Client;
  readonly #Query: QueryClass;
  readonly #sink: OpenSink;
  readonly #schema: string;

  constructor(client: pg.Client, query: QueryClass, sink: OpenSink, schema: string) {
    this.#client = client;
    this.#Query = query;
    this.#sink = sink;
    this.#schema = schema;
  }

  /** Creates what is missing; a column that a newer version added is added to a table that exists. */
  async prepare(): Promise<void> {
    const { name, tables, version } = this.#sink;
    await this.#inTransaction(async () => {
      // Two that start at once would both create.
      await this.#run('select pg_advisory_xact_lock(hashtext($1))', [`parhelion sink ${this.#schema}`]);
      const { rows } = await this.#run('select to_regnamespace($1) is not null as is_there', [quoted(this.#schema)]);
      if (rows[0]?.['is_there'] !== true) await this.#run(`create schema ${quoted(this.#schema)}`);
      await this.#run(
        `create table if not exists ${this.#table('sink_positions')} (sink text not null, part text not null, ` +
          'first_slot bigint not null, last_slot bigint not null, blockhash text not null, rows_version integer not null, ' +
          'primary key (sink, part))',
      );
      const found = await this.#run(
        `select max(rows_version) as version, max(sink) filter (where sink <> $1) as other from ${this.#table('sink_positions')}`,
        [name],
      );
      const { version: newest, other } = found.rows[0] as { version: number | null; other: string | null };
      if (other !== null) throw refused(`sink ${name}: schema ${this.#schema} has the rows of sink ${other}`);
      if ((newest ?? 0) > version) throw refused(`sink ${name}: its rows are of version ${newest}, this is ${version}`);
      for (const table of tables) await this.#prepareTable(table);
    });
  }

  async #prepareTable(table: SinkTable): Promise<void> {
    const columns = table.columns.map(
      ({ name, kind, isNullable }) => `${quoted(name)} ${TYPES[kind]}${isNullable ? '' : ' not null'}`,
    );
    const key = table.key.map(quoted).join(', ');
    await this.#run(
      `create table if not exists ${this.#table(table.name)} (${columns.join(', ')}, primary key (${key}))`,
    );
    for (const { name, kind, isNullable } of table.columns) {
      if (isNullable)
        await this.#run(
          `alter table ${this.#table(table.name)} add column if not exists ${quoted(name)} ${TYPES[kind]}`,
        );
    }
  }

  async positions(): Promise<readonly SinkPosition[]> {
    const { rows } = await this.#run(
      `select part, first_slot, last_slot, blockhash from ${this.#table('sink_positions')} where sink = $1 order by part`,
      [this.#sink.name],
    );
    return rows.map((row) => ({
      part: String(row['part']),
      first: Number(row['first_slot']),
      last: Number(row['last_slot']),
      blockhash: String(row['blockhash']),
    }));
  }

  async write(batch: SinkBatch): Promise<SinkPosition> {
    await this.#inTransaction(async () => {
      await this.#move(batch);
      for (const table of this.#sink.tables) {
        const rows = batch.rows.get(table.name) ?? [];
        if (rows.length > 0) await this.#copy(table, rows);
      }
    });
    return batch.position;
  }

  /** First of all: it locks the position, so that another writer waits, and then finds it moved. */
  async #move({ after, position }: SinkBatch): Promise<void> {
    const { part, first, last, blockhash } = position;
    const { name, version } = this.#sink;
    const table = this.#table('sink_positions');
    const { rowCount } =
      after === null
        ? await this.#run(`insert into ${table} values ($1, $2, $3, $4, $5, $6) on conflict do nothing`, [
            name,
            part,
            first,
            last,
            blockhash,
            version,
          ])
        : await this.#run(
            `update ${table} set last_slot = $1, blockhash = $2, rows_version = $3 ` +
              'where sink = $4 and part = $5 and first_slot = $6 and last_slot = $7 and blockhash = $8',
            [last, blockhash, version, name, part, after.first, after.last, after.blockhash],
          );
    if (rowCount !== 1) throw targetMoved(name);
  }

  async #copy(table: SinkTable, rows: readonly SinkRow[]): Promise<void> {
    const columns = table.columns.map(({ name }) => quoted(name)).join(', ');
    const text = `copy ${this.#table(table.name)} (${columns}) from stdin`;
    const chunks = copyChunks(table, rows);
    await new Promise<void>((resolve, reject) => {
      const query = new this.#Query(text, undefined, (error) => (error === null ? resolve() : reject(error)));
      const handlers = query as unknown as { handleCopyInResponse(connection: CopyConnection): void };
      handlers.handleCopyInResponse = (connection) => {
        for (const chunk of chunks) connection.sendCopyFromChunk(chunk);
        connection.endCopyFrom();
      };
      this.#client.query(query as unknown as pg.Submittable);
    });
  }

  async read(table: string, first: number, last: number): Promise<readonly SinkRow[]> {
    const found = this.#sink.tables.find(({ name }) => name === table);
    if (found === undefined) return [];
    const columns = found.columns.map(({ name, kind }) =>
      kind === 'time'
        ? `extract(epoch from ${quoted(name)})::text`
        : kind === 'json'
          ? `${quoted(name)}::text`
          : quoted(name),
    );
    const text = `select ${columns.join(', ')} from ${this.#table(table)} where slot between $1 and $2`;
    const { rows } = await this.#client.query({ text, values: [first, last], rowMode: 'array' });
    return (rows as unknown[][]).map((row) => row.map((value, at) => readValue(found.columns[at]!.kind, value)));
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  #table(name: string): string {
    return `${quoted(this.#schema)}.${quoted(name)}`;
  }

  async #run(
    text: string,
    values: readonly (string | number)[] = [],
  ): Promise<pg.QueryResult<Record<string, unknown>>> {
    return await this.#client.query<Record<string, unknown>>(text, [...values]);
  }

  async #inTransaction(work: () => Promise<void>): Promise<void> {
    try {
      await this.#run('begin');
      await work();
      await this.#run('commit');
    } catch (error) {
      await this.#run('rollback').catch(() => undefined);
      const code = (error as { code?: unknown }).code;
      if (typeof code === 'string' && code.startsWith('SINKS_')) throw error;
      throw unreachable(`sink ${this.#sink.name}: PostgreSQL refuses: ${messageOf(error)}`, error);
    }
  }
}

const CHUNK_CHARACTERS = 262_144;

function copyChunks(table: SinkTable, rows: readonly SinkRow[]): readonly Buffer[] {
  const chunks: Buffer[] = [];
  let text = '';
  for (const row of rows) {
    text += `${row.map((value, at) => copyField(table.columns[at]!.kind, value)).join('\t')}\n`;
    if (text.length < CHUNK_CHARACTERS) continue;
    chunks.push(Buffer.from(text));
    text = '';
  }
  chunks.push(Buffer.from(text));
  return chunks;
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };
const escaped = (text: string) => text.replace(/[\\\t\n\r]/g, (found) => ESCAPES[found]!);

/** A field of COPY in its text format. */
function copyField(kind: SinkColumnKind, value: SinkValue): string {
  if (value === null) return '\\N';
  if (kind === 'time') return new Date(Number(value) * 1_000).toISOString();
  if (typeof value === 'boolean') return value ? 't' : 'f';
  if (value instanceof Uint8Array)
    return `\\\\x${Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex')}`;
  if (typeof value === 'string') return escaped(value);
  if (typeof value === 'object')
    return escaped(`{${value.map((item) => `"${item.replace(/["\\]/g, '\\$&')}"`).join(',')}}`);
  return String(value);
}

function readValue(kind: SinkColumnKind, value: unknown): SinkValue {
  if (value === null) return null;
  if (kind === 'u64') return BigInt(value as string);
  if (kind === 'slot' || kind === 'int' || kind === 'time') return Number(value);
  return value as SinkValue;
}
