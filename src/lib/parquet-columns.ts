import type { ColumnSource, ParquetWriter } from 'hyparquet-writer';

/** Columns of Parquet tables, for hyparquet-writer. */

export type ParquetKind = 'INT32' | 'INT64' | 'UINT64' | 'DECIMAL' | 'BOOLEAN' | 'TEXT' | 'BYTES' | 'TIME';
export type ParquetColumn = readonly [name: string, kind: ParquetKind, form?: 'null' | 'list'];
/** How amounts up to 2^64 - 1 are written: readers that know only signed integers misread them from 2^63 on. */
export const AMOUNT_FORMS = ['integer', 'decimal', 'text'] as const;
export type AmountForm = (typeof AMOUNT_FORMS)[number];
/** `TIME`: unix milliseconds. */
export type ParquetValue = number | bigint | string | boolean | Uint8Array | null | readonly (string | bigint)[];

const TYPES: Readonly<Record<ParquetKind, object>> = {
  INT32: { type: 'INT32' },
  INT64: { type: 'INT64' },
  UINT64: { type: 'INT64', converted_type: 'UINT_64' },
  // 20 digits in 9 bytes: at most 38 digits are exact everywhere.
  DECIMAL: { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 9, converted_type: 'DECIMAL', precision: 20, scale: 0 },
  BOOLEAN: { type: 'BOOLEAN' },
  TEXT: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  BYTES: { type: 'BYTE_ARRAY' },
  TIME: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
};

const AMOUNT_KINDS: Readonly<Record<AmountForm, ParquetKind>> = { integer: 'UINT64', decimal: 'DECIMAL', text: 'TEXT' };

/** The columns with amounts in this form. Their values stay bigints. */
export const withAmounts = (columns: readonly ParquetColumn[], form: AmountForm): readonly ParquetColumn[] =>
  columns.map(([name, kind, ...rest]) => [name, kind === 'UINT64' ? AMOUNT_KINDS[form] : kind, ...rest] as const);

type Schema = NonNullable<ConstructorParameters<typeof ParquetWriter>[0]['schema']>;

export function parquetSchemaOf(columns: readonly ParquetColumn[]): Schema {
  const elements = columns.flatMap(([name, kind, form]) => {
    if (form !== 'list') return [{ name, ...TYPES[kind], repetition_type: form === 'null' ? 'OPTIONAL' : 'REQUIRED' }];
    return [
      { name, converted_type: 'LIST', num_children: 1, repetition_type: 'OPTIONAL' },
      { name: 'list', num_children: 1, repetition_type: 'REPEATED' },
      { name: 'element', ...TYPES[kind], repetition_type: 'REQUIRED' },
    ];
  });
  return [{ name: 'root', num_children: columns.length }, ...elements] as Schema;
}

/** About the bytes of a value in memory. */
export function parquetSizeOf(value: ParquetValue): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return 16 + value.length;
  if (Array.isArray(value))
    return value.reduce<number>((total, each: string | bigint) => total + parquetSizeOf(each), 16);
  return 8;
}

export function sourceOf([name, kind, form]: ParquetColumn, values: readonly ParquetValue[]): ColumnSource {
  const isLong = (kind === 'INT64' || kind === 'TIME') && form !== 'list';
  let data = isLong ? values.map((value) => (value === null ? null : BigInt(value as number | bigint))) : values;
  if (kind === 'TEXT') data = data.map(textOf);
  // Their order in statistics would be that of signed numbers.
  const statistics = kind === 'UINT64' || kind === 'BYTES' ? { statistics: false } : {};
  return { name, data: data as ColumnSource['data'], nullable: form !== undefined, offsetIndex: false, ...statistics };
}

/** Amounts as text. */
function textOf(value: ParquetValue): ParquetValue {
  if (typeof value === 'bigint') return String(value);
  return Array.isArray(value) ? value.map(String) : value;
}
