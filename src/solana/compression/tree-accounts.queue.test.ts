/** Accounts of queues: recorded ones, and generated histories of queues whose batches take turns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { listFixtures, readFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { chainOfPart, readQueueHeader } from './tree-accounts.ts';

interface Life {
  readonly isTree: boolean;
  readonly parts: number;
  readonly partSize: number;
  readonly inserted: number;
  /** Parts that went into the tree. */
  readonly done: number;
}

const BATCHES = 2;
const ROOTS = 3;
const BLOOM_BITS = 64;

/** The chain of the part with this number in this test. */
const chainOf = (number: number): Buffer => Buffer.alloc(32, number + 1);

/** The account after such a history: with the first value after a batch is in the tree, the batch is reused and its chains are cleared. */
function accountOf({ isTree, parts, partSize, inserted, done }: Life): Buffer {
  const batchSize = parts * partSize;
  const storeBytes = 16 + 32 * parts;
  const stores = isTree ? 704 + ROOTS * 32 + (BATCHES * BLOOM_BITS) / 8 : 552 + BATCHES * (16 + 32 * batchSize);
  const data = Buffer.alloc(stores + BATCHES * storeBytes);
  data.write(isTree ? 'BatchMta' : 'queueacc', 'latin1');
  const at = isTree ? 264 : 232;
  if (isTree) data.writeUInt32LE(ROOTS, 252);
  for (const [i, value] of [BATCHES, batchSize, partSize, isTree ? BLOOM_BITS : 0, 0, 0, inserted].entries())
    data.writeBigUInt64LE(BigInt(value), at + 8 * i);
  for (let store = 0; store < BATCHES; store += 1) {
    const batch = at + 56 + 96 * store;
    // The last round in which this batch got values.
    const rounds = Math.ceil((inserted - store * batchSize) / (BATCHES * batchSize));
    const first = (store + BATCHES * Math.max(0, rounds - 1)) * parts;
    const values = Math.min(batchSize, Math.max(0, inserted - first * partSize));
    const full = Math.floor(values / partSize);
    data.writeBigUInt64LE(BigInt(values % partSize), batch);
    data.writeBigUInt64LE(BigInt(full), batch + 16);
    data.writeBigUInt64LE(BigInt(Math.min(full, Math.max(0, done - first))), batch + 24);
    // The start in the record is not reliable.
    data.writeBigUInt64LE(BigInt(store * batchSize + (isTree ? 1 : 0)), batch + 72);
    const head = stores + store * storeBytes;
    data.writeBigUInt64LE(BigInt(Math.ceil(values / partSize)), head);
    data.writeBigUInt64LE(BigInt(parts), head + 8);
    for (let place = 0; place < full; place += 1) chainOf(first + place).copy(data, head + 16 + 32 * place);
  }
  return data;
}

const lives = fc
  .record({
    isTree: fc.boolean(),
    parts: fc.integer({ min: 1, max: 5 }),
    partSize: fc.integer({ min: 1, max: 4 }),
    inserted: fc.integer({ min: 0, max: 120 }),
    ahead: fc.integer({ min: 0, max: 10 }),
  })
  .map(({ ahead, ...life }): Life => {
    const full = Math.floor(life.inserted / life.partSize);
    // A batch is reused only when all of it is in the tree.
    const batchSize = life.parts * life.partSize;
    const isReused = Math.max(0, Math.ceil(life.inserted / batchSize) - BATCHES);
    return { ...life, done: Math.max(isReused * life.parts, Math.max(0, full - ahead)) };
  });

test('waiting parts are found with their positions and chains, however often the batches were reused', () => {
  fc.assert(
    fc.property(lives, (life) => {
      const account = accountOf(life);
      const header = readQueueHeader(account);
      assert.ok(header !== null);
      assert.equal(header.storesOffset + header.storesBytes, account.length);
      const stores = account.subarray(header.storesOffset);
      const found = header.fullParts.map((part) => [part.from, part.size, chainOfPart(stores, header, part)]);
      const full = Math.floor(life.inserted / life.partSize);
      const wanted = Array.from({ length: full - life.done }, (_, i) => {
        const number = life.done + i;
        return [number * life.partSize, life.partSize, new Uint8Array(chainOf(number))];
      });
      assert.deepEqual(found, wanted);
    }),
    { numRuns: 2_000 },
  );
});

test('recorded accounts are measured to their last byte', { skip: skipWithoutFixtures }, () => {
  const accounts = listFixtures('compression/accounts').map((path) => {
    const { account } = JSON.parse(gunzipSync(readFixture(path)).toString());
    return { path, data: Buffer.from(account.data[0], 'base64') };
  });
  const read = accounts.map(({ path, data }) => ({ path, data, header: readQueueHeader(data) }));
  const queues = read.filter(({ header }) => header !== null);
  assert.equal(queues.length, 3);
  for (const { path, data, header } of queues) {
    assert.match(path, /batch/);
    assert.deepEqual([header!.nextIndex, header!.fullParts], [0, []]);
    assert.equal(header!.storesOffset + header!.storesBytes, data.length);
  }
});

test('arbitrary bytes never throw', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 1_000 }), fc.boolean(), (bytes, isTree) => {
      bytes.set(Buffer.from(isTree ? 'BatchMta' : 'queueacc').subarray(0, bytes.length));
      const header = readQueueHeader(bytes);
      for (const part of header?.fullParts ?? []) chainOfPart(bytes, header!, part);
    }),
  );
});
