import type { JsonCursor } from './json-cursor.ts';
import type { Names } from './names.ts';

/** What the scan of one answer gathers. */
export interface Scan {
  readonly cursor: JsonCursor;
  readonly names: Names;
  readonly texts: number[];
}
