import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { encode32 } from '../lib/base58.ts';
import { createAddressIndex } from './address-set.ts';
import { decodeBlock } from './decode/decode-block.ts';
import { matchBlock } from './match-block.ts';

const bytesOf = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const address = (byte: number): string => encode32(bytesOf(byte));
const seed = Uint32Array.of(5, 6, 7, 8);
const balance = (owner: number) => ({
  accountIndex: 0,
  mint: address(200),
  owner: address(owner),
  uiTokenAmount: { amount: '1', decimals: 0 },
});

/** A transaction as the numbers of its addresses. */
interface Draft {
  readonly keys: readonly number[];
  readonly writable: readonly number[];
  readonly readonly: readonly number[];
  readonly owners: readonly number[];
}

function blockFrom(drafts: readonly Draft[]) {
  const entries = drafts.map(({ keys, writable, readonly, owners }, index) => {
    const lookups = [{ table: bytesOf(250), writable: Uint8Array.from(writable), readonly: Uint8Array.from(readonly) }];
    const message = sampleMessage({ version: 0, keys: keys.map(bytesOf), lookups, instructions: [] });
    const loaded = { writable: writable.map(address), readonly: readonly.map(address) };
    const meta = { preTokenBalances: owners.slice(1).map(balance), postTokenBalances: owners.slice(0, 2).map(balance) };
    return entryOf({ message, loaded, meta, signatures: [Buffer.alloc(64, index + 1)] });
  });
  return decodeBlock(100, blockOf(entries));
}

const number = fc.integer({ min: 1, max: 40 });
const list = (minLength: number) => fc.array(number, { minLength, maxLength: 5 });
const draft = fc.record({ keys: list(1), writable: list(0), readonly: list(0), owners: list(0) });
const watches = fc.array(fc.tuple(number, fc.nat(12)), { maxLength: 30 });

test('matches equal those of a linear search', () => {
  fc.assert(
    fc.property(fc.array(draft, { maxLength: 6 }), watches, fc.boolean(), (drafts, watched, owners) => {
      const index = createAddressIndex({ seed });
      for (const [byte, owner] of watched) index.add(bytesOf(byte), owner);
      const watchersOf = (bytes: readonly number[]): number[] => [
        ...new Set(watched.filter(([byte]) => bytes.includes(byte)).map(([, owner]) => owner)),
      ];
      const expected = drafts.flatMap((one, at) => {
        const byKey = watchersOf([...one.keys, ...one.writable, ...one.readonly]);
        const byOwner = owners ? watchersOf(one.owners).filter((owner) => !byKey.includes(owner)) : [];
        const ascending = (numbers: number[]): number[] => numbers.sort((left, right) => left - right);
        return byKey.length + byOwner.length === 0
          ? []
          : [{ index: at, byKey: ascending(byKey), byTokenOwner: ascending(byOwner) }];
      });
      const matches = matchBlock(blockFrom(drafts), index, { owners });
      // A transaction whose matching owner watchers also watch a key of it is listed once, by key.
      assert.deepEqual(matches, expected);
    }),
    { numRuns: 500 },
  );
});

test('a mint, a token program and a lookup table do not match', () => {
  const index = createAddressIndex({ seed });
  for (const byte of [200, 250]) index.add(bytesOf(byte), 1);
  const block = blockFrom([{ keys: [1], writable: [2], readonly: [3], owners: [4] }]);
  assert.deepEqual(matchBlock(block, index, { owners: true }), []);
});

test('matching by a loaded key only, and by the owner of a token balance only', () => {
  const index = createAddressIndex({ seed });
  index.add(bytesOf(3), 30);
  index.add(bytesOf(4), 40);
  const block = blockFrom([
    { keys: [1], writable: [2], readonly: [3], owners: [] },
    { keys: [1], writable: [], readonly: [], owners: [4] },
  ]);
  assert.deepEqual(matchBlock(block, index, { owners: true }), [
    { index: 0, byKey: [30], byTokenOwner: [] },
    { index: 1, byKey: [], byTokenOwner: [40] },
  ]);
  assert.deepEqual(matchBlock(block, index, { owners: false }), [{ index: 0, byKey: [30], byTokenOwner: [] }]);
});
