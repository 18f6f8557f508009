/**
 * Sinks beside bare clients that write the same rows: PostgreSQL by COPY, a transaction per batch, and Parquet, a file per table and batch. The
 * bare clients have the rows as values; a sink also makes them from the blocks, keeps its position, and synchronizes its files.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import pg from 'pg';
import { OpenBatch } from '../../../plugins/sinks/batch.ts';
import { compileFilter } from '../../../plugins/sinks/rows/filter.ts';
import type { RowParts } from '../../../plugins/sinks/rows/read-rows.ts';
import { ROWS_VERSION, SINK_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import type { BlockSource } from '../../../plugins/sinks/source.ts';
import { parquetKind } from '../../../plugins/sinks/targets/parquet.ts';
import { postgresKind } from '../../../plugins/sinks/targets/postgres.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { OpenSink, SinkBatch, SinkKind, SinkRow, SinkTable, SinkValue } from '../../../src/ports/sink.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { nativeInterfaces } from '../../../src/solana/idl/native.ts';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { syntheticBlock } from '../samples/synthetic-block.ts';

const SIZES = {
  full: { blocks: 128, transactions: 1_500, pairs: 5 },
  quick: { blocks: 8, transactions: 1_500, pairs: 3 },
  smoke: { blocks: 6, transactions: 40, pairs: 1 },
} as const;
const BATCH_BLOCKS = 8;
const FIRST = 1_000;
const GOAL = 0.6;

const rows: RowParts = {
  filter: compileFilter({
    addresses: [],
    programs: [],
    owners: [],
    mints: [],
    kinds: [],
    votes: false,
    failed: true,
  }),
  tables: new Set(SINK_TABLES.map(({ name }) => name)),
  find: (program) => nativeInterfaces().get(program) ?? null,
};

/** A chain in memory. */
function chainOf({ blocks, transactions, seed }: { blocks: number; transactions: number; seed: number }): ChainBlock[] {
  const chain: ChainBlock[] = [];
  for (let at = 0; at < blocks; at++) {
    const { body, slot } = syntheticBlock({ seed: seed + at, transactions, slot: FIRST + at });
    const { result } = JSON.parse(body.toString()) as { readonly result: object };
    const previousBlockhash = chain.at(-1)?.blockhash;
    chain.push(decodeBlock(slot, { ...result, ...(previousBlockhash === undefined ? {} : { previousBlockhash }) }));
  }
  return chain;
}

const sourceOf = (chain: readonly ChainBlock[]): BlockSource => ({
  finalSlot: async () => chain.at(-1)!.slot,
  oldestSlot: async () => FIRST,
  headerAt: async () => null,
  next: async (from, to) => chain.find(({ slot }) => slot >= from && slot <= to) ?? null,
});

async function* batchesOf(chain: readonly ChainBlock[]): AsyncGenerator<SinkBatch> {
  const source = sourceOf(chain);
  const bounds = { slots: BATCH_BLOCKS, limitBytes: 1e9, takes: 'rows', rows, events: null } as const;
  const last = chain.at(-1)!.slot;
  for (let after: SinkBatch['position'] | null = null; (after?.last ?? 0) < last; ) {
    const batch = new OpenBatch('live', after, after === null ? FIRST : after.last + 1);
    await batch.read(source, last, bounds, new AbortController().signal);
    const closed = batch.close()!;
    yield closed;
    after = closed.position;
  }
}

/** Writes everything into a new place, and returns how many rows. */
interface Candidate {
  ours(place: string): Promise<number>;
  bare(place: string): Promise<number>;
  /** Rows that are there. */
  count(place: string): Promise<number>;
}

async function sinkRun(kind: SinkKind, chain: readonly ChainBlock[], sink: Pick<OpenSink, 'target' | 'options'>) {
  const target = await kind.open({ name: 'bench', tables: SINK_TABLES, version: ROWS_VERSION, ...sink });
  let written = 0;
  for await (const batch of batchesOf(chain)) {
    await target.write(batch);
    written += countOf(batch);
  }
  await target.close();
  return written;
}

const countOf = ({ rows: tables }: SinkBatch): number =>
  [...tables.values()].reduce((sum, list) => sum + list.length, 0);

const SQL = {
  slot: 'bigint',
  int: 'integer',
  u64: 'numeric(20, 0)',
  text: 'text',
  bool: 'boolean',
  time: 'timestamptz',
  bytes: 'bytea',
  json: 'json',
  texts: 'text[]',
} as const;

/** The bare client of PostgreSQL: values to the text of COPY, nothing else. */
async function copyAll(url: string, schema: string, batches: readonly SinkBatch[]): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`create schema ${schema}`);
  for (const { name, columns, key } of SINK_TABLES)
    await client.query(
      `create table ${schema}.${name} (${columns.map((column) => `${column.name} ${SQL[column.kind]}${column.isNullable ? '' : ' not null'}`).join(', ')}, primary key (${key.join(', ')}))`,
    );
  let written = 0;
  for (const batch of batches) {
    await client.query('begin');
    for (const table of SINK_TABLES) {
      const list = batch.rows.get(table.name) ?? [];
      if (list.length > 0)
        await copy(client, `copy ${schema}.${table.name} from stdin`, list.map((row) => line(table, row)).join(''));
      written += list.length;
    }
    await client.query('commit');
  }
  await client.end();
  return written;
}

async function copy(client: pg.Client, text: string, body: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const Query = pg.Query as unknown as new (
      text: string,
      values: undefined,
      callback: (error: Error | null) => void,
    ) => { handleCopyInResponse(connection: { sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void }): void };
    const query = new Query(text, undefined, (error) => (error === null ? resolve() : reject(error)));
    query.handleCopyInResponse = (connection) => {
      connection.sendCopyFromChunk(Buffer.from(body));
      connection.endCopyFrom();
    };
    client.query(query as unknown as pg.Submittable);
  });
}

const line = ({ columns }: SinkTable, row: SinkRow): string =>
  `${row.map((value, at) => field(columns[at]!.kind, value)).join('\t')}\n`;

const SPECIAL = /[\\\t\n\r]/g;
const NAMES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

function field(kind: keyof typeof SQL, value: SinkValue): string {
  if (value === null) return '\\N';
  if (kind === 'time') return new Date((value as number) * 1_000).toISOString();
  if (value instanceof Uint8Array) return `\\\\x${Buffer.from(value).toString('hex')}`;
  const text = Array.isArray(value) ? `{${value.map((one) => JSON.stringify(one)).join(',')}}` : String(value);
  return text.replace(SPECIAL, (found) => NAMES[found]!);
}

const TYPES = {
  slot: 'INT64',
  int: 'INT32',
  u64: 'INT64',
  text: 'STRING',
  bool: 'BOOLEAN',
  time: 'TIMESTAMP',
  bytes: 'BYTE_ARRAY',
  json: 'STRING',
  texts: 'STRING',
} as const;

/** The bare client of Parquet: columns of the values, a file per table. Lists as their text: the shortest way to write them. */
async function filesOf(folder: string, batches: readonly SinkBatch[]): Promise<number> {
  let written = 0;
  for (const [number, batch] of batches.entries())
    for (const { name, columns } of SINK_TABLES) {
      const list = batch.rows.get(name) ?? [];
      written += list.length;
      if (list.length === 0) continue;
      const columnData = columns.map((column, at) => ({
        name: column.name,
        type: TYPES[column.kind],
        nullable: column.isNullable,
        data: list.map((row) => plain(column.kind, row[at]!)),
      }));
      const bytes = parquetWriteBuffer({ columnData, rowGroupSize: list.length });
      await writeFile(join(folder, `${name}-${number}.parquet`), Buffer.from(bytes));
    }
  return written;
}

function plain(kind: keyof typeof TYPES, value: SinkValue): unknown {
  if (value === null) return null;
  if (kind === 'slot') return BigInt(value as number);
  if (kind === 'u64') return BigInt.asIntN(64, value as bigint);
  if (kind === 'time') return new Date((value as number) * 1_000);
  return Array.isArray(value) ? value.join(',') : value;
}

async function measured(
  id: string,
  candidate: Candidate,
  {
    place,
    pairs,
    expected,
    say,
  }: { place: (name: string) => string; pairs: number; expected: number; say: RunOptions['say'] },
): Promise<{ readonly ours: number[]; readonly bare: number[] }> {
  const [ours, bare]: [number[], number[]] = [[], []];
  const timed = async (name: 'ours' | 'bare', number: number) => {
    const where = place(`${name}_${number}`);
    const start = performance.now();
    const written = await candidate[name](where);
    const seconds = (performance.now() - start) / 1_000;
    assert.equal(written, expected);
    assert.equal(await candidate.count(where), expected, `${id} ${name}`);
    return expected / seconds;
  };
  // Once each without counting, so that both are compiled.
  for (const name of ['bare', 'ours'] as const) await timed(name, -1 + 1_000);
  for (let pair = 0; pair < pairs; pair++)
    for (const name of pair % 2 === 0 ? (['ours', 'bare'] as const) : (['bare', 'ours'] as const))
      (name === 'ours' ? ours : bare).push(await timed(name, pair));
  say(`${id}: ${ours.map(Math.round).join(', ')} beside ${bare.map(Math.round).join(', ')} rows/s`);
  return { ours, bare };
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { blocks, transactions, pairs } = SIZES[size];
  const chain = chainOf({ blocks, transactions, seed });
  const batches: SinkBatch[] = [];
  for await (const batch of batchesOf(chain)) batches.push(batch);
  const expected = batches.reduce((sum, batch) => sum + countOf(batch), 0);
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-sinks-'));
  const postgres = await startPostgresServer();
  try {
    const tables: Candidate = {
      ours: (schema) => sinkRun(postgresKind, chain, { target: postgres.url, options: { schema } }),
      bare: (schema) => copyAll(postgres.url, schema, batches),
      async count(schema) {
        const client = new pg.Client({ connectionString: postgres.url });
        await client.connect();
        let sum = 0;
        for (const { name } of SINK_TABLES) {
          const { rows: found } = await client.query(`select count(*) as n from ${schema}.${name}`);
          sum += Number(found[0].n);
        }
        await client.query(`drop schema ${schema} cascade`);
        await client.end();
        return sum;
      },
    };
    const files: Candidate = {
      async ours(place) {
        return await sinkRun(parquetKind, chain, { target: place, options: {} });
      },
      bare: (place) => filesOf(place, batches),
      async count(place) {
        rmSync(place, { recursive: true });
        return expected;
      },
    };
    const placeOf = (name: string): string => {
      const place = join(folder, name);
      mkdirSync(place);
      return place;
    };
    const results: RowResult[] = [];
    for (const [id, name, candidate, place] of [
      ['sinks/postgres', 'rows of blocks into PostgreSQL, beside COPY by a bare client', tables, (at: string) => at],
      ['sinks/parquet', 'rows of blocks into Parquet files, beside a bare writer', files, placeOf],
    ] as const) {
      const { ours, bare } = await measured(id, candidate, { place, pairs, expected, say });
      const ratio = ratioOf(ours, bare);
      results.push({
        row: id,
        name,
        unit: 'rows/s',
        ours,
        baseline: bare,
        ratio,
        goal: `>= ${GOAL}x the rate`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        sizes: { blocks, transactions, rows: expected },
        seed,
        notes: ['from decoded blocks; the bare client has the rows as values'],
      });
    }
    return results;
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

export const sinksRow: Row = { id: 'sinks', name: 'sinks beside bare clients', run };
