import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32 } from '../../lib/base58.ts';
import { assetOfLeaf } from './asset.ts';

const [one, two] = [1, 2].map((byte) => new Uint8Array(32).fill(byte)) as [Uint8Array, Uint8Array];

test('hashes and flags of version 2 are left out for a leaf of version 1: with null clients read it as version 2', () => {
  const metadata = {
    ...({ name: 'A', symbol: '', uri: '', sellerFeeBasisPoints: 0, primarySaleHappened: false } as const),
    ...({ isMutable: true, editionNonce: null, tokenStandard: 0, collection: null, uses: null } as const),
    ...({ tokenProgram: 0, creators: [] } as const),
  };
  const membersOf = (version: 1 | 2) => {
    const more = version === 1 ? null : { collectionHash: one, assetDataHash: two, flags: 0 };
    const leaf = {
      ...({ version, id: one, owner: one, delegate: one, dataHash: one, creatorHash: one, more } as const),
      ...({ tree: two, leafIndex: 0, leaf: two, seq: 1, state: 'present' } as const),
    };
    const options = { dialect: 'hosted', showFungible: false, showUnverifiedCollections: false } as const;
    const { compression } = assetOfLeaf(leaf, { ...metadata, version }, { document: null, slot: 1 }, options);
    return Object.entries(compression).filter(([name]) =>
      ['collection_hash', 'asset_data_hash', 'flags'].includes(name),
    );
  };
  assert.deepEqual(membersOf(1), []);
  assert.deepEqual(membersOf(2), [
    ['collection_hash', encode32(one)],
    ['asset_data_hash', encode32(two)],
    ['flags', 0],
  ]);
});
