import {
  AMOUNT_FORMS,
  type AmountForm,
  type ParquetColumn,
  type ParquetKind,
  type ParquetValue,
  parquetSchemaOf,
  sourceOf,
  withAmounts,
} from '../../../src/lib/parquet-columns.ts';
import type {
  OpenSink,
  SinkColumn,
  SinkColumnKind,
  SinkKind,
  SinkRow,
  SinkTable,
  SinkValue,
} from '../../../src/ports/sink.ts';
import { refused } from '../errors.ts';
import { openFolder } from './folder.ts';
import type { FileFormat } from './manifest.ts';

/** Rows as Parquet files: few large ones, so a batch waits long for more slots. */
export const parquetKind: SinkKind = {
  kind: 'parquet',
  batch: { slots: 4_096, seconds: 300 },
  open: async (sink) => await openFolder(sink, parquetFormat(sink)),
};

const KINDS: Readonly<Record<SinkColumnKind, ParquetKind>> = {
  slot: 'INT64',
  int: 'INT32',
  u64: 'UINT64',
  text: 'TEXT',
  bool: 'BOOLEAN',
  time: 'TIME',
  bytes: 'BYTES',
  json: 'TEXT',
  texts: 'TEXT',
};

const MS_PER_SECOND = 1_000;

function columnOf({ name, kind, isNullable }: SinkColumn): ParquetColumn {
  if (kind === 'texts') return [name, KINDS[kind], 'list'];
  return isNullable ? [name, KINDS[kind], 'null'] : [name, KINDS[kind]];
}

/** `options.amounts` is how amounts are written; files in any form are read. Errors: SINKS_REFUSED. */
export function parquetFormat({ name: sink, options }: Pick<OpenSink, 'name' | 'options'>): FileFormat {
  const { amounts = 'integer' } = options;
  if (!isForm(amounts)) throw refused(`sink ${sink}: options.amounts must be one of ${AMOUNT_FORMS.join(', ')}`);
  return { ending: 'parquet', encode: (table, rows) => encode(table, rows, amounts), decode };
}

const isForm = (text: string): text is AmountForm => (AMOUNT_FORMS as readonly string[]).includes(text);

async function encode(table: SinkTable, rows: readonly SinkRow[], amounts: AmountForm): Promise<Buffer> {
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer');
  const columns = withAmounts(table.columns.map(columnOf), amounts);
  const writer = new ByteWriter();
  const parquet = new ParquetWriter({ writer, schema: parquetSchemaOf(columns), createdBy: 'parhelion' });
  if (rows.length > 0)
    await parquet.write({
      columnData: columns.map((column, at) => sourceOf(column, columnValues(table, rows, at))),
      rowGroupSize: rows.length,
    });
  await parquet.finish();
  const bytes = writer.getBytes();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

async function decode(table: SinkTable, bytes: Buffer): Promise<readonly SinkRow[]> {
  const { parquetMetadata, parquetReadObjects } = await import('hyparquet');
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  const metadata = parquetMetadata(file);
  // Decimals would be read as doubles.
  const schema = metadata.schema.map(({ converted_type, ...element }) =>
    converted_type === undefined || converted_type === 'DECIMAL' ? element : { ...element, converted_type },
  );
  // Read as bytes: otherwise columns without a logical type are read as texts.
  const rows = await parquetReadObjects({ file, metadata: { ...metadata, schema }, utf8: false });
  return rows.map((row): SinkRow => table.columns.map(({ name, kind }) => readValue(kind, row[name])));
}

function columnValues({ columns }: SinkTable, rows: readonly SinkRow[], at: number): readonly ParquetValue[] {
  const isTime = columns[at]!.kind === 'time';
  return rows.map((row) => {
    const value = row[at] ?? null;
    return isTime && value !== null ? Number(value) * MS_PER_SECOND : value;
  });
}

function readValue(kind: SinkColumnKind, value: unknown): SinkValue {
  // A list without elements is no row of its column.
  if (kind === 'texts') return (value as readonly string[] | null | undefined) ?? [];
  if (value === null || value === undefined) return null;
  if (kind === 'slot' || kind === 'int') return Number(value);
  if (kind === 'time') return Number(value) / MS_PER_SECOND;
  if (kind === 'u64') return amountOf(value);
  return value as SinkValue;
}

function amountOf(value: unknown): bigint {
  if (value instanceof Uint8Array) return BigInt(`0x${Buffer.from(value).toString('hex')}`);
  return BigInt(value as bigint | string);
}
