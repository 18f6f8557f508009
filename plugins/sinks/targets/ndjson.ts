import { objectMembers } from '../../../src/lib/json.ts';
import type { SinkColumnKind, SinkKind, SinkRow, SinkTable, SinkValue } from '../../../src/ports/sink.ts';
import { openFolder } from './folder.ts';
import type { FileFormat } from './manifest.ts';

/** Rows as lines of JSON, an object each. Amounts are strings, times ISO 8601, bytes base64, `json` is the value itself. */
export const ndjsonKind: SinkKind = {
  kind: 'ndjson',
  batch: { slots: 1_024, seconds: 60 },
  open: async (sink) => await openFolder(sink, ndjsonFormat),
};

const MS_PER_SECOND = 1_000;

/** A row as JSON, without its line end. */
export function lineOf({ columns }: SinkTable, row: SinkRow): string {
  const members = columns.map(({ name, kind }, at) => `${JSON.stringify(name)}:${textOf(kind, row[at] ?? null)}`);
  return `{${members.join(',')}}`;
}

function textOf(kind: SinkColumnKind, value: SinkValue): string {
  if (value === null) return 'null';
  if (kind === 'json') return value as string;
  if (kind === 'time') return JSON.stringify(new Date(Number(value) * MS_PER_SECOND).toISOString());
  if (typeof value === 'bigint') return `"${value}"`;
  if (value instanceof Uint8Array)
    return `"${Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')}"`;
  return JSON.stringify(value);
}

const ndjsonFormat: FileFormat = {
  ending: 'ndjson',
  async encode(table, rows) {
    return Buffer.from(rows.map((row) => `${lineOf(table, row)}\n`).join(''));
  },
  async decode(table, bytes) {
    return bytes
      .toString()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => rowOf(table, line));
  },
};

export function rowOf(table: SinkTable, line: string): SinkRow {
  const values = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const bytes = Buffer.from(line);
  const texts = new Map(
    (objectMembers(bytes) ?? []).map(({ name, start, end }) => [name, bytes.toString('utf8', start, end)]),
  );
  return table.columns.map(({ name, kind }): SinkValue => {
    const value = values[name];
    if (value === null || value === undefined) return null;
    if (kind === 'json') return texts.get(name) ?? null;
    if (kind === 'u64') return BigInt(value as string);
    if (kind === 'time') return Date.parse(value as string) / MS_PER_SECOND;
    if (kind === 'bytes') return new Uint8Array(Buffer.from(value as string, 'base64'));
    return value as SinkValue;
  });
}
