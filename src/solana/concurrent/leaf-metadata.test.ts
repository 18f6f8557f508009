/** Metadata of compressed NFTs, from the instructions that set it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { bubblegumScenarios } from '../../../test/helpers/bubblegum.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { createByteReader } from '../../lib/bytes.ts';
import { decodeTransaction } from '../decode/decode-block.ts';
import { type ChangeEvent, decodeConcurrent } from './decode-concurrent.ts';
import {
  type LeafMetadata,
  metadataAfter,
  metadataOfLeaf,
  readLeafMetadata,
  writeLeafMetadata,
} from './leaf-metadata.ts';
import { createConcurrentFinder } from './tree.ts';

const find = createConcurrentFinder();

function changesOf(transaction: object): ChangeEvent[] {
  const { keys, transactions } = decodeTransaction(transaction);
  const { events } = decodeConcurrent(transactions[0]!, keys, find(keys));
  return events.flatMap((event) => (event.kind === 'change' ? [event] : []));
}

interface DasScenario {
  readonly transactions: readonly { readonly getTransaction: object }[];
}

/** Instructions after which the metadata is known from them alone. */
const WITH_METADATA = /^(Mint|Verify|Unverify|Set.*Collection|UpdateMetadata)/;

test('recorded: every instruction that sets metadata has the one that its leaf is a hash of', {
  skip: skipWithoutFixtures,
}, () => {
  const das = listFixtures('das')
    .filter((file) => file.includes('compressed'))
    .flatMap((file) => readJsonFixture<DasScenario[]>(file))
    .flatMap(({ transactions }) => transactions.map(({ getTransaction }) => getTransaction));
  const others = bubblegumScenarios().flatMap(({ transactions }) => transactions);
  const seen = new Map<string, number>();
  for (const { operation, asset, metadata } of [...das, ...others].flatMap(changesOf)) {
    assert.notEqual(operation, null);
    if (asset === null) continue;
    assert.equal(metadata !== null, WITH_METADATA.test(operation!), operation!);
    if (metadata === null) continue;
    assert.ok(metadataOfLeaf(metadata, asset));
    seen.set(operation!, (seen.get(operation!) ?? 0) + 1);
  }
  assert.ok(seen.size >= 7, [...seen].join(' '));
});

const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
const creators = fc.array(fc.record({ address: key, verified: fc.boolean(), share: fc.nat(100) }), { maxLength: 5 });
const u64 = fc.bigInt(0n, 2n ** 64n - 1n);
const common = {
  name: fc.string({ unit: 'grapheme' }),
  symbol: fc.string(),
  uri: fc.string(),
  sellerFeeBasisPoints: fc.nat(10_000),
  primarySaleHappened: fc.boolean(),
  isMutable: fc.boolean(),
  tokenStandard: fc.option(fc.nat(3)),
  creators,
};
const first: fc.Arbitrary<LeafMetadata> = fc.record({
  ...common,
  version: fc.constant(1 as const),
  editionNonce: fc.option(fc.nat(255)),
  tokenProgram: fc.nat(1),
  collection: fc.option(fc.record({ verified: fc.boolean(), key })),
  uses: fc.option(fc.record({ method: fc.nat(2), remaining: u64, total: u64 })),
});
const second: fc.Arbitrary<LeafMetadata> = fc.record({
  ...common,
  version: fc.constant(2 as const),
  editionNonce: fc.constant(null),
  uses: fc.constant(null),
  tokenProgram: fc.constant(0),
  collection: fc.option(fc.record({ verified: fc.constant(true), key })),
});

const metadatas = fc.oneof(first, second).map((one) => structuredClone(one));

/** A leaf with these hashes, computed from the definition. */
function leafOf(metadata: LeafMetadata) {
  const fee = Buffer.alloc(2);
  fee.writeUInt16LE(metadata.sellerFeeBasisPoints);
  const list = metadata.creators.map(({ address, verified, share }) =>
    Buffer.concat([address, Buffer.of(Number(verified), share)]),
  );
  return {
    version: metadata.version,
    dataHash: keccak_256(Buffer.concat([keccak_256(writeLeafMetadata(metadata)), fee])),
    creatorHash: keccak_256(Buffer.concat(list)),
    more:
      metadata.version === 1 ? null : { collectionHash: keccak_256(metadata.collection?.key ?? new Uint8Array(32)) },
  };
}

test('any metadata is read as it was written, and only for a leaf with its hashes', () => {
  fc.assert(
    fc.property(metadatas, fc.nat(1_000), (metadata, at) => {
      const bytes = Uint8Array.from(writeLeafMetadata(metadata));
      assert.deepEqual(readLeafMetadata(createByteReader(bytes), metadata.version), metadata);
      const leaf = leafOf(metadata);
      assert.deepEqual(metadataOfLeaf(bytes, leaf), metadata);
      const other = Uint8Array.from(bytes);
      other[at % other.length]! ^= 1;
      assert.equal(metadataOfLeaf(other, leaf), null);
      assert.equal(metadataOfLeaf(bytes, { ...leaf, creatorHash: keccak_256(bytes) }), null);
    }),
  );
});

test('unverified collections, changed creators and updates are found by their hashes', () => {
  const sample = fc.sample(
    first.filter((one) => one.creators.length > 0 && one.collection !== null),
    { numRuns: 30, seed: 7 },
  );
  const account = () => new Uint8Array(32).fill(9);
  for (const given of sample) {
    const call = (discriminator: string, head: number, ...rest: readonly Uint8Array[]) => ({
      data: Buffer.concat([Buffer.from(discriminator, 'hex'), Buffer.alloc(head), writeLeafMetadata(given), ...rest]),
      account,
    });
    const collection = given.collection!;
    const unverified = { ...given, collection: { ...collection, verified: !collection.verified } };
    const fits = (name: string, made: ReturnType<typeof call>, wanted: LeafMetadata) => {
      const found = metadataAfter(made, leafOf(wanted));
      assert.deepEqual(found, Buffer.from(writeLeafMetadata(wanted)), name);
    };
    fits('UnverifyCollection', call('fafb2a6a2989baa8', 108), unverified);
    fits('SetAndVerifyCollection', call('ebf279d89eeab4ea', 108), {
      ...given,
      collection: { verified: true, key: account() },
    });
    const flipped = given.creators.map((one, at) => (at === 0 ? { ...one, verified: !one.verified } : one));
    fits('VerifyCreator', call('34116084470455c2', 108), { ...given, creators: flipped });
    const set = Buffer.concat([Buffer.of(1, 1, 0, 0, 0, 65, 0, 0, 0, 1, 7, 0, 1, 1, 1, 0)]);
    fits('UpdateMetadata', call('aab62bef614ee1ba', 44, set), {
      ...given,
      name: 'A',
      sellerFeeBasisPoints: 7,
      primarySaleHappened: true,
      isMutable: false,
    });
    // A burnt or moved asset keeps what it had.
    assert.equal(metadataAfter(call('a334c8e78c0345ba', 108), leafOf(given)), null);
  }
});

test('no bytes make it throw', () => {
  const leaf = leafOf(fc.sample(first, { numRuns: 1, seed: 1 })[0]!);
  const starts = ['9162c076b8937668', '34116084470455c2', 'e5233d5b0f0e63a0', '2b67592a79f23e48', 'aab62bef614ee1ba'];
  fc.assert(
    fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 300 }), (start, rest) => {
      const data = Buffer.concat([Buffer.from(start, 'hex'), rest]);
      assert.equal(metadataAfter({ data, account: () => new Uint8Array(0) }, leaf), null);
    }),
  );
});
