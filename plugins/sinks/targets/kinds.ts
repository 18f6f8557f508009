import type { SinkKind } from '../../../src/ports/sink.ts';
import { clickhouseKind } from './clickhouse.ts';
import { kafkaKind } from './kafka.ts';
import { natsKind } from './nats.ts';
import { ndjsonKind } from './ndjson.ts';
import { parquetKind } from './parquet.ts';
import { postgresKind } from './postgres.ts';
import { s3Kind } from './s3.ts';
import { stdoutKind } from './stdout.ts';

/** What sinks can write to without another plugin. Clients are loaded by the first sink of their kind, also from the working directory. */
export function builtInKinds(): readonly SinkKind[] {
  const folders = [process.cwd()];
  return [
    postgresKind,
    clickhouseKind,
    parquetKind,
    ndjsonKind,
    stdoutKind(),
    natsKind(folders),
    kafkaKind(folders),
    s3Kind(folders),
  ];
}
