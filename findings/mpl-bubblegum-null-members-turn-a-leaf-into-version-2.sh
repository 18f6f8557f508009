#!/usr/bin/env bash
# @metaplex-foundation/mpl-bubblegum 5.1.0: `null` in three members of an asset makes a compressed NFT of version 1
# unusable.
#
# Expected: collection_hash, asset_data_hash and flags belong to leaves of version 2. A server that has none of them
#   for version 1 may leave them out or send null.
# Happens: getAssetWithProof tests `!== undefined`. With null in one of the three it takes a leaf of version 1 in a
#   collection for version 2, hashes the metadata as version 2 does, and throws "Unable to reconstruct current
#   metadata data hash from DAS asset". Without a collection nothing is tested, so only assets of collections fail.
# Hurts: servers that serialize absent members as null, and all their users: transfer, burn and update of the usual
#   compressed NFT fail before a transaction exists. The text blames the data.
# Instead: servers leave the three members out for version 1. Clients delete them in a wrapper of rpc.getAsset when
#   they are null.
#
# Needs node 20.18 or newer and npm.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --ignore-scripts --silent @metaplex-foundation/mpl-bubblegum@5.1.0 @metaplex-foundation/umi@1.6.0 >&2

cat > run.mjs <<'JS'
import * as bubblegum from '@metaplex-foundation/mpl-bubblegum';
import * as umi from '@metaplex-foundation/umi';

const key = (byte) => umi.publicKey(new Uint8Array(32).fill(byte));
const [owner, tree, collection, creator] = [key(1), key(2), key(3), key(4)];
const creators = [{ address: creator, verified: false, share: 100 }];
const metadata = {
  name: 'One', symbol: 'ONE', uri: 'https://example.com/1.json', sellerFeeBasisPoints: 500, primarySaleHappened: false, isMutable: true,
  editionNonce: umi.none(), tokenStandard: umi.some(bubblegum.TokenStandard.NonFungible),
  collection: umi.some({ key: collection, verified: true }), uses: umi.none(),
  tokenProgramVersion: bubblegum.TokenProgramVersion.Original, creators,
};
const dataHash = bubblegum.hashMetadataData(metadata);

function context(absent, inCollection) {
  const asset = {
    id: key(5),
    content: { json_uri: metadata.uri, metadata: { name: metadata.name, symbol: metadata.symbol } },
    ownership: { owner, delegate: null },
    royalty: { basis_points: 500, primary_sale_happened: false },
    supply: { edition_nonce: null },
    mutable: true,
    grouping: inCollection ? [{ group_key: 'collection', group_value: collection, verified: true }] : [],
    creators,
    compression: {
      data_hash: umi.publicKey(dataHash), creator_hash: umi.publicKey(bubblegum.hashMetadataCreators(creators)), leaf_id: 0, tree, seq: 1, ...absent,
    },
  };
  const proof = { root: key(6), proof: [key(7), key(8), key(9)], node_index: 8, leaf: key(10), tree_id: tree };
  return { rpc: { getAsset: async () => asset, getAssetProof: async () => proof } };
}

async function attempt(name, absent, inCollection = true) {
  let outcome;
  try {
    const { metadata: read } = await bubblegum.getAssetWithProof(context(absent, inCollection), key(5));
    outcome = `read, "${read.name}"`;
  } catch (error) {
    outcome = `${error.name}: ${error.message.slice(0, 68)}`;
  }
  console.log(`  ${name}: ${outcome}`);
  return outcome.startsWith('read') ? 'read' : outcome.includes('Unable to reconstruct') ? 'refused' : outcome;
}

console.log('mpl-bubblegum 5.1.0, getAssetWithProof, a leaf of version 1');
const found = [
  await attempt('members left out', {}),
  await attempt('all three null', { collection_hash: null, asset_data_hash: null, flags: null }),
  await attempt('flags null alone', { flags: null }),
  await attempt('all three null, no collection', { collection_hash: null, asset_data_hash: null, flags: null }, false),
];
if (found.join() !== 'read,refused,refused,read') {
  console.error('CHANGED');
  process.exit(1);
}
JS
node run.mjs
