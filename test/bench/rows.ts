import { readdirSync } from 'node:fs';
import type { Row } from './row.ts';

/** Every file of `rows/` exports one row; they run in the order of their names. */
export async function loadRows(): Promise<readonly Row[]> {
  const folder = new URL('./rows/', import.meta.url);
  const rows: Row[] = [];
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .sort()) {
    const module = (await import(new URL(file, folder).href)) as Record<string, unknown>;
    const row = Object.values(module).find(isRow);
    if (row === undefined) throw new Error(`rows/${file} exports no row`);
    rows.push(row);
  }
  return rows;
}

const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && 'run' in value && 'id' in value;
