import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from './project-root.ts';
import { judgeTier, MAX_REFERENCES } from './tier-budget.ts';

/** Costs of all files that the judge asks for, as if a second were spent on each. */
const costs = new Map<string, number>();
const named = /names (.*)$/.exec(judgeTier(1, costs).text)?.[1]?.split(', ') ?? [];
for (const file of named) costs.set(file, 1);

test('the files of the reference are there', () => {
  assert.ok(named.length >= 20);
  for (const file of named) assert.ok(existsSync(join(findProjectRoot(), file)), file);
});

test('a machine that is three times slower changes nothing, a tier that costs more than its budget fails', () => {
  const slow = new Map([...costs].map(([file, seconds]) => [file, 3 * seconds]));
  const used = 0.9 * MAX_REFERENCES * named.length;
  assert.deepEqual(judgeTier(3 * used, slow), judgeTier(used, costs));
  assert.equal(judgeTier(used, costs).isWithin, true);
  const more = judgeTier(1.25 * used, costs);
  assert.equal(more.isWithin, false);
  assert.match(more.text, /^TOO MUCH/);
});

test('a reference that did not run is no pass', () => {
  const [one = ''] = named;
  const { isWithin, text } = judgeTier(1, new Map([...costs].filter(([file]) => file !== one)));
  assert.deepEqual([isWithin, text.endsWith(one)], [false, true]);
});
