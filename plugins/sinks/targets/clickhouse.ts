import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import type {
  OpenSink,
  SinkBatch,
  SinkColumn,
  SinkColumnKind,
  SinkKind,
  SinkPosition,
  SinkRow,
  SinkTable,
  SinkTarget,
  SinkValue,
} from '../../../src/ports/sink.ts';
import { callPeer } from '../../../src/runtime/call-peer.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';

/**
 * Rows in ClickHouse, over its HTTP interface. There are no transactions: a batch inserts its rows, and then the position. Rows have a key, and
 * a repeated insert replaces them (ReplacingMergeTree), so a batch that broke off is repeated without harm. Queries with FINAL see each row once.
 */
export const clickhouseKind: SinkKind = {
  kind: 'clickhouse',
  batch: { slots: 256, seconds: 1 },
  open: openClickHouse,
};

const TYPES: Readonly<Record<SinkColumnKind, string>> = {
  slot: 'UInt64',
  int: 'Int32',
  u64: 'UInt64',
  text: 'String',
  bool: 'UInt8',
  // Unix seconds: DateTime of the oldest servers ends in 2105.
  time: 'Int64',
  // Hexadecimal: inserts are texts.
  bytes: 'String',
  json: 'String',
  texts: 'Array(String)',
};

const DATABASE = /^[a-z_][a-z0-9_]{0,62}$/;
const TIMEOUT_MS = 60_000;
const CHUNK_CHARACTERS = 4_194_304;
const POSITIONS = 'sink_positions';

const quoted = (name: string) => `\`${name}\``;
async function openClickHouse(sink: OpenSink): Promise<SinkTarget> {
  const given = URL.canParse(sink.target) ? new URL(sink.target) : null;
  const database = sink.options['database'] ?? `sink_${sink.name.replaceAll('-', '_')}`;
  if (given === null || !/^clickhouses?:$/.test(given.protocol) || given.host === '')
    throw refused(`sink ${sink.name}: the target must be clickhouse://HOST:PORT or clickhouses://HOST:PORT`);
  if (!DATABASE.test(database)) throw refused(`sink ${sink.name}: the database must match ${DATABASE.source}`);
  const target = new ClickHouseTarget(sink, given, database);
  await target.prepare();
  return target;
}

class ClickHouseTarget implements SinkTarget {
  readonly #sink: OpenSink;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #database: string;

  constructor(sink: OpenSink, { protocol, host, username, password }: URL, database: string) {
    this.#sink = sink;
    this.#url = `${protocol === 'clickhouse:' ? 'http' : 'https'}://${host}/`;
    this.#headers =
      username === ''
        ? {}
        : {
            'X-ClickHouse-User': decodeURIComponent(username),
            'X-ClickHouse-Key': decodeURIComponent(password),
          };
    this.#database = database;
  }

  /** Creates what is missing; a column that a newer version added is added to a table that exists. */
  async prepare(): Promise<void> {
    await this.#run(`CREATE DATABASE IF NOT EXISTS ${quoted(this.#database)}`);
    await this.#run(
      `CREATE TABLE IF NOT EXISTS ${this.#table(POSITIONS)} (part String, first_slot UInt64, last_slot UInt64, blockhash String, ` +
        'rows_version UInt32) ENGINE = ReplacingMergeTree(last_slot) ORDER BY part',
    );
    for (const table of this.#sink.tables) {
      const columns = table.columns.map((column) => `${quoted(column.name)} ${typeOf(column)}`).join(', ');
      await this.#run(
        `CREATE TABLE IF NOT EXISTS ${this.#table(table.name)} (${columns}) ENGINE = ReplacingMergeTree ORDER BY (${table.key.map(quoted).join(', ')})`,
      );
      const described = await this.#run(`DESCRIBE TABLE ${this.#table(table.name)} FORMAT JSONCompact`);
      const known = new Set((JSON.parse(described) as { data: [string][] }).data.map(([name]) => name));
      for (const column of table.columns.filter(({ name }) => !known.has(name)))
        await this.#run(`ALTER TABLE ${this.#table(table.name)} ADD COLUMN ${quoted(column.name)} ${typeOf(column)}`);
    }
  }

  async positions(): Promise<readonly SinkPosition[]> {
    const rows = await this.#select(
      `SELECT part, first_slot, last_slot, blockhash, rows_version FROM ${this.#table(POSITIONS)} FINAL ORDER BY part`,
    );
    return rows.map(([part, first, last, blockhash, version]) => {
      if (Number(version) > this.#sink.version)
        throw refused(`sink ${this.#sink.name}: its rows are of version ${Number(version)}`);
      return { part: String(part), first: Number(first), last: Number(last), blockhash: String(blockhash) };
    });
  }

  async write({ after, position, rows }: SinkBatch): Promise<SinkPosition> {
    const known = (await this.positions()).find(({ part }) => part === position.part);
    if (known?.last !== after?.last || known?.blockhash !== after?.blockhash) throw targetMoved(this.#sink.name);
    for (const table of this.#sink.tables) await this.#insert(table, rows.get(table.name) ?? []);
    const { part, first, last, blockhash } = position;
    const values = [part, String(first), String(last), blockhash, this.#sink.version];
    await this.#run(
      `INSERT INTO ${this.#table(POSITIONS)} FORMAT JSONEachRow`,
      JSON.stringify(named(POSITION_COLUMNS, values)),
    );
    return position;
  }

  async #insert(table: SinkTable, rows: readonly SinkRow[]): Promise<void> {
    const names = table.columns.map(({ name }) => name);
    const statement = `INSERT INTO ${this.#table(table.name)} FORMAT JSONEachRow`;
    let text = '';
    for (const row of rows) {
      text += `${JSON.stringify(named(names, row.map(written)))}\n`;
      if (text.length < CHUNK_CHARACTERS) continue;
      await this.#run(statement, text);
      text = '';
    }
    if (text !== '') await this.#run(statement, text);
  }

  async read(table: string, first: number, last: number): Promise<readonly SinkRow[]> {
    const described = this.#sink.tables.find(({ name }) => name === table);
    if (described === undefined) return [];
    const columns = described.columns.map(({ name }) => quoted(name)).join(', ');
    const rows = await this.#select(
      `SELECT ${columns} FROM ${this.#table(table)} FINAL WHERE slot >= ${first} AND slot <= ${last}`,
    );
    return rows.map((row) => row.map((value, at) => readValue(described.columns[at]!.kind, value)));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #table(name: string): string {
    return `${quoted(this.#database)}.${quoted(name)}`;
  }

  async #select(statement: string): Promise<readonly (readonly unknown[])[]> {
    const text = await this.#run(`${statement} FORMAT JSONCompact`);
    return (JSON.parse(text) as { readonly data: readonly (readonly unknown[])[] }).data;
  }

  async #run(statement: string, body = ''): Promise<string> {
    // Numbers of 64 bits as texts: they stay exact.
    const query = new URLSearchParams({ query: statement, output_format_json_quote_64bit_integers: '1' });
    try {
      const response = await callPeer(`${this.#url}?${query}`, {
        method: 'POST',
        headers: this.#headers,
        body,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(text.split('\n')[0]);
      return text;
    } catch (error) {
      if (codeOf(error)?.startsWith('SINKS_') === true) throw error;
      throw unreachable(`sink ${this.#sink.name}: ClickHouse refuses: ${codeOf(error) ?? messageOf(error)}`, error);
    }
  }
}

const POSITION_COLUMNS = ['part', 'first_slot', 'last_slot', 'blockhash', 'rows_version'];

const typeOf = ({ kind, isNullable }: SinkColumn): string => (isNullable ? `Nullable(${TYPES[kind]})` : TYPES[kind]);

const named = (names: readonly string[], values: readonly unknown[]) =>
  Object.fromEntries(names.map((name, at) => [name, values[at] ?? null]));

function written(value: SinkValue): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex');
  return value;
}

function readValue(kind: SinkColumnKind, value: unknown): SinkValue {
  if (value === null) return null;
  if (kind === 'u64') return BigInt(value as string);
  if (kind === 'slot' || kind === 'int' || kind === 'time') return Number(value);
  if (kind === 'bool') return Number(value) === 1;
  if (kind === 'bytes') return new Uint8Array(Buffer.from(value as string, 'hex'));
  return value as SinkValue;
}
