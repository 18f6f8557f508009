import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';
import { type MeasuredRow, performanceDocument } from '../helpers/write-performance-document.ts';

const page = readFileSync(`${findProjectRoot()}docs/explanation/performance.md`, 'utf8');

const measured = (row: string, more: Partial<MeasuredRow> = {}): MeasuredRow => ({
  row,
  name: 'a|b',
  unit: 'ms',
  ours: [3, 1, 2],
  baseline: [4_000],
  seed: 1,
  sizes: {},
  notes: [],
  ratio: { median: 0.5, min: 0.25, max: 0.75 },
  goal: '<= 1x',
  verdict: 'met',
  size: 'full',
  date: '2026-11-22',
  commit: 'abc',
  node: 'v20.1.0',
  cpu: 'CPU',
  cores: 2,
  ...more,
});

test('the page is as its script writes it', () => {
  assert.equal(performanceDocument(page, []), page);
});

test('a row takes the place of its older one, others stay, tiny sizes are left out', () => {
  const first = performanceDocument('', [measured('G10'), measured('G2'), measured('G3', { size: 'smoke' })]);
  const rows = first.split('\n').filter((line) => /^\| G/.test(line));
  assert.deepEqual(rows, [
    '| G2 | a\\|b | 2 ms | 4,000 ms | 0.50 (0.25 to 0.75) | &lt;= 1x | met | full | 2026-11-22 | abc | 2 x CPU, Node 20.1.0 |',
    rows[0]!.replace('G2', 'G10'),
  ]);
  const second = performanceDocument(first, [measured('G2', { verdict: 'missed', ratio: null })]);
  assert.deepEqual(
    second.split('\n').filter((line) => /^\| G/.test(line)),
    [rows[0]!.replace('met', 'missed').replace('0.50 (0.25 to 0.75)', ''), rows[1]],
  );
});
