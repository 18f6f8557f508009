import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';
import { MACHINES, pageWithTables } from '../helpers/transition-tables.ts';

test('the README of each state machine has its table: npm run transitions:write', () => {
  for (const page of new Set(MACHINES.map((one) => one.page)))
    assert.equal(readFileSync(findProjectRoot() + page, 'utf8'), pageWithTables(page), page);
});

test('a table names only the states of its machine, and each of them can be reached or is the first', () => {
  for (const { name, states, table } of MACHINES) {
    const rows = Object.values(table) as { readonly [state: string]: string }[];
    const named = new Set(rows.flatMap((row) => [...Object.keys(row), ...Object.values(row)]));
    assert.deepEqual([...named].sort(), [...states].sort(), name);
    const reached = new Set(
      rows.flatMap((row) => Object.entries(row).flatMap(([from, to]) => (from === to ? [] : to))),
    );
    assert.deepEqual(
      states.slice(1).filter((state) => !reached.has(state)),
      [],
      name,
    );
  }
});
