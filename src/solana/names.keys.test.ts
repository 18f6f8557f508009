import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readJsonFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { encode32 } from '../lib/base58.ts';
import { decodeReverse, domainKey, nameMint, parseName } from './names.ts';
import { NAME_PROGRAM } from './programs.ts';

interface Vectors {
  readonly derivation: Readonly<Record<string, string>>;
  readonly domainMint: Readonly<Record<string, string>>;
}

test('accounts of recorded names', { skip: skipWithoutFixtures }, () => {
  const { derivation, domainMint } = readJsonFixture<Vectors>('chain/sns/vectors-open.json');
  assert.ok(Object.keys(derivation).length >= 5);
  for (const [name, account] of Object.entries(derivation)) assert.equal(encode32(domainKey(name.split('.'))), account);
  for (const [name, mint] of Object.entries(domainMint)) assert.equal(encode32(nameMint(domainKey([name]))), mint);
});

test('a well-known name', () => {
  assert.equal(encode32(domainKey(['bonfida'])), 'Crf8hzfthWGbGbLTVCiqRqV5MVnbpHB1L9KQMd6gsinb');
});

test('valid and invalid names', () => {
  assert.deepEqual(parseName('Toly.SOL'), { text: 'toly.sol', labels: ['toly'], suffix: 'sol' });
  assert.deepEqual(parseName('dex.bonfida.sol')?.labels, ['dex', 'bonfida']);
  for (const text of [
    '',
    'toly',
    '.sol',
    'toly.',
    'a..sol',
    'a b.sol',
    'a\u0000.sol',
    'a\n.sol',
    `${'a'.repeat(252)}.sol`,
  ])
    assert.equal(parseName(text), null, JSON.stringify(text));
  assert.notEqual(parseName(`${'a'.repeat(251)}.sol`), null);
  assert.deepEqual(parseName('🐸.sol')?.labels, ['🐸']);
});

test('the text of a name is read from its reverse entry', () => {
  const encode = (text: string, extra = 0) => {
    const bytes = Buffer.from(text, 'utf8');
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return { owner: NAME_PROGRAM, data: Buffer.concat([new Uint8Array(96), length, bytes, new Uint8Array(extra)]) };
  };
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), fc.nat(40), (text, extra) => {
      fc.pre(!text.startsWith('\0'));
      assert.equal(decodeReverse(encode(text, extra)), text);
      assert.equal(decodeReverse(encode(`\0${text}`, extra)), text);
    }),
  );
  const cut = encode('toly');
  assert.equal(decodeReverse({ ...cut, data: cut.data.subarray(0, -1) }), null);
  assert.equal(decodeReverse({ ...cut, owner: 'other' }), null);
});
