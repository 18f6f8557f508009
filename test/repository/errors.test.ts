import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ERRORS } from '../../src/runtime/errors.ts';
import { listFiles } from '../helpers/list-files.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { errorTables, TABLE } from '../helpers/write-errors-document.ts';

const root = findProjectRoot();
const read = (dir: string, except = '\0'): string =>
  listFiles(dir, (path) => path.endsWith('.ts') && !path.endsWith(except))
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
const thrownIn = (text: string) => [
  ...new Set([...text.matchAll(/new CodedError\(\s*'([A-Z0-9_]+)'/g)].map(([, code]) => code!)),
];

const text = ['src/', 'packages/'].map((folder) => read(root + folder, 'runtime/errors.ts')).join('\n');

test('every coded error that the source throws stands in the table', () => {
  const thrown = thrownIn(text);
  assert.ok(thrown.length > 20);
  assert.deepEqual(thrown.filter((code) => !(code in ERRORS)).sort(), []);
});

test('every code of the table occurs in the source', () => {
  assert.deepEqual(
    Object.keys(ERRORS).filter((code) => !text.includes(code)),
    [],
  );
});

test('every plugin has a table of the codes it throws, all begin with its name, and none is there for nothing', async () => {
  const tables = await errorTables();
  let codes = 0;
  for (const plugin of readdirSync(`${root}plugins`)) {
    const source = read(`${root}plugins/${plugin}/`).replace(new RegExp(TABLE, 'gmsu'), '');
    const known = Object.keys(tables.get(plugin) ?? {});
    assert.deepEqual(
      thrownIn(source).filter((code) => !known.includes(code) && !(code in ERRORS)),
      [],
      plugin,
    );
    assert.deepEqual(
      known.filter((code) => !source.includes(code)),
      [],
      plugin,
    );
    const prefix = `${plugin.toUpperCase().replaceAll('-', '_')}_`;
    assert.deepEqual(
      known.filter((code) => !code.startsWith(prefix) || code in ERRORS),
      [],
      plugin,
    );
    codes += known.length;
  }
  assert.ok(codes > 5);
});
