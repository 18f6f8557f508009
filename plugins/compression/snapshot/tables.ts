import { UNDONE } from '../store/table-shapes.ts';
import type { Tables } from '../store/tables.ts';

/** A table as a snapshot holds it. */
export interface SnapshotTable {
  readonly name: keyof Tables;
  /** Order of the rows; indexed. */
  readonly key: readonly string[];
  readonly columns: readonly string[];
  /** Rows that are read and written at a time. */
  readonly rowsPerPiece: number;
}

/**
 * All tables that hold state. How to take blocks back is left out: a snapshot begins with what it holds. Notes are of one store only.
 */
export function snapshotTables(): SnapshotTable[] {
  const rows = UNDONE.map(({ name, key, mutable, fixed }) => ({
    ...{ name, key, columns: [...key, ...mutable, ...fixed], rowsPerPiece: 500 },
  }));
  return [...rows, { name: 'compression_pages', key: ['id'], columns: ['id', 'bytes'], rowsPerPiece: 200 }];
}
