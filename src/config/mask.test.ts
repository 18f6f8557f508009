import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import fc from 'fast-check';
import { builtInDir } from '../cli/package-files.ts';
import { findPlugins } from '../daemon/registry.ts';
import { coreConfig, secret } from './core.ts';
import { maskSecrets } from './mask.ts';
import { fillDefaults, maskText, type SchemaNode } from './node.ts';
import { assembleSchema } from './schema.ts';

test('addresses keep scheme and host only', () => {
  assert.equal(maskText('https://rpc.example.com/v2/abcdef?api-key=k'), 'https://rpc.example.com/***');
  assert.equal(maskText('postgres://user:pw@db:5432/parhelion'), 'postgres://db:5432/***');
  assert.equal(maskText('http://127.0.0.1:8899'), 'http://127.0.0.1:8899');
  assert.equal(maskText('sqlite:/var/lib/x.db'), 'sqlite:/var/lib/x.db');
  assert.equal(maskText('Bearer abc'), '***');
  assert.equal(maskText('mailto:someone'), '***');
});

test('no secret of the core configuration survives masking', () => {
  const token = fc.stringMatching(/^[a-z0-9]{12,20}$/).map((text) => `zz${text}`);
  fc.assert(
    fc.property(token, fc.nat(3), (hidden, shape) => {
      const entries = [
        `https://host/${hidden}`,
        { url: `https://user:${hidden}@host/`, websocketUrl: `wss://host/?k=${hidden}` },
        { url: 'https://host', headers: { authorization: `Bearer ${hidden}`, other: hidden } },
        `https://host/?api-key=${hidden}#x`,
      ];
      const value = fillDefaults(coreConfig, {
        upstream: { urls: [entries[shape]], devnet: { urls: entries } },
        store: { url: `postgres://u:${hidden}@db/x` },
      });
      const text = JSON.stringify(maskSecrets(coreConfig, value));
      assert.equal(text.includes(hidden), false, text);
    }),
  );
});

test('other values stay unchanged, and user info is removed everywhere', () => {
  const schema = Type.Object({ a: Type.Integer(), b: Type.String(), c: Type.Array(Type.String(secret)) });
  assert.deepEqual(maskSecrets(schema, { a: 1, b: 'https://u:p@h/x', c: ['k', ''] }), {
    a: 1,
    b: 'https://***@h/x',
    c: ['***', ''],
  });
});

/** Shown to clients in answers, so it holds no key. */
const PUBLIC = ['wallet.explorerTxUrl'];

test('every address of the whole configuration is masked, in lists and unions too', async () => {
  const places = { builtInDir, baseDir: builtInDir, packageDirs: [] };
  const schema: SchemaNode = assembleSchema(await findPlugins([], places));
  const found: string[] = [];
  const shown: string[] = [];
  const hidden = 'https://user:hush1@host.example/hush2/x?key=hush3#hush4';
  const look = (node: SchemaNode, at: readonly string[]): void => {
    for (const branch of node.anyOf ?? []) look(branch, at);
    if (node.items !== undefined) look(node.items, at);
    for (const [key, field] of Object.entries({ ...node.properties, ...node.patternProperties }))
      look(field, [...at, key]);
    const name = at.at(-1) ?? '';
    const isAddress = /-url$/.test(node.format ?? '') || /(url|uri|endpoint|gateway)s?$/i.test(name);
    if (node.type !== 'string' || !isAddress || PUBLIC.includes(at.join('.'))) return;
    found.push(at.join('.'));
    if (/hush/.test(JSON.stringify(maskSecrets(node, hidden)))) shown.push(at.join('.'));
  };
  look(schema, []);
  assert.deepEqual(shown, []);
  for (const key of ['store.url', 'prices.baseUrl', 'traces.endpoint', 'token-metadata.offChain.ipfsGateways'])
    assert.ok(found.includes(key), key);
  assert.ok(found.length >= 15, found.join());
});
