/** Compressed NFTs from a chain to the asset methods of an unmodified client. The programs are not there: their transactions are replayed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHelius } from 'helius-sdk';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { createModelTree, type ModelTree, mintOf, treeAccount, treeTransaction } from '../../helpers/bubblegum.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type AssetProof, foldProof } from '../../helpers/cnft-harness.ts';
import { type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { createCall, followAll } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const KEY = new Uint8Array(32).fill(123);
const PROGRAM = 'cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK';
const WAIT_MS = 20;

let number = 0;

/** The event of the program for a new asset in this leaf. */
async function mint(chain: TestChain, tree: ModelTree, leaf: number, owner: number): Promise<string> {
  const { schema, data } = mintOf(tree.key, leaf, owner, `Leaf ${leaf}`);
  const told = tree.set(leaf, hashLeaf(schema));
  await append(chain, treeTransaction(1, ++number, [{ call: 'replace', tree: tree.key, told, schema, data }]));
  return encode32(schema.id);
}

const append = (chain: TestChain, transaction: object): Promise<void> => chain.appendRecorded(transaction as never);

async function startBed(
  compression: object,
): Promise<{ chain: TestChain; options: StartDaemonOptions; tree: ModelTree }> {
  const chain = await startChain();
  const tree = createModelTree(KEY, 6);
  await append(chain, treeTransaction(1, ++number, [{ call: 'start', tree: KEY, told: tree.started() }]));
  const plugins = ['access', 'proxy', 'token-metadata', 'compression', 'das', 'wallet'];
  const options = { chain, config: { ...followAll, plugins, compression: { verifyChain: false, ...compression } } };
  return { chain, options, tree };
}

test('assets are proved, also after a fork', { skip, timeout: 120_000 }, async (t) => {
  const { chain, options, tree } = await startBed({ cnft: { trees: [encode32(KEY)] } });
  t.after(() => chain.stop());
  const ids: string[] = [];
  for (let leaf = 0; leaf < 5; leaf++) ids.push(await mint(chain, tree, leaf, 40 + leaf));
  const daemon = await startDaemon(options);
  t.after(() => daemon.stop());
  const restore = redirectHostedClients(daemon.apiUrl);
  t.after(restore);
  const helius = createHelius({ apiKey: daemon.key, network: 'mainnet' });
  const atRoot = async (id: string) => {
    for (let tries = 0; tries < 1_000; tries++) {
      const proof = await helius.getAssetProof({ id }).catch(() => null);
      if (proof?.root === encode32(tree.root())) return proof;
      await sleep(WAIT_MS);
    }
    throw new Error(`the proof of ${id} is not that of the newest root`);
  };
  const check = async () => {
    for (const [leaf, id] of ids.entries()) {
      const proof = await atRoot(id);
      assert.deepEqual(proof, {
        root: encode32(tree.root()),
        proof: tree.proof(leaf).map((sibling) => encode32(sibling)),
        node_index: 64 + leaf,
        leaf: encode32(tree.leaf(leaf)),
        tree_id: encode32(KEY),
      });
      assert.equal(foldProof(proof), proof.root);
    }
    const many = await helius.getAssetProofBatch({ ids });
    assert.deepEqual(Object.keys(many).sort(), ids.toSorted());
    const batch = await helius.getAssetBatch({ ids });
    assert.deepEqual(
      batch.map((asset: { content?: { metadata: { name?: string } } } | null) => asset?.content?.metadata.name),
      ids.map((_, leaf) => `Leaf ${leaf}`),
    );
    for (const [leaf, id] of ids.entries()) {
      const asset = await helius.getAsset({ id });
      const ownerAddress = asset.ownership.owner;
      assert.deepEqual(
        [asset.compression?.compressed, asset.compression?.asset_hash, asset.compression?.leaf_id],
        [true, encode32(tree.leaf(leaf)), leaf],
      );
      const { items } = await helius.getAssetsByOwner({ ownerAddress });
      assert.deepEqual([items.length, items[0]?.id], [1, id]);
      const balances = `${daemon.apiUrl}/v1/wallet/${ownerAddress}/balances?showNfts=true&api-key=${daemon.key}`;
      const { nfts } = (await (await fetch(balances)).json()) as { nfts: object[] };
      const shown = { mint: id, name: `Leaf ${leaf}`, imageUri: null, collectionName: null, collectionAddress: null };
      assert.deepEqual(nfts, [{ ...shown, compressed: true }]);
      const changes = await helius.getSignaturesForAsset({ id, page: 1 });
      assert.deepEqual(
        (changes.items as unknown as string[][]).map(([, operation]) => operation),
        ['MintV2'],
      );
    }
    const found = await helius.searchAssets({ tree: encode32(KEY) } as never);
    assert.deepEqual((found.items as { id: string }[]).map(({ id }) => id).sort(), ids.toSorted());
  };
  await check();
  // The newest three change places with others, and come again.
  const report = await chain.fork({ depth: 3, replay: 'all' });
  assert.deepEqual(report.lost, []);
  ids.push(await mint(chain, tree, 5, 60));
  await check();
  await assert.rejects(helius.getAssetProof({ id: encode32(KEY) }), /Asset Proof Not Found/);
});

test('changes of a tree before the first start are fetched', { skip, timeout: 120_000 }, async (t) => {
  const { chain, options, tree } = await startBed({ cnft: { trees: 'all' } });
  t.after(() => chain.stop());
  const ids: string[] = [];
  for (let leaf = 0; leaf < 7; leaf++) ids.push(await mint(chain, tree, leaf, 80 + leaf));
  const follow = { ...followAll.follow, startSlot: 'latest' };
  const daemon = await startDaemon({ ...options, config: { ...options.config, follow } });
  t.after(() => daemon.stop());
  const call = createCall(`${daemon.apiUrl}/?api-key=${daemon.key}`);
  await sleep(500);
  ids.push(await mint(chain, tree, 7, 90));
  let proofs: Record<string, AssetProof | null> = {};
  for (let tries = 0; tries < 2_000 && Object.values(proofs).filter(Boolean).length < ids.length; tries++) {
    // The chain continues, so that earlier blocks become final.
    await chain.fund(encode32(new Uint8Array(32).fill(9)), 1_000_000);
    await sleep(WAIT_MS);
    proofs = await call<typeof proofs>('getAssetProofs', { ids }).catch(() => ({}));
  }
  for (const [leaf, id] of ids.entries()) {
    assert.equal(proofs[id]?.root, encode32(tree.root()));
    assert.equal(proofs[id]?.leaf, encode32(tree.leaf(leaf)));
  }
});

test('a tree that is named is fetched though nothing happens to it any more', { skip, timeout: 120_000 }, async (t) => {
  const { chain, options, tree } = await startBed({ cnft: { trees: [encode32(KEY)] } });
  t.after(() => chain.stop());
  const ids: string[] = [];
  for (let leaf = 0; leaf < 6; leaf++) ids.push(await mint(chain, tree, leaf, 60 + leaf));
  const data = Uint8Array.from(treeAccount(tree));
  await chain.setAccount(encode32(KEY), { lamports: 10_000_000_000, owner: PROGRAM, data });
  const follow = { ...followAll.follow, startSlot: 'latest' };
  const daemon = await startDaemon({ ...options, config: { ...options.config, follow } });
  t.after(() => daemon.stop());
  const call = createCall(`${daemon.apiUrl}/?api-key=${daemon.key}`);
  let proof: AssetProof | null = null;
  for (let tries = 0; tries < 2_000 && proof === null; tries++) {
    await chain.fund(encode32(new Uint8Array(32).fill(9)), 1_000_000);
    await sleep(WAIT_MS);
    proof = await call<AssetProof>('getAssetProof', { id: ids[3] }).catch(() => null);
  }
  // Never an older root: it is not proved before all of its past has been read.
  assert.equal(proof?.root, encode32(tree.root()));
  assert.equal(foldProof(proof), proof.root);
});

test('without trees the methods are left to the upstream, and say why when it has none of them', {
  skip,
  timeout: 60_000,
}, async (t) => {
  const { chain, options } = await startBed({});
  t.after(() => chain.stop());
  const daemon = await startDaemon(options);
  t.after(() => daemon.stop());
  const call = createCall(`${daemon.apiUrl}/?api-key=${daemon.key}`);
  await assert.rejects(call('getAssetProof', [encode32(KEY)]), /-32000.*no upstream has it/);
});
