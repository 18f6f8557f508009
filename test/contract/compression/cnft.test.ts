/** Concurrent trees on both engines, compared with trees that are rehashed at every change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createTreeHistory, resetTree } from '../../../plugins/compression/chain/repair-cnft.ts';
import { createConcurrentHashing } from '../../../plugins/compression/indexing/cnft.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { assetId } from '../../../src/solana/concurrent/tree.ts';
import {
  bubblegumScenarios,
  createModelTree,
  type ModelTree,
  schemaOf,
  type TreeCall,
  treeTransaction,
} from '../../helpers/bubblegum.ts';
import { type AssetProof, type CnftBed, createCnftBed, foldProof } from '../../helpers/cnft-harness.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { eachStore } from '../../helpers/store.ts';

const ZERO = new Uint8Array(32);
const keyOf = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);

/** One change: which tree, which leaf, and what becomes of it. */
interface Action {
  readonly tree: number;
  readonly leaf: number;
  readonly owner: number;
  readonly what: 'asset' | 'raw' | 'burn';
  /** Whether the slot goes on behind it. */
  readonly ends: boolean;
}

const action: fc.Arbitrary<Action> = fc.record({
  tree: fc.nat(1),
  leaf: fc.nat(15),
  owner: fc.integer({ min: 20, max: 90 }),
  what: fc.constantFrom('asset', 'asset', 'asset', 'raw', 'burn'),
  ends: fc.boolean(),
});

interface Block {
  readonly slot: number;
  readonly transactions: readonly object[];
}

interface Life {
  readonly trees: readonly ModelTree[];
  /** The first one makes the trees. */
  readonly blocks: readonly Block[];
  /** Which leaves hold an asset at the end. */
  readonly assets: readonly { readonly tree: ModelTree; readonly leaf: number; readonly id: string }[];
}

function live(actions: readonly Action[], heights: readonly [number, number] = [3, 4]): Life {
  const trees = heights.map((height, at) => createModelTree(keyOf(200 + at), height));
  const start = trees.map((tree): TreeCall => ({ call: 'start', tree: tree.key, told: tree.started() }));
  const blocks: { slot: number; transactions: object[] }[] = [
    { slot: 1, transactions: [treeTransaction(1, 1, start)] },
  ];
  const assets = new Map<string, Life['assets'][number]>();
  let [slot, number] = [2, 10];
  for (const { tree: at, leaf: wanted, owner, what, ends } of actions) {
    const tree = trees[at]!;
    const leaf = wanted % 2 ** tree.height;
    const id = assetId(tree.key, BigInt(leaf));
    const schema = what === 'asset' ? schemaOf(id, BigInt(leaf), owner, owner % 2 === 0 ? 1 : 2) : null;
    const hash = schema !== null ? hashLeaf(schema) : what === 'burn' ? ZERO : keyOf(owner);
    const call: TreeCall = { call: 'replace', tree: tree.key, told: tree.set(leaf, hash), schema };
    if (what === 'asset') assets.set(encode32(id), { tree, leaf, id: encode32(id) });
    else assets.delete(encode32(id));
    const transaction = treeTransaction(slot, number++, [call]);
    const last = blocks.at(-1)!;
    if (last.slot === slot) last.transactions.push(transaction);
    else blocks.push({ slot, transactions: [transaction] });
    if (ends) slot += 1;
  }
  return { trees, blocks, assets: [...assets.values()] };
}

async function play(bed: CnftBed, blocks: readonly Block[]): Promise<void> {
  for (const { slot, transactions } of blocks) await bed.apply(slot, transactions);
}

/** Every proof is the model's, and nothing else has one. */
async function checkProofs(bed: CnftBed, { trees, assets }: Life): Promise<void> {
  const ids = trees.flatMap(({ key, height }) =>
    Array.from({ length: 2 ** height }, (_, leaf) => encode32(assetId(key, BigInt(leaf)))),
  );
  const proofs = await bed.call<Record<string, AssetProof | null>>('getAssetProofBatch', { ids });
  assert.deepEqual(Object.keys(proofs), ids);
  const known = new Set(assets.map(({ id }) => id));
  for (const id of ids) assert.equal(proofs[id] !== null, known.has(id));
  for (const { tree, leaf, id } of assets) {
    assert.deepEqual(proofs[id], {
      root: encode32(tree.root()),
      proof: tree.proof(leaf).map((sibling) => encode32(sibling)),
      node_index: 2 ** tree.height + leaf,
      leaf: encode32(tree.leaf(leaf)),
      tree_id: encode32(tree.key),
    });
    assert.equal(foldProof(proofs[id]!), proofs[id]!.root);
  }
}

const actions = fc.array(action, { minLength: 1, maxLength: 40 });

/** Removes what a run left. */
async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as CompressionDb;
    for (const table of ['trees', 'pages', 'assets', 'metadata', 'changes', 'pending', 'head'] as const)
      await db.deleteFrom(`compression_${table}`).execute();
  });
}

bySeed(15, ({ length }) =>
  eachStore('concurrent trees', (engine) => {
    const runs = { numRuns: engine.dialect === 'sqlite' ? length : 5 };

    test('proofs match the model, for any order and repetition of blocks', async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      await fc.assert(
        fc.asyncProperty(actions, fc.infiniteStream(fc.nat(1_000)), async (list, order) => {
          await clear(store);
          const life = live(list);
          await play(bed, life.blocks);
          await checkProofs(bed, life);
          const expected = await bed.rows();
          assert.deepEqual(expected['pending'], []);
          await play(bed, life.blocks);
          assert.deepEqual(await bed.rows(), expected);
          await clear(store);
          const [first, ...others] = [...life.blocks, ...life.blocks.slice(0, 5)]
            .map((block) => ({ block, place: order.next().value as number }))
            .sort((a, b) => a.place - b.place)
            .map(({ block }) => block);
          await play(bed, [first!, ...others]);
          assert.deepEqual(await bed.rows(), expected);
          await checkProofs(bed, life);
        }),
        runs,
      );
    });

    test('a missing change: its tree has a gap, proofs are refused, and all is well when it comes', async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      await fc.assert(
        fc.asyncProperty(fc.array(action, { minLength: 6, maxLength: 30 }), fc.nat(1_000), async (list, at) => {
          await clear(store);
          const life = live(list.map((one) => ({ ...one, ends: true, tree: 0 })));
          const inner = life.blocks.slice(1, -1);
          const missing = inner[at % inner.length]!;
          await play(
            bed,
            life.blocks.filter((block) => block !== missing),
          );
          const id = encode32(assetId(life.trees[0]!.key, 1n));
          const text = await bed.refusal('getAssetProof', { id });
          // Its asset may not have been seen yet: then there is nothing to prove.
          if (!text.startsWith('-32000'))
            assert.match(text, /^-32603 Merkle tree \w+ is missing updates after sequence \d+; its proofs/);
          assert.match(String((await bed.rows())['trees']), /"status":"gap"/);
          await bed.apply(missing.slot, missing.transactions);
          await checkProofs(bed, life);
          assert.deepEqual((await bed.rows())['pending'], []);
        }),
        runs,
      );
    });

    test('a change that contradicts the tree: diverged, refused, and back after a reset', async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      const life = live(
        Array.from({ length: 12 }, (_, i) => ({
          tree: 0,
          leaf: i % 8,
          owner: 30 + i,
          what: 'asset' as const,
          ends: true,
        })),
      );
      const [tree] = life.trees;
      // The same change, but of another leaf: the root no longer follows.
      const wrong = createModelTree(tree!.key, 3);
      for (let i = 0; i < 5; i++) wrong.set(i, keyOf(99));
      const told = wrong.set(5, keyOf(98));
      await play(bed, life.blocks.slice(0, 6));
      await bed.apply(7, [treeTransaction(7, 99, [{ call: 'replace', tree: tree!.key, told }])]);
      await play(bed, life.blocks.slice(7));
      const id = life.assets[0]!.id;
      assert.match(
        await bed.refusal('getAssetProof', { id }),
        /^-32603 Merkle tree \w+ has diverged from the chain at sequence 5 \(root\); its proofs are withheld$/,
      );
      assert.match(await bed.refusal('getAssetProofs', { ids: [id] }), /has diverged/);
      assert.ok(bed.lines.some(({ level, fields }) => level === 'error' && fields['reason'] === 'root'));
      const row = await (store.read as CompressionDb)
        .selectFrom('compression_trees')
        .selectAll()
        .where('key', '=', tree!.key)
        .executeTakeFirstOrThrow();
      assert.deepEqual(Buffer.from(row.expected_root!), Buffer.from(wrong.root()));
      await store.write((tx) => resetTree(tx, createConcurrentHashing(), row));
      await store.write(
        async (tx) =>
          void (await (tx.db as CompressionDb).deleteFrom('compression_pending').where('seq', '=', 6).execute()),
      );
      await play(bed, life.blocks);
      // Only the account shows where its past ends.
      assert.match(
        await bed.refusal('getAssetProof', { id }),
        /^-32603 Merkle tree \w+ is missing updates after sequence 12/,
      );
      const history = createTreeHistory({
        store,
        hashing: createConcurrentHashing(),
        lightHashing: createHashing({ add: () => undefined }),
        account: () => Promise.resolve({ slot: 12, state: { height: 3, seq: 12 } }),
        log: createMemoryLog(),
      });
      assert.equal(await history.goal(row, new AbortController().signal), 12);
      await history.complete({ ...row, seq: 13 });
      assert.match(await bed.refusal('getAssetProof', { id }), /is missing updates/);
      await history.complete({ ...row, seq: 12 });
      await checkProofs(bed, life);
    });

    test('a damaged page is found when it is read and when it is written', async (t) => {
      const store = await engine.store(t);
      const life = live(
        Array.from({ length: 8 }, (_, i) => ({ tree: 0, leaf: i, owner: 30 + i, what: 'asset' as const, ends: true })),
      );
      const damage = () =>
        store.write(async (tx) => {
          const db = tx.db as CompressionDb;
          const { id, bytes } = await db.selectFrom('compression_pages').selectAll().executeTakeFirstOrThrow();
          const flipped = Buffer.from(bytes);
          flipped[70]! ^= 1;
          await db.updateTable('compression_pages').set({ bytes: flipped }).where('id', '=', id).execute();
        });
      const read = await createCnftBed(store);
      await play(read, life.blocks.slice(0, 7));
      await damage();
      const params = { id: life.assets[0]!.id };
      assert.match(await read.refusal('getAssetProof', params), /has diverged from the chain at sequence 6 \(page\)/);
      await clear(store);
      const written = await createCnftBed(store);
      await play(written, life.blocks.slice(0, 7));
      await damage();
      await play(written, life.blocks.slice(7));
      assert.match(
        await written.refusal('getAssetProof', params),
        /has diverged from the chain at sequence 6 \(page\)/,
      );
    });

    test('trees that were prepared with leaves or closed have no proofs, and others are ignored', async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store, [encode32(keyOf(200))]);
      const life = live([
        { tree: 0, leaf: 0, owner: 30, what: 'asset', ends: true },
        { tree: 1, leaf: 0, owner: 31, what: 'asset', ends: true },
      ]);
      await play(bed, life.blocks);
      const [own, other] = life.assets.map(({ id }) => ({ id }));
      assert.equal((await bed.call('getAssetProof', own)).tree_id, encode32(keyOf(200)));
      assert.equal(await bed.refusal('getAssetProof', other), '-32000 Record Not Found: Asset Proof Not Found');
      await bed.apply(50, [treeTransaction(50, 60, [{ call: 'close', tree: keyOf(200), told: null }])]);
      assert.match(await bed.refusal('getAssetProof', own), /\(closed\)/);
      const second = createModelTree(keyOf(200), 3);
      await bed.apply(51, [treeTransaction(51, 61, [{ call: 'start', tree: keyOf(200), told: second.started() }])]);
      await bed.apply(52, [
        treeTransaction(52, 62, [{ call: 'append', tree: keyOf(200), told: second.set(0, keyOf(4)) }]),
      ]);
      assert.match(await bed.refusal('getAssetProof', own), /\(closed\)/);
      assert.deepEqual((await bed.rows())['pending'], []);
    });

    test('a leaf that claims the id of an asset of another tree is ignored', async (t) => {
      const bed = await createCnftBed(await engine.store(t));
      const life = live([
        { tree: 0, leaf: 1, owner: 30, what: 'asset', ends: true },
        { tree: 1, leaf: 1, owner: 31, what: 'raw', ends: true },
      ]);
      await play(bed, life.blocks);
      const [own, foreign] = life.trees;
      const id = assetId(own!.key, 1n);
      const before = await bed.call('getAssetProof', { id: encode32(id) });
      for (const [nonce, claimed] of [
        [1n, id],
        [2n, assetId(own!.key, 2n)],
      ] as const) {
        const schema = schemaOf(claimed, nonce, 66);
        const told = foreign!.set(Number(nonce), hashLeaf(schema));
        const slot = 90 + Number(nonce);
        await bed.apply(slot, [treeTransaction(slot, slot, [{ call: 'replace', tree: foreign!.key, told, schema }])]);
      }
      assert.deepEqual(await bed.call('getAssetProof', { id: encode32(id) }), before);
      const second = { id: encode32(assetId(own!.key, 2n)) };
      assert.equal(await bed.refusal('getAssetProof', second), '-32000 Record Not Found: Asset Proof Not Found');
    });

    test('params may be an object, a list, or bare; extra members are fine', async (t) => {
      const bed = await createCnftBed(await engine.store(t));
      const life = live([{ tree: 0, leaf: 2, owner: 30, what: 'asset', ends: true }]);
      await play(bed, life.blocks);
      const { id } = life.assets[0]!;
      const proof = await bed.call('getAssetProof', { id });
      assert.equal(proof.node_index, 10);
      for (const params of [[id], [{ id }], { id, options: { showUnverifiedCollections: true } }])
        for (const method of ['getAssetProof', 'get_asset_proof'])
          assert.deepEqual(await bed.call(method, params), proof);
      for (const params of [{ ids: [id] }, [[id]], [{ ids: [id] }], [id]])
        for (const method of ['getAssetProofs', 'getAssetProofBatch', 'get_asset_proofs', 'get_asset_proof_batch'])
          assert.deepEqual(await bed.call(method, params), { [id]: proof });
      assert.equal(await bed.refusal('getAssetProof', {}), "-32602 field 'id' is required");
      assert.equal(await bed.refusal('getAssetProof', { id: 'x' }), '-32602 id: Pubkey Validation Err: x is invalid');
      assert.equal(await bed.refusal('getAssetProofs', { ids: [] }), '-32602 No ids provided');
      const many = { ids: Array.from({ length: 1001 }, () => id) };
      assert.equal(
        await bed.refusal('getAssetProofs', many),
        '-32602 Too many ids requested 1001. Maximum allowed: 1000',
      );
    });

    test('recorded trees: every asset that is there has a proof that folds', {
      skip: skipWithoutFixtures,
    }, async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      for (const { transactions } of bubblegumScenarios())
        for (const transaction of transactions) await bed.apply((transaction as { slot: number }).slot, [transaction]);
      const db = store.read as CompressionDb;
      const assets = await db
        .selectFrom('compression_assets as a')
        .innerJoin('compression_trees as t', 't.id', 'a.tree')
        .select('a.id')
        .where('t.status', '!=', 'gap')
        .execute();
      const trees = await db.selectFrom('compression_trees').select('status').execute();
      assert.deepEqual([trees.length, trees.filter(({ status }) => status === 'gap').length], [16, 2]);
      assert.equal(assets.length, 14);
      const proofs = await bed.call<Record<string, AssetProof | null>>('getAssetProofs', {
        ids: assets.map(({ id }) => encode32(id)),
      });
      const found = Object.values(proofs).filter((proof) => proof !== null);
      assert.equal(found.length, 13, 'one asset was burnt');
      for (const proof of found) assert.equal(foldProof(proof), proof.root);
    });
  }),
);
