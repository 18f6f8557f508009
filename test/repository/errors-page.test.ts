import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ADVICE, adviceFor, EXIT_ADVICE, REFUSAL_ADVICE, RPC_ADVICE } from '../helpers/error-advice.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { errorsDocument, errorTables } from '../helpers/write-errors-document.ts';

const page = readFileSync(`${findProjectRoot()}docs/reference/errors.md`, 'utf8');
const codes = [...(await errorTables()).values()].flatMap((table) => Object.keys(table));

test('docs/reference/errors.md is what the code says: npm run errors:write', async () => {
  assert.equal(page, await errorsDocument());
});

test('every code of the tables is on the page, and every code on the page is in a table', () => {
  const told = [...page.matchAll(/^\| `([A-Z][A-Z0-9_]+)` \|/gm)].map(([, code]) => code!);
  assert.deepEqual([...told].sort(), [...codes].sort());
  assert.equal(new Set(told).size, told.length);
  assert.ok(codes.length > 80);
});

test('no advice is there for nothing', () => {
  const used = new Set(codes.map(adviceFor));
  assert.deepEqual(
    Object.entries(ADVICE).filter(([, advice]) => !used.has(advice)),
    [],
  );
  assert.equal(adviceFor('NO_SUCH_AREA'), null);
  const known = page.match(/^\| .*$/gm)!.join('\n');
  for (const advice of [...Object.values(RPC_ADVICE), ...Object.values(REFUSAL_ADVICE)])
    assert.ok(known.includes(advice));
  assert.equal(Object.keys(EXIT_ADVICE).length, (page.match(/^\| \d+ \|/gm) ?? []).length);
});
