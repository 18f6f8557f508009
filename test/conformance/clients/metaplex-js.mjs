import assert from 'node:assert/strict';
import { Metaplex, ReadApiConnection } from '@metaplex-foundation/js';
import { PublicKey } from '@solana/web3.js';

/** metaplex.js, which came before umi: NFTs by their accounts, compressed ones by the asset API. */
export default async ({ url, assets, leaf }) => {
  if (assets === null) return { 'NFTs of Metaplex': async () => 'the chain has none' };
  const metaplex = new Metaplex(new ReadApiConnection(url, 'confirmed'));
  const nfts = metaplex.nfts();
  const [mint, owner, creator, authority] = [assets.ids[0], assets.owner, assets.creator, assets.authority].map(
    (key) => new PublicKey(key),
  );
  return {
    'an NFT by its mint': async () => {
      const found = await nfts.findByMint({ mintAddress: mint });
      const { name, symbol, collection, updateAuthorityAddress } = found;
      assert.deepEqual([name, symbol, collection.verified], ['Picture #0', 'PIC', true]);
      assert.ok(updateAuthorityAddress.equals(authority));
      assert.equal((await nfts.findByMetadata({ metadata: found.metadataAddress })).name, name);
    },
    'NFTs of an owner, a creator, an authority': async () => {
      const ids = assets.ids.toSorted();
      for (const found of [
        await nfts.findAllByOwner({ owner }),
        await nfts.findAllByCreator({ creator }),
        await nfts.findAllByUpdateAuthority({ updateAuthority: authority }),
        await nfts.findAllByMintList({ mints: assets.ids.map((id) => new PublicKey(id)) }),
      ])
        assert.deepEqual(found.map(({ mintAddress }) => mintAddress.toBase58()).sort(), ids);
    },
    'a compressed NFT, and its proof': async () => {
      const assetId = new PublicKey(leaf.id);
      const { model, name, compression } = await nfts.findByAssetId({ assetId });
      assert.deepEqual([model, name, compression.compressed, compression.tree], ['nft', leaf.name, true, leaf.tree]);
      const { root, tree_id } = await metaplex.rpc().getAssetProof(assetId);
      assert.deepEqual([root, tree_id], [leaf.root, leaf.tree]);
    },
    // They send `page: 0` and nothing else.
    'lists of the asset API': async () => 'this client names no page, which the reference refuses',
  };
};
