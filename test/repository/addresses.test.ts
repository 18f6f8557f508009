import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { decode32 } from '../../src/lib/base58.ts';
import * as programs from '../../src/solana/programs.ts';
import { listFiles } from '../helpers/list-files.ts';
import { findProjectRoot } from '../helpers/project-root.ts';

const LIST = 'src/solana/programs.ts';
/** Its addresses are a frozen text, the dictionary of stored bodies. */
const FROZEN = 'plugins/wallet/store/transactions.ts';
const KEY = /(?<![1-9A-HJ-NP-Za-km-z])[1-9A-HJ-NP-Za-km-z]{32,44}(?![1-9A-HJ-NP-Za-km-z])/g;
const MAX_SLIPS = 4;
/** Wrong on purpose: a test of keys that are none. */
const WRONG = new Set(['So1111111111111111111111111111111111111111']);

const root = findProjectRoot();
const listed = new Map<string, string>();
for (const [name, value] of Object.entries(programs)) {
  if (typeof value === 'string') listed.set(value, name);
  else if (!Array.isArray(value)) for (const [key, address] of Object.entries(value)) listed.set(address, key);
}

interface Place {
  readonly where: string;
  readonly key: string;
}

/** Every text of the length of an address in the alphabet of base58. */
function keysIn(files: readonly string[]): Place[] {
  return files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((text, index) =>
        [...new Set(text.match(KEY))].map((key) => ({ where: `${relative(root, file)}:${index + 1}`, key })),
      ),
  );
}

/** Not in the list, but at most four letters away from an address there, or equal to it but for capitals: a slip of the hand. */
function isSlip(key: string): boolean {
  if (listed.has(key)) return false;
  for (const address of listed.keys()) {
    if (address === programs.SYSTEM_PROGRAM) continue;
    if (address.toLowerCase() === key.toLowerCase()) return true;
    const [start, end] = [sharedStart(address, key), sharedEnd(address, key)];
    if (start + end >= Math.min(address.length, key.length) - MAX_SLIPS && differences(address, key) <= MAX_SLIPS)
      return true;
  }
  return false;
}

function sharedStart(left: string, right: string): number {
  let count = 0;
  while (count < left.length && left[count] === right[count]) count += 1;
  return count;
}

function sharedEnd(left: string, right: string): number {
  let count = 0;
  while (count < left.length && left.at(-1 - count) === right.at(-1 - count)) count += 1;
  return count;
}

/** Letters between what two texts share at their starts and at their ends. */
function differences(left: string, right: string): number {
  const shared = Math.min(sharedStart(left, right) + sharedEnd(left, right), left.length, right.length);
  return Math.max(left.length, right.length) - shared;
}

const isSource = (path: string) => /\.tsx?$/.test(path) && !path.includes('.test.');
const source = keysIn(
  ['src', 'plugins', 'packages'].flatMap((folder) => listFiles(join(root, folder), isSource)),
).filter(({ where }) => !where.startsWith(FROZEN));
const others = keysIn(
  ['src', 'plugins', 'packages', 'test', 'docs', 'config'].flatMap((folder) =>
    listFiles(join(root, folder), (path) => !isSource(path) && /\.(ts|tsx|mjs|md|ya?ml)$/.test(path)),
  ),
);

test('an address of the list has 32 bytes and one name', () => {
  for (const [address, name] of listed) {
    assert.notEqual(decode32(address), null, `${name} is no key: ${address}`);
    const lines = source.filter(({ where, key }) => where.startsWith(LIST) && key === address);
    assert.equal(lines.length, 1, `${name} stands more than once`);
  }
});

test('the source takes addresses from the list, without copies and slips', () => {
  const copies = source.filter(({ where, key }) => !where.startsWith(LIST) && (listed.has(key) || isSlip(key)));
  assert.deepEqual(copies, []);
});

test('no other address stands in the source twice', () => {
  const places = new Map<string, string[]>();
  for (const { where, key } of source) {
    if (decode32(key) !== null) places.set(key, [...(places.get(key) ?? []), where]);
  }
  assert.deepEqual(
    [...places].filter(([, list]) => list.length > 1),
    [],
  );
});

test('no address in tests, documents and configuration is a slip of one in the list', () => {
  assert.deepEqual(
    others.filter(({ key }) => isSlip(key) && !WRONG.has(key)),
    [],
  );
});
