import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32 } from '../../lib/base58.ts';
import { transactionTypes } from '../transaction-types.ts';
import { anchorDiscriminator } from './named.ts';
import { SOURCES } from './programs.ts';
import { PARSERS } from './registry.ts';

test('every parser has a unique name and programs that are addresses', () => {
  assert.equal(new Set(PARSERS.map(({ name }) => name)).size, PARSERS.length);
  for (const { name, programs } of PARSERS)
    for (const program of programs ?? []) assert.ok(decode32(program) !== null, `${name} ${program}`);
});

test('types and sources of tables are published ones', () => {
  const types = new Set<string>(transactionTypes());
  let checked = 0;
  for (const { name, outcomes } of PARSERS) {
    for (const { type, source } of outcomes ?? []) {
      assert.ok(types.has(type), `${name} ${type}`);
      assert.ok(SOURCES.includes(source), `${name} ${source}`);
      checked += 1;
    }
  }
  assert.ok(checked > 100);
});

test('discriminators follow the naming of Anchor', () => {
  // Taken from recorded instructions.
  assert.equal(anchorDiscriminator('sell'), '33e685a4017f83ad');
  assert.equal(anchorDiscriminator('route'), 'e517cb977ae3ad2a');
  assert.equal(anchorDiscriminator('mint_v1'), '9162c076b8937668');
});
