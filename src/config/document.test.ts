import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { configDocument } from '../../test/helpers/write-config-document.ts';
import { builtInDir } from '../cli/package-files.ts';
import { findPlugins } from '../daemon/registry.ts';
import { isPlainSchema } from '../lib/plain-schema.ts';
import { loadConfig } from './load.ts';
import type { SchemaNode } from './node.ts';
import { assembleSchema, sectionProblems } from './schema.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const path = `${root}config/parhelion.yaml`;
const places = { builtInDir, baseDir: root, packageDirs: [root] };
const schema: SchemaNode = assembleSchema(await findPlugins([], places));

function* leaves(node: SchemaNode, at: string[] = []): Generator<{ at: string[]; node: SchemaNode }> {
  for (const [key, field] of Object.entries(node.properties ?? {})) {
    // Read when set, and written nowhere.
    if (field.renamedTo !== undefined) continue;
    if (field.type === 'object' && field.properties !== undefined) yield* leaves(field, [...at, key]);
    else yield { at: [...at, key], node: field };
  }
}

function valueAt(values: unknown, at: readonly string[]): unknown {
  return at.reduce<unknown>((place, key) => (place as Record<string, unknown> | undefined)?.[key], values);
}

test('every key of the schema stands in config/parhelion.yaml with its default', () => {
  const values: unknown = parse(readFileSync(path, 'utf8'));
  for (const { at, node } of leaves(schema)) {
    assert.deepEqual(valueAt(values, at), node.default, `${at.join('.')}: npm run config:write`);
  }
});

test('every key of config/parhelion.yaml is in the schema', async () => {
  const loaded = await loadConfig({ file: path, env: {} }, (entries) => findPlugins(entries, places));
  assert.equal(loaded.core.http.port, 8787);
});

test('every key has a description, which stands above it', () => {
  assert.deepEqual(sectionProblems(schema), []);
  const text = readFileSync(path, 'utf8')
    .replaceAll(/\n\s*#/g, '')
    .replaceAll(/\s+/g, ' ');
  for (const { at, node } of leaves(schema)) {
    assert.ok(text.includes(node.description!.replaceAll(/\s+/g, ' ')), `${at.join('.')}: npm run config:write`);
  }
});

test('the file is what the schemas say', async () => {
  assert.equal(readFileSync(path, 'utf8'), await configDocument(), 'npm run config:write');
});

test('a start checks its configuration without compiling the schema', () => {
  assert.equal(isPlainSchema(schema), true);
});
