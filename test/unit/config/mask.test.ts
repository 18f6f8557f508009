import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import fc from 'fast-check';
import { coreConfig } from '../../../src/kernel/config/core.ts';
import { fillDefaults } from '../../../src/kernel/config/defaults.ts';
import { maskSecrets, maskText } from '../../../src/kernel/config/mask.ts';
import { secret } from '../../../src/kernel/config/pieces.ts';

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

test('other values stay as they are, and user info is cut out anywhere', () => {
  const schema = Type.Object({ a: Type.Integer(), b: Type.String(), c: Type.Array(Type.String(secret)) });
  assert.deepEqual(maskSecrets(schema, { a: 1, b: 'https://u:p@h/x', c: ['k', ''] }), {
    a: 1,
    b: 'https://***@h/x',
    c: ['***', ''],
  });
});
