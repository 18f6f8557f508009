/** The page of the proxy lists the table that decides what the error of an upstream means. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { NODE_ERRORS } from '../../src/solana/node-errors.ts';

test('docs/reference/proxy.md has every row of the table, in its order', () => {
  const page = readFileSync('docs/reference/proxy.md', 'utf8');
  const listed = page.slice(page.indexOf('<!-- refusals -->'), page.indexOf('<!-- /refusals -->'));
  const rows = NODE_ERRORS.map(
    ({ meaning, codes, about }) => `| ${codes?.join(', ') ?? 'any'} | ${about} | ${meaning} |`,
  );
  const wanted = [
    '<!-- refusals -->',
    '| code | who and what | meaning |',
    '|---|---|---|',
    ...rows,
    '| any | everything else | unknown |',
    '',
  ];
  assert.equal(listed.trim(), wanted.join('\n').trim());
});
