import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ERRORS } from '../../../src/kernel/errors.ts';
import { listFiles } from '../../helpers/list-files.ts';

const root = fileURLToPath(new URL('../../../src/', import.meta.url));
const sources = listFiles(root, (path) => path.endsWith('.ts') && !path.endsWith('kernel/errors.ts'));
const text = sources.map((path) => readFileSync(path, 'utf8')).join('\n');

test('every coded error that the source throws stands in the table', () => {
  const thrown = [...text.matchAll(/new CodedError\(\s*'([A-Z0-9_]+)'/g)].map(([, code]) => code!);
  assert.ok(thrown.length > 20);
  assert.deepEqual([...new Set(thrown)].filter((code) => !(code in ERRORS)).sort(), []);
});

test('every code of the table occurs in the source', () => {
  assert.deepEqual(
    Object.keys(ERRORS).filter((code) => !text.includes(code)),
    [],
  );
});
