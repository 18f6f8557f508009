import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from '../../../test/helpers/project-root.ts';
import { ALL_TABLES } from './tables.ts';

const root = findProjectRoot();
const page = readFileSync(join(root, 'docs/how-to/sinks.md'), 'utf8');

test('the page of sinks describes every column as the code does', () => {
  const rows = ALL_TABLES.flatMap(({ name, description, columns }) => [
    `**\`${name}\`**: ${description}.`,
    ...columns.map((column) => `| \`${column.name}\` | ${column.kind} | ${column.description} |`),
  ]);
  const lines = page.split('\n');
  assert.deepEqual(
    lines.filter((line) => rows.includes(line)),
    rows,
  );
});
