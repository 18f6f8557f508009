import { createHash } from 'node:crypto';
import { isPlainObject } from '../../../src/lib/json.ts';
import type { SinkBatch, SinkPosition, SinkRow, SinkTable } from '../../../src/ports/sink.ts';

/** How the rows of a table become a file, and back. */
export interface FileFormat {
  /** Ending of the names of files, without the dot. */
  readonly ending: string;
  encode(table: SinkTable, rows: readonly SinkRow[]): Promise<Buffer>;
  decode(table: SinkTable, bytes: Buffer): Promise<readonly SinkRow[]>;
}

export interface ManifestFile {
  readonly table: string;
  readonly name: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** What a batch of files consists of. When it is there, the batch is. */
export interface Manifest extends SinkPosition {
  /** Lowest slot of this batch; `first` is that of the part. */
  readonly from: number;
  readonly rowsVersion: number;
  readonly files: readonly ManifestFile[];
}

const DIGITS = 12;
/** The highest slot that names of batches have room for. */
export const MAX_SLOT = 10 ** DIGITS - 1;
export const PART = /^(?:live|\d+-\d+)$/;

/** Name of a batch, which sorts by its lowest slot. */
export const nameOf = (slot: number): string => String(slot).padStart(DIGITS, '0');

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export function manifestBytes(
  { position, first: from }: SinkBatch,
  rowsVersion: number,
  files: readonly ManifestFile[],
): Buffer {
  const { part, first, last, blockhash } = position;
  const manifest: Manifest = { part, first, last, blockhash, from, rowsVersion, files };
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

/** Null for a text that is no manifest. */
export function readManifest(text: string): Manifest | null {
  const value: unknown = JSON.parse(text);
  const isManifest =
    isPlainObject(value) &&
    typeof value['part'] === 'string' &&
    typeof value['blockhash'] === 'string' &&
    ['first', 'last', 'from', 'rowsVersion'].every((name) => Number.isSafeInteger(value[name])) &&
    Array.isArray(value['files']);
  return isManifest ? (value as unknown as Manifest) : null;
}

export const sinkPositionOf = ({ part, first, last, blockhash }: SinkPosition): SinkPosition => ({
  part,
  first,
  last,
  blockhash,
});
