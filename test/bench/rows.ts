import { readdirSync } from 'node:fs';
import { findProjectRoot } from '../helpers/project-root.ts';
import type { Row } from './row.ts';
import { siblingModule } from './sibling.ts';

/**
 * Every file of `rows/` exports one row; they run in the order of their names. The sources are listed, also where the compiled
 * ones run: a row that is gone may have left its compiled file.
 */
export async function loadRows(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const file of readdirSync(`${findProjectRoot()}test/bench/rows`)
    .filter((name) => name.endsWith('.ts'))
    .sort()) {
    const { path } = siblingModule(import.meta.url, `./rows/${file}`);
    const module = (await import(path)) as Record<string, unknown>;
    const row = Object.values(module).find(isRow);
    if (row === undefined) throw new Error(`rows/${file} exports no row`);
    rows.push(row);
  }
  return rows;
}

const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && 'run' in value && 'id' in value;
