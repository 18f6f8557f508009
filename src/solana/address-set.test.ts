import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { bySeed } from '../../test/helpers/run-part.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { encode32 } from '../lib/base58.ts';
import { type AddressIndex, createAddressIndex, createPostingsPool, matchBlock } from './address-set.ts';
import { decodeBlock } from './decode/decode-block.ts';
import { createKeyHash, hashKey } from './key-hash.ts';

const seed = Uint32Array.of(0xdeadbeef, 0x12345678, 0x9abcdef1, 0x0badcafe);
const textOf = (key: Uint8Array): string => Buffer.from(key).toString('hex');

/** The reference implementation. */
type Model = Map<string, Set<number>>;

function ownersOf(index: AddressIndex, key: Uint8Array): number[] {
  const words = new Uint32Array(10);
  new Uint8Array(words.buffer).set(key, 8);
  const entry = index.find(words, 2);
  if (entry < 0) return [];
  return Array.from({ length: index.ownerCount(entry) }, (_, position) => index.ownerAt(entry, position)).sort(
    (left, right) => left - right,
  );
}

function assertEqual(index: AddressIndex, model: Model, keys: readonly Uint8Array[]): void {
  for (const key of keys) {
    const expected = [...(model.get(textOf(key)) ?? [])].sort((left, right) => left - right);
    assert.deepEqual(ownersOf(index, key), expected);
  }
  assert.equal(index.size, model.size);
  const words = new Uint32Array(keys.length * 8);
  for (const [at, key] of keys.entries()) new Uint8Array(words.buffer).set(key, at * 32);
  const found = new Uint32Array(keys.length + 1).fill(9);
  index.findAll(words, keys.length, found);
  assert.deepEqual([...found], [...keys.map((_, at) => index.find(words, at * 8) + 1), 9]);
  assert.throws(() => index.findAll(words, keys.length + 1, found), RangeError);
}

function edit(index: AddressIndex, model: Model, key: Uint8Array, owner: number, isAddition: boolean): void {
  const text = textOf(key);
  const owners = model.get(text) ?? new Set();
  const changes = isAddition !== owners.has(owner);
  assert.equal(isAddition ? index.add(key, owner) : index.remove(key, owner), changes);
  if (isAddition) model.set(text, owners.add(owner));
  else if (owners.delete(owner) && owners.size === 0) model.delete(text);
}

/** Keys that agree in the words of the fast hash, and differ only in the top bits of others. */
function arrangedKey(number: number): Uint8Array {
  const words = new Uint32Array(8);
  words[0] = (number & 1) << 31;
  words[2] = (number & 2) << 30;
  words[4] = number << 7;
  words[7] = number >>> 2;
  return new Uint8Array(words.buffer);
}

bySeed(200, ({ length: numRuns }) => {
  test('any series of edits gives the result of a map of sets', () => {
    const key = fc.nat(40).map((number) => new Uint8Array(32).fill(number, number % 31));
    const step = fc.record({ key, owner: fc.nat(30), isAddition: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: 'max' }), (steps) => {
        const index = createAddressIndex({ seed });
        const model: Model = new Map();
        for (const { key, owner, isAddition } of steps) edit(index, model, key, owner, isAddition);
        assertEqual(
          index,
          model,
          Array.from({ length: 41 }, (_, number) => new Uint8Array(32).fill(number, number % 31)),
        );
      }),
      { numRuns },
    );
  });
});

test('100,000 keys over several chunks, a third removed, others added again', () => {
  const random = createSfc32(11);
  const index = createAddressIndex({ seed });
  const model: Model = new Map();
  const keys = Array.from({ length: 100_000 }, () => random.fill(new Uint8Array(32)));
  for (const key of keys) edit(index, model, key, random.below(1000), true);
  for (const key of keys) if (random.below(10) === 0) edit(index, model, key, random.below(1000), true);
  for (const key of keys) {
    if (random.below(3) > 0) continue;
    for (const owner of [...(model.get(textOf(key)) ?? [])]) edit(index, model, key, owner, false);
  }
  for (let added = 0; added < 30_000; added++) edit(index, model, random.fill(new Uint8Array(32)), 7, true);
  assertEqual(index, model, keys);
});

test('deliberately colliding keys stay fast to add, find and remove', () => {
  const index = createAddressIndex({ seed });
  const model: Model = new Map();
  const keys = Array.from({ length: 20_000 }, (_, number) => arrangedKey(number));
  const hash = createKeyHash(seed, false);
  const codes = new Set(keys.map((key) => hashKey(hash, new Uint32Array(key.buffer), 0)));
  assert.equal(codes.size, 1, 'the keys collide in the quick hash');
  for (const key of keys) edit(index, model, key, 3, true);
  assertEqual(index, model, keys);
  for (const key of keys.slice(0, 15_000)) edit(index, model, key, 3, false);
  assertEqual(index, model, keys);
});

test('the strong hash spreads keys that differ only in top bits', () => {
  const hash = createKeyHash(seed, true);
  const buckets = new Uint32Array(1024);
  for (let number = 0; number < 20_000; number++)
    buckets[hashKey(hash, new Uint32Array(arrangedKey(number).buffer), 0) & 1023]!++;
  // The expected number is twenty per bucket; a Poisson count with that mean exceeds 60 with a probability below 1e-11.
  assert.ok(Math.max(...buckets) < 60);
});

test('one address may have thousands of owners, and dead lists do not accumulate', () => {
  const index = createAddressIndex({ seed });
  const model: Model = new Map();
  const key = new Uint8Array(32).fill(9);
  const other = new Uint8Array(32).fill(8);
  for (let owner = 0; owner < 20_000; owner++) edit(index, model, key, owner, true);
  edit(index, model, other, 1, true);
  assertEqual(index, model, [key, other]);
  // 20,000 owners take 80,000 bytes; growing by a quarter leaves room, dead lists are compacted.
  assert.ok(index.bytesUsed() < 1_000_000, `${index.bytesUsed()} bytes`);
  for (let owner = 0; owner < 20_000; owner += 1) if (owner % 7 > 0) edit(index, model, key, owner, false);
  assertEqual(index, model, [key, other]);
});

test('an address takes 60 bytes or less when chunks are half empty, including lists of several owners', () => {
  const random = createSfc32(5);
  const index = createAddressIndex({ seed });
  const count = 60_000;
  for (let number = 0; number < count; number++) {
    const key = random.fill(new Uint8Array(32));
    const owners = number % 10 === 0 ? random.between(2, 20) : 1;
    for (let owner = 0; owner < owners; owner++) index.add(key, owner);
  }
  const bytes = index.bytesUsed() / count;
  assert.ok(bytes <= 60, `${bytes} bytes per address`);
});

test('invalid addresses and owners are refused', () => {
  const index = createAddressIndex({ seed });
  for (const length of [0, 31, 33]) assert.throws(() => index.add(new Uint8Array(length), 1), RangeError);
  for (const owner of [-1, 0.5, 2 ** 31, Number.NaN]) {
    assert.throws(() => index.add(new Uint8Array(32), owner), RangeError);
  }
  assert.equal(index.add(new Uint8Array(32), 2 ** 31 - 1), true);
  assert.deepEqual(ownersOf(index, new Uint8Array(32)), [2 ** 31 - 1]);
  assert.throws(() => createAddressIndex({ seed: new Uint32Array(3) }), RangeError);
});

bySeed(300, ({ length: numRuns }) => {
  test('postings: lists never share words, whatever is appended, removed and freed', () => {
    const step = fc.record({
      list: fc.nat(12),
      number: fc.nat(500),
      kind: fc.constantFrom('add', 'add', 'remove', 'free'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 600, size: 'max' }), (steps) => {
        const pool = createPostingsPool();
        const lists = new Map<number, { offset: number; numbers: number[] }>();
        for (const { list, number, kind } of steps) {
          const known = lists.get(list);
          if (known === undefined) lists.set(list, { offset: pool.create(list, number), numbers: [list, number] });
          else if (kind === 'add') {
            known.offset = pool.append(known.offset, number);
            known.numbers.push(number);
          } else if (kind === 'free') {
            pool.free(known.offset);
            lists.delete(list);
          } else if (known.numbers.length > 2) {
            const position = number % known.numbers.length;
            known.offset = pool.removeAt(known.offset, position);
            known.numbers[position] = known.numbers.at(-1)!;
            known.numbers.pop();
          }
        }
        const copy = createPostingsPool();
        for (const { offset, numbers } of lists.values()) {
          const adopted = copy.adopt(pool, offset);
          const read = (from: typeof pool, at: number) =>
            Array.from({ length: from.count(at) }, (_, position) => from.at(at, position));
          assert.deepEqual(read(pool, offset), numbers);
          assert.deepEqual(read(copy, adopted), numbers);
          assert.equal(pool.indexOf(offset, numbers.at(-1)!), numbers.indexOf(numbers.at(-1)!));
          assert.equal(pool.indexOf(offset, 501), -1);
        }
        assert.equal(copy.deadWords, 0);
      }),
      { numRuns },
    );
  });
});

const bytesOf = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const address = (byte: number): string => encode32(bytesOf(byte));
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

bySeed(500, ({ length: numRuns }) => {
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
      { numRuns },
    );
  });
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
