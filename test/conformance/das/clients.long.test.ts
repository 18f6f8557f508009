/** The SDKs of the hosted service, unmodified, of all three major versions: each gets what the API answers, and can read it. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { createHelius } from 'helius-sdk';
import { createHelius as createHelius2 } from 'helius-sdk-2';
import { Helius as Helius1 } from 'helius-sdk-v1';
import { encode32 } from '../../../src/lib/base58.ts';
import { editionAddress } from '../../../src/solana/addresses.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { METADATA_PROGRAM } from '../../../src/solana/programs.ts';
import { createModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { foldProof } from '../../helpers/cnft-harness.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createWorld } from '../../helpers/das-world.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { until } from '../../helpers/until.ts';

type Call = (params: object) => Promise<unknown>;

/** Words of the enums that typed clients have: another one fails the whole page. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  interface: [
    'V1_NFT',
    'V1_PRINT',
    'V2_NFT',
    'Legacy_NFT',
    'FungibleAsset',
    'FungibleToken',
    'Identity',
    'Executable',
    'ProgrammableNFT',
    'MplCoreAsset',
    'MplCoreCollection',
    'Custom',
  ],
  ownership_model: ['single', 'token'],
  royalty_model: ['creators', 'fanout', 'single'],
};
/** Members that are always there and not null. */
const ALWAYS = ['interface', 'id', 'content', 'authorities', 'compression', 'grouping', 'royalty', 'creators'] as const;

const skip = (await chainMissing()) ?? false;

test('SDKs 1.5, 2.2 and 3.2', { skip, timeout: 120_000 }, async (t) => {
  const chain = await startChain();
  t.after(() => chain.stop());
  const { owner, family, creator, authority, group, tokens, ids } = await createWorld(chain);
  const [master, treeKey] = [encode32(new Uint8Array(32).fill(77)), new Uint8Array(32).fill(78)];
  const edition = Buffer.from([6, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]);
  await chain.setAccount(editionAddress(master), { lamports: 1_000_000, owner: METADATA_PROGRAM, data: edition });
  const tree = createModelTree(treeKey, 5);
  const append = (transaction: object) => chain.appendRecorded(transaction as never);
  const leaves = [0, 1, 2].map((leaf) => mintOf(treeKey, leaf, 40, `Leaf ${leaf}`));
  await append(treeTransaction(1, 1, [{ call: 'start', tree: treeKey, told: tree.started() }]));
  for (const [leaf, { schema, data }] of leaves.entries()) {
    const told = tree.set(leaf, hashLeaf(schema));
    await append(treeTransaction(1, 2 + leaf, [{ call: 'replace', tree: treeKey, told, schema, data }]));
  }
  const leafIds = leaves.map(({ schema }) => encode32(schema.id));
  const daemon = await startDaemon({
    chain,
    config: {
      plugins: ['access', 'proxy', 'compression', 'das'],
      // From the first block of the local chain on, so that the tree is known from its first change.
      follow: { startSlot: 1_000, pollMs: 20 },
      compression: { cnft: { trees: [encode32(treeKey)] }, verifyChain: false },
      das: { follow: { collections: [family], creators: [creator] }, documentWaitMs: 0 },
    },
  });
  t.after(() => daemon.stop());
  const restore = redirectHostedClients(daemon.apiUrl);
  t.after(restore);
  // The first SDK's own transport, over `fetch`: its requests can be sent to the daemon then.
  const near = createRequire(createRequire(import.meta.url).resolve('helius-sdk-v1'));
  const axios = near('axios') as { readonly defaults: { adapter: unknown } };
  const { adapter } = axios.defaults;
  axios.defaults.adapter = 'fetch';
  t.after(() => {
    axios.defaults.adapter = adapter;
  });
  const options = { apiKey: daemon.key, network: 'mainnet' } as const;
  const clients = {
    '1.5': new Helius1(daemon.key).rpc,
    '2.2': createHelius2(options),
    '3.2': createHelius(options),
  } as unknown as Readonly<Record<string, Readonly<Record<string, Call>>>>;

  const ask = async (method: string, params: object): Promise<Record<string, unknown>> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    const { result, error } = (await response.json()) as { result?: Record<string, unknown>; error?: object };
    assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
    return result as Record<string, unknown>;
  };
  const leafOwner = encode32(new Uint8Array(32).fill(40));
  await until(async () => {
    await chain.seal(1);
    const followed = await ask('getAssetsByCreator', { creatorAddress: creator }).catch(() => null);
    const grouped = await ask('getAssetsByGroup', { groupKey: 'collection', groupValue: family }).catch(() => null);
    const owned = await ask('getAssetsByOwner', { ownerAddress: leafOwner }).catch(() => null);
    return followed?.['total'] === 11 && grouped?.['total'] === 11 && owned?.['total'] === 3;
  }, 'all is indexed');

  const show = { showUnverifiedCollections: true, showCollectionMetadata: true, showFungible: true };
  const calls: readonly (readonly [method: string, params: object, items: number])[] = [
    ['getAsset', { id: ids[0], displayOptions: show }, 1],
    ['getAsset', { id: leafIds[0] }, 1],
    ['getAsset', { id: tokens[1], options: show }, 1],
    ['getAssetBatch', { ids: [...ids.slice(0, 3), ...leafIds, tokens[0]], options: show }, 7],
    ['getAssetProof', { id: leafIds[1] }, 0],
    ['getAssetProofBatch', { ids: leafIds }, 0],
    ['getAssetsByOwner', { ownerAddress: owner, page: 1, limit: 1_000, displayOptions: show }, 18],
    ['getAssetsByOwner', { ownerAddress: leafOwner, sortBy: { sortBy: 'id', sortDirection: 'asc' } }, 3],
    ['getAssetsByGroup', { groupKey: 'collection', groupValue: family, page: 1 }, 11],
    ['getAssetsByGroup', { groupKey: 'collection', groupValue: group, page: 1 }, 5],
    ['getAssetsByCreator', { creatorAddress: creator, onlyVerified: true, page: 1 }, 6],
    ['getAssetsByAuthority', { authorityAddress: authority, page: 1, limit: 5 }, 5],
    ['searchAssets', { ownerAddress: owner, tokenType: 'all', options: { showNativeBalance: true } }, 18],
    ['searchAssets', { ownerAddress: leafOwner, compressed: true, page: 1 }, 3],
    ['searchAssets', { ownerAddress: leafOwner, supply: 1 }, 3],
    ['searchAssets', { grouping: ['collection', family], page: 1, limit: 10 }, 10],
    ['getSignaturesForAsset', { id: leafIds[2], page: 1 }, 0],
    ['getTokenAccounts', { owner, page: 1, limit: 100, options: { showZeroBalance: true } }, 0],
    ['getTokenAccounts', { mint: tokens[0] }, 0],
    ['getNftEditions', { mint: master, page: 1, limit: 5 }, 0],
  ];
  for (const [method, params, items] of calls) {
    const answer = await ask(method, params);
    const assets = items === 0 ? [] : ((answer['items'] ?? [answer].flat()) as Record<string, unknown>[]);
    assert.equal(assets.length, items, method);
    for (const asset of assets) assertReadable(asset);
    for (const [version, client] of Object.entries(clients)) {
      // The first version has no call for many proofs.
      if (version === '1.5' && method === 'getAssetProofBatch') continue;
      assert.deepEqual(await client[method]!(params), answer, `${method} of ${version}`);
    }
  }
  const proof = (await clients['1.5']!['getAssetProof']!({ id: leafIds[1] })) as Parameters<typeof foldProof>[0];
  assert.equal(foldProof(proof), encode32(tree.root()));
});

function assertReadable(asset: Record<string, unknown>): void {
  const what = JSON.stringify(asset);
  for (const name of ALWAYS) assert.ok(asset[name] != null, `${name} of ${what}`);
  const { royalty, ownership, content, compression } = asset as Record<string, Record<string, unknown>>;
  const words = { interface: asset['interface'], ...ownership, ...royalty } as Record<string, string>;
  for (const [name, known] of Object.entries(WORDS))
    assert.ok(known.includes(words[name] as string), `${name}: ${what}`);
  assert.equal(typeof ownership!['owner'], 'string');
  assert.equal(typeof content!['json_uri'], 'string');
  assert.ok(content!['metadata'] !== null);
  const members = ['eligible', 'compressed', 'data_hash', 'creator_hash', 'asset_hash', 'tree', 'seq', 'leaf_id'];
  for (const name of members) assert.ok(compression![name] != null, `compression.${name} of ${what}`);
}
