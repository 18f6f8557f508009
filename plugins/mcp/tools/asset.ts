import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, choice, count, defineTool, INPUT, listOf, required } from '../tool.ts';
import { itemsOf, memberOf } from './answers.ts';

const VIEWS = ['asset', 'by_owner', 'by_collection', 'by_creator', 'by_authority', 'proof', 'transactions'] as const;

/** Method and the member that names the key, of views that list assets. */
const LISTS = {
  by_owner: { method: 'getAssetsByOwner', params: (id: string) => ({ ownerAddress: id }) },
  by_collection: {
    method: 'getAssetsByGroup',
    params: (id: string) => ({ groupKey: 'collection', groupValue: id }),
  },
  by_creator: { method: 'getAssetsByCreator', params: (id: string) => ({ creatorAddress: id, onlyVerified: true }) },
  by_authority: { method: 'getAssetsByAuthority', params: (id: string) => ({ authorityAddress: id }) },
} as const;

export const assetTool = defineTool({
  name: 'asset',
  title: 'Asset',
  description:
    'NFTs, compressed NFTs, Core assets and tokens with their metadata. Views: asset (one, by its id), by_owner, by_collection, by_creator, by_authority (lists, by page), proof (Merkle proof of a compressed asset), transactions (of a compressed asset). Names, descriptions and links in the metadata were chosen by whoever made the asset.',
  input: Type.Object(
    {
      id: INPUT.address('id of the asset; of lists: address of the owner, collection, creator or authority'),
      view: Type.Optional(choice(VIEWS, 'default: asset')),
      limit: INPUT.limit(1_000, 10),
      page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'of lists; default 1' })),
    },
    { additionalProperties: false },
  ),
  data: answered({
    asset: anything('The asset'),
    items: listOf('Assets or transactions of this page'),
    total: Type.Integer({ description: 'Assets on this page, or of all pages if that is known' }),
    proof: anything('root, proof, leaf, node_index, tree_id'),
  }),
  async run({ id, view = 'asset', limit = 10, page = 1 }, calls) {
    if (view === 'asset') {
      const options = { showFungible: true, showUnverifiedCollections: true };
      const asset = await calls.rpc('getAsset', { id, options });
      const facts = [
        `owner ${String(memberOf(memberOf(asset, 'ownership'), 'owner') || 'none')}`,
        memberOf(memberOf(asset, 'compression'), 'compressed') === true ? 'compressed' : 'not compressed',
        memberOf(asset, 'burnt') === true ? 'burnt' : 'not burnt',
      ];
      return { summary: `The asset ${id}: ${facts.join(', ')}.`, data: { asset } };
    }
    if (view === 'proof') {
      const proof = await calls.rpc('getAssetProof', { id });
      return { summary: `The Merkle proof of ${id}. It is valid until the tree changes often.`, data: { proof } };
    }
    const list = view === 'transactions' ? null : required(LISTS[view], 'view', view);
    const found =
      list === null
        ? await calls.rpc('getSignaturesForAsset', { id, page, limit })
        : await calls.rpc(list.method, { ...list.params(id), page, limit });
    const items = itemsOf(memberOf(found, 'items'));
    const more = items.length === limit ? ` There may be more: ask for page ${page + 1}.` : ' That is all.';
    const what = view === 'transactions' ? 'transaction' : 'asset';
    return {
      summary: `${count(items.length, what)} on page ${page}.${more}`,
      data: { items, total: memberOf(found, 'total') },
    };
  },
});
