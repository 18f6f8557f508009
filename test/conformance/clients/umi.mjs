import assert from 'node:assert/strict';
import { dasApi } from '@metaplex-foundation/digital-asset-standard-api';
import { fetchDigitalAsset, findMetadataPda, mplTokenMetadata } from '@metaplex-foundation/mpl-token-metadata';
import {
  createSignerFromKeypair,
  generateSigner,
  keypairIdentity,
  publicKey,
  sol,
  transactionBuilder,
} from '@metaplex-foundation/umi';
import { createUmi } from '@metaplex-foundation/umi-bundle-defaults';

const SYSTEM = publicKey('11111111111111111111111111111111');

/** Metaplex umi: a transfer from its own builder, reads, and the metadata of an NFT where the chain has one. */
export default async ({ url, socketUrl, funded, assets }) => {
  const umi = createUmi(url, { commitment: 'confirmed', wsEndpoint: socketUrl }).use(mplTokenMetadata());
  const payer = umi.eddsa.createKeypairFromSecretKey(await funded());
  umi.use(keypairIdentity(createSignerFromKeypair(umi, payer)));
  const transferData = (amount) => {
    const data = new DataView(new ArrayBuffer(12));
    data.setUint32(0, 2, true);
    data.setBigUint64(4, amount, true);
    return new Uint8Array(data.buffer);
  };
  return {
    'transfer, confirmed': async () => {
      const to = generateSigner(umi).publicKey;
      const keys = [
        { pubkey: umi.identity.publicKey, isSigner: true, isWritable: true },
        { pubkey: to, isSigner: false, isWritable: true },
      ];
      const instruction = { programId: SYSTEM, keys, data: transferData(4_000_000n) };
      const builder = transactionBuilder().add({ instruction, signers: [umi.identity], bytesCreatedOnChain: 0 });
      const { result } = await builder.sendAndConfirm(umi, { confirm: { commitment: 'confirmed' } });
      assert.equal(result.value.err, null);
      assert.deepEqual(await umi.rpc.getBalance(to, { commitment: 'confirmed' }), sol(0.004));
    },
    'accounts and transactions': async () => {
      assert.ok((await umi.rpc.getAccount(SYSTEM)).exists);
      assert.ok((await umi.rpc.getSlot()) > 0);
    },
    'metadata of an NFT': async () => {
      if (assets === null) return 'the chain has none';
      const nft = assets.ids[0];
      const [address] = findMetadataPda(umi, { mint: publicKey(nft) });
      assert.ok((await umi.rpc.getAccount(address)).exists);
      assert.ok((await fetchDigitalAsset(umi, publicKey(nft))).metadata.name.length > 0);
    },
    ...assetFlows(url, assets),
  };
};

/** The plugin for the asset API, with the names of Metaplex and with those of the hosted API. */
function assetFlows(url, assets) {
  const flows = {};
  for (const heliusCompatibility of [false, true]) {
    const { rpc } = createUmi(url).use(dasApi({ heliusCompatibility }));
    const flow = (name, run) => {
      flows[`assets, ${name}, ${heliusCompatibility ? 'hosted' : 'Metaplex'} names`] = async () =>
        assets === null ? 'the chain has none' : await run(assets);
    };
    flow('by id', async ({ ids, owner, tokens }) => {
      const one = await rpc.getAsset(publicKey(ids[0]));
      assert.deepEqual([one.id, one.interface, one.ownership.owner], [ids[0], 'V1_NFT', owner]);
      const displayOptions = { showUnverifiedCollections: true, showFungible: true };
      const many = await rpc.getAssets({ assetIds: [...ids, tokens[0]].map(publicKey), displayOptions });
      assert.deepEqual(
        many.map(({ id }) => id),
        [...ids, tokens[0]],
      );
      // The plugin has texts of its own for all refusals.
      await assert.rejects(rpc.getAsset(publicKey(SYSTEM)), /Asset not found/);
    });
    flow('lists', async ({ owner, authority, group }) => {
      const displayOptions = { showGrandTotal: true };
      const owned = await rpc.getAssetsByOwner({ owner, limit: 5, displayOptions });
      assert.deepEqual([owned.items.length, owned.grand_total], [5, 16]);
      const rest = await rpc.getAssetsByOwner({ owner, cursor: owned.cursor });
      const after = await rpc.getAssetsByOwner({ owner, after: owned.items.at(-1).id });
      assert.deepEqual([rest.items.length, after.items.length], [11, 11]);
      const sortBy = { sortBy: 'id', sortDirection: 'desc' };
      assert.equal((await rpc.getAssetsByAuthority({ authority, sortBy, page: 1, limit: 4 })).items.length, 4);
      assert.equal((await rpc.getAssetsByGroup({ groupKey: 'collection', groupValue: group })).total, 5);
      assert.equal((await rpc.getGrouping({ groupKey: 'collection', groupValue: group })).group_size, 5);
    });
    flow('searches', async ({ owner, tokens, family, creator }) => {
      const search = async (how) => (await rpc.searchAssets({ owner, ...how })).items.map(({ id }) => id);
      assert.deepEqual((await search({ tokenType: 'Fungible' })).sort(), [...tokens].sort());
      assert.equal((await search({ grouping: ['collection', family], creator, creatorVerified: true })).length, 6);
      assert.equal((await search({ interface: 'MplCoreAsset', name: 'Core 2' })).length, 1);
      assert.deepEqual(await search({ delegate: publicKey(creator) }), []);
      await assert.rejects(search({ isAgent: true }), /No assets found/);
    });
    flow('token accounts', async ({ owner, tokens }) => {
      const mintAddress = publicKey(tokens[0]);
      assert.equal((await rpc.getTokenAccounts({ mintAddress })).token_accounts.length, 5);
      assert.equal((await rpc.getTokenAccounts({ ownerAddress: owner })).token_accounts.length, 17);
      await assert.rejects(rpc.getNftEditions({ mintAddress, page: 1, limit: 5 }), /No editions found/);
    });
  }
  return flows;
}
