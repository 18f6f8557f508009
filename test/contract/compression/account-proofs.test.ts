import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createProofBed } from '../../helpers/compression-proofs.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { growTree, leafHash, numberOf, rootOf } from '../../helpers/compression-trees.ts';
import { eachStore } from '../../helpers/store.ts';

interface Proof {
  readonly hash: string;
  readonly leafIndex: number;
  readonly proof: readonly string[];
  readonly root: string;
  readonly rootSeq: number;
  readonly merkleTree?: string;
  readonly proveByIndex?: boolean;
  readonly treeContext?: {
    readonly tree: string;
    readonly queue: string;
    readonly treeType: number;
    readonly cpiContext: null;
  };
}
interface Answer<T> {
  readonly context: { readonly slot: number };
  readonly value: T;
}

const HEAD = 700;
const NONE = encode32(keyOf(9));
const text = (number: number) => encode32(leafHash(number));

/** A tree with an account in each of these leaves; the number of the account is that of its leaf. */
async function plant(store: Store, tree: TreeRow, leafIndexes: readonly number[]): Promise<TreeRow> {
  await insertRows(store, {
    compression_accounts: leafIndexes.map((leaf_index) =>
      accountRow(leafHash(leaf_index), { tree: tree.id, leaf_index }),
    ),
  });
  return await growTree(
    store,
    tree,
    leafIndexes.map((index) => ({ index, hash: leafHash(index) })),
  );
}

async function freshStore(engine: { store(t: never): Promise<Store> }, t: unknown): Promise<Store> {
  const store = await engine.store(t as never);
  await createCompressionTables(store);
  await setHead(store, HEAD);
  return store;
}

/** Counts the statements that a store is read with. */
function counted(store: Store): { readonly store: Store; statements(): number } {
  let count = 0;
  const read = store.read.withPlugin({
    // Also told of statements that are text already.
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      count += 1;
      return result;
    },
  });
  return {
    store: { ...store, read },
    statements() {
      const seen = count;
      count = 0;
      return seen;
    },
  };
}

function assertFolds(proof: Proof, leaf: bigint, tree: TreeRow): void {
  assert.equal(proof.proof.length, tree.height);
  assert.equal(proof.root, encode32(tree.root));
  assert.equal(rootOf(leaf, proof.leafIndex, proof.proof), numberOf(tree.root));
}

eachStore('proofs of accounts', (engine) => {
  test('every proof folds to the root of its tree, alone and in any list', async (t) => {
    const store = await freshStore(engine, t);
    const bed = createProofBed(store);
    let id = 0;
    const leaf = fc.oneof(fc.nat(70), fc.nat(5_000), fc.integer({ min: 2 ** 26 - 66, max: 2 ** 26 - 1 }));
    const scenario = fc.record({
      height: fc.constantFrom(26, 32, 40),
      leaves: fc.uniqueArray(leaf, { minLength: 1, maxLength: 12 }),
      asked: fc.array(fc.nat(100), { minLength: 1, maxLength: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(scenario, async ({ height, leaves, asked }) => {
        await store.write(
          async (tx) => void (await (tx.db as CompressionDb).deleteFrom('compression_accounts').execute()),
        );
        id += 1;
        const tree = await plant(store, treeRow(id, { height, seq: 17 }), leaves);
        const hashes = asked.map((n) => leaves[n % leaves.length] as number);
        const { value: list } = await bed.call<Answer<Proof[]>>('getMultipleCompressedAccountProofs', hashes.map(text));
        for (const [i, leafIndex] of hashes.entries()) {
          const { context, value } = await bed.call<Answer<Proof>>('getCompressedAccountProof', {
            hash: text(leafIndex),
          });
          assert.deepEqual(context, { slot: HEAD });
          assert.deepEqual(list[i], value);
          assert.deepEqual(
            { ...value, proof: [], root: '' },
            { proof: [], root: '', leafIndex, hash: text(leafIndex), rootSeq: 17, merkleTree: encode32(tree.key) },
          );
        }
        assertFolds(list[0] as Proof, numberOf(leafHash(hashes[0] as number)), tree);
      }),
      { numRuns: 12 },
    );
  });

  test('the texts are those of the engine', async (t) => {
    const store = await freshStore(engine, t);
    await plant(store, treeRow(1, { queue: null }), [3, 9]);
    const bed = createProofBed(store);
    for (const suffix of ['', 'V2']) {
      for (const [name, params] of [
        [`getCompressedAccountProof${suffix}`, { hash: text(3) }],
        [`getMultipleCompressedAccountProofs${suffix}`, [text(3), text(9)]],
      ] as const) {
        const answer = await bed.text(name, params);
        assert.equal(answer, JSON.stringify(JSON.parse(answer)));
      }
    }
  });

  test('V2 contains the tree; an account in the output queue has the path of its empty leaf', async (t) => {
    const store = await freshStore(engine, t);
    const tree = await plant(store, treeRow(2, { type: 3, height: 32, queue: keyOf(5) }), [0, 1, 2]);
    await insertRows(store, {
      compression_accounts: [accountRow(leafHash(3), { tree: 2, leaf_index: 3, queued: 1, seq: null })],
    });
    const bed = createProofBed(store);
    const { value } = await bed.call<Answer<Proof[]>>('getMultipleCompressedAccountProofsV2', [
      text(3),
      text(1),
      text(3),
    ]);
    const [waiting, there, again] = value as [Proof, Proof, Proof];
    assert.deepEqual(waiting, again);
    assert.deepEqual((await bed.call<Answer<Proof>>('getCompressedAccountProofV2', { hash: text(3) })).value, waiting);
    assert.deepEqual([waiting.proveByIndex, waiting.hash, waiting.leafIndex], [true, text(3), 3]);
    assert.deepEqual([there.proveByIndex, there.merkleTree], [false, undefined]);
    assert.deepEqual(there.treeContext, {
      treeType: 3,
      tree: encode32(tree.key),
      queue: encode32(keyOf(5)),
      cpiContext: null,
    });
    assertFolds(waiting, 0n, tree);
    assertFolds(there, numberOf(leafHash(1)), tree);
    // The first version knows leaves only.
    assert.equal(
      await bed.refusal('getCompressedAccountProof', { hash: text(3) }),
      '-32000 Record Not Found: Leaf nodes not found for hashes. Got 0 hashes. Expected 1.',
    );
    assert.equal(
      await bed.refusal('getMultipleCompressedAccountProofs', [text(3), text(1), text(3)]),
      '-32000 Record Not Found: Leaf nodes not found for hashes. Got 1 hashes. Expected 2.',
    );
  });

  test('a spent account has its proof until its leaf is replaced', async (t) => {
    const store = await freshStore(engine, t);
    const tree = await plant(store, treeRow(1, { seq: 4 }), [5, 6]);
    const bed = createProofBed(store);
    await store.write(async (tx) => {
      await (tx.db as CompressionDb)
        .updateTable('compression_accounts')
        .set({ spent: 1 })
        .where('hash', '=', leafHash(5))
        .execute();
    });
    const { value } = await bed.call<Answer<Proof>>('getCompressedAccountProof', { hash: text(5) });
    assertFolds(value, numberOf(leafHash(5)), tree);
    await growTree(store, { ...tree, seq: 5 }, [{ index: 5, hash: new Uint8Array(32) }]);
    for (const name of ['getCompressedAccountProof', 'getCompressedAccountProofV2'])
      assert.equal(
        await bed.refusal(name, { hash: text(5) }),
        '-32000 Record Not Found: Leaf nodes not found for hashes. Got 0 hashes. Expected 1.',
      );
  });

  test('what is not there', async (t) => {
    const store = await freshStore(engine, t);
    await plant(store, treeRow(1), [5]);
    const bed = createProofBed(store);
    const leaves = (got: number, expected: number) =>
      `-32000 Record Not Found: Leaf nodes not found for hashes. Got ${got} hashes. Expected ${expected}.`;
    assert.equal(await bed.refusal('getCompressedAccountProof', { hash: NONE }), leaves(0, 1));
    assert.equal(await bed.refusal('getCompressedAccountProof', { hash: NONE, more: 1 }), leaves(0, 1));
    assert.equal(await bed.refusal('getMultipleCompressedAccountProofs', [text(5), NONE, NONE, text(5)]), leaves(1, 2));
    assert.equal(
      await bed.refusal('getCompressedAccountProofV2', { hash: NONE }),
      '-32000 Record Not Found: Account not found',
    );
    assert.equal(
      await bed.refusal('getMultipleCompressedAccountProofsV2', [text(5), NONE]),
      '-32000 Record Not Found: Account not found',
    );
    assert.equal(
      await bed.refusal('getMultipleCompressedAccountProofs', [text(5), 'x']),
      "-32602 field 'hashes[1]' must be a base58 string of 32 bytes",
    );
    assert.equal(await bed.refusal('getMultipleCompressedAccountProofs', []), '-32602 No hashes provided');
    assert.equal(
      await bed.refusal('getMultipleCompressedAccountProofs', Array(1_001).fill(NONE)),
      '-32602 Too many hashes requested 1001. Maximum allowed: 1000',
    );
    assert.equal(
      await bed.refusal('getCompressedAccountProof', { hash: 'l0' }),
      "-32602 field 'hash' must be a base58 string of 32 bytes",
    );
  });

  test('a doubtful tree gives no proofs; all other trees do', async (t) => {
    const store = await freshStore(engine, t);
    await plant(store, treeRow(1), [5]);
    await plant(store, treeRow(2, { status: 'diverged', reason: 'root', seq: 8 }), [7]);
    await plant(store, treeRow(3, { status: 'gap', seq: 9 }), [8]);
    await plant(store, treeRow(4, { status: 'unverified' }), [9]);
    const bed = createProofBed(store);
    const [second, third] = [treeRow(2), treeRow(3)].map(({ key }) => encode32(key));
    const diverged = `-32603 Merkle tree ${second} has diverged from the chain at sequence 8 (root); its proofs are withheld`;
    const gap = `-32603 Merkle tree ${third} is missing updates after sequence 9; its proofs are withheld while they are fetched`;
    for (const suffix of ['', 'V2']) {
      assert.equal(await bed.refusal(`getCompressedAccountProof${suffix}`, { hash: text(7) }), diverged);
      assert.equal(await bed.refusal(`getCompressedAccountProof${suffix}`, { hash: text(8) }), gap);
      const many = `getMultipleCompressedAccountProofs${suffix}`;
      assert.equal(await bed.refusal(many, [text(5), text(7)]), diverged);
      assert.equal(await bed.refusal(many, [text(8), text(5)]), gap);
      assert.equal((await bed.call<Answer<Proof[]>>(many, [text(5), text(9)])).value.length, 2);
    }
  });

  test('nothing is indexed yet', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    const bed = createProofBed(store);
    assert.equal(await bed.refusal('getCompressedAccountProof', { hash: NONE }), '-32002 nothing has been indexed yet');
    assert.equal(
      await bed.refusal('getMultipleCompressedAccountProofs', [NONE]),
      '-32002 nothing has been indexed yet',
    );
    assert.equal(await bed.refusal('getMultipleNewAddressProofs', [NONE]).then((text) => text.slice(0, 6)), '-32002');
  });

  test('cached pages are never mixed: others change the tree, and change it back', async (t) => {
    const store = await freshStore(engine, t);
    const bed = createProofBed(store);
    let tree = await plant(store, treeRow(1), [0, 1, 64, 5_000]);
    const proofOf = async (leafIndex: number) =>
      (await bed.call<Answer<Proof>>('getCompressedAccountProof', { hash: text(leafIndex) })).value;
    const first = tree;
    const before = await proofOf(0);
    for (const [round, index] of [1, 64, 1, 64, 5_000, 64].entries()) {
      // Between two changes mostly one path is read, so that pages of several states are cached.
      if (round < 4) await proofOf(5_000);
      tree = await growTree(store, { ...tree, seq: tree.seq + 1 }, [{ index, hash: leafHash(900 + round) }]);
      assertFolds(await proofOf(0), numberOf(leafHash(0)), tree);
      if (round === 3) assertFolds(await proofOf(5_000), numberOf(leafHash(5_000)), tree);
    }
    await growTree(
      store,
      { ...first },
      [1, 64, 5_000].map((index) => ({ index, hash: leafHash(index) })),
    );
    assert.deepEqual(await proofOf(0), before);
  });

  test('one statement where the pages are cached, two where not, for one hash or many', async (t) => {
    const plain = await freshStore(engine, t);
    await plant(plain, treeRow(1, { height: 40 }), [0, 1, 2 ** 39]);
    const { store, statements } = counted(plain);
    const bed = createProofBed(store);
    await bed.call('getCompressedAccountProof', { hash: text(0) });
    assert.equal(statements(), 2);
    await bed.call('getCompressedAccountProof', { hash: text(1) });
    assert.equal(statements(), 1);
    await bed.call('getMultipleCompressedAccountProofs', [text(0), text(1), text(2 ** 39)]);
    assert.equal(statements(), 2);
    await bed.call('getMultipleCompressedAccountProofs', [text(2 ** 39), text(1)]);
    assert.equal(statements(), 1);
  });

  test('proofs requested together equal those requested individually', async (t) => {
    const plain = await freshStore(engine, t);
    const leaves = Array.from({ length: 90 }, (_, i) => i * 3);
    await plant(plain, treeRow(1, { seq: 6 }), leaves);
    await plant(plain, treeRow(2, { type: 3, height: 32 }), [1_000]);
    const { store, statements } = counted(plain);
    const bed = createProofBed(store);
    const ask = (number: number) =>
      bed.refusal(`getCompressedAccountProof${number % 2 === 0 ? '' : 'V2'}`, { hash: text(number) });
    const asked = [...leaves, 1_000, 1, 4, ...leaves.slice(0, 20)];
    const together = await Promise.all(asked.map(ask));
    // Two lots: accounts with their trees, and pages of each tree; the second one may find its pages already.
    assert.ok(statements() <= 6);
    for (const [i, number] of asked.entries()) assert.equal(together[i], await ask(number));
    // One tree in doubt says nothing about the others.
    await plant(plain, treeRow(3, { status: 'gap', seq: 9 }), [2_000]);
    await plant(plain, treeRow(4), [3_000]);
    await flipByte(plain, 4);
    const mixed = [0, 3, 2_000, 6, 3_000, 9, 2_000];
    statements();
    const answers = await Promise.all(mixed.map(ask));
    for (const [i, number] of mixed.entries()) {
      if (number === 2_000) assert.match(answers[i]!, /^-32603 .* is missing updates after sequence 9/);
      else if (number === 3_000) assert.match(answers[i]!, /^-32603 .* has diverged from the chain .*[(]page[)]/);
      else assert.equal(answers[i], together[number / 3]);
    }
  });

  test('a damaged page: its tree is refused and marked, the others are served', async (t) => {
    const store = await freshStore(engine, t);
    const tree = await plant(store, treeRow(1, { seq: 3 }), [5]);
    await plant(store, treeRow(2), [7]);
    await flipByte(store, tree.id);
    const bed = createProofBed(store);
    const refused = `-32603 Merkle tree ${encode32(tree.key)} has diverged from the chain at sequence 3 (page); its proofs are withheld`;
    assert.equal(await bed.refusal('getCompressedAccountProof', { hash: text(5) }), refused);
    const [row] = await (store.read as CompressionDb)
      .selectFrom('compression_trees')
      .selectAll()
      .where('id', '=', 1)
      .execute();
    assert.deepEqual([row?.status, row?.reason], ['diverged', 'page']);
    assert.equal(await bed.refusal('getMultipleCompressedAccountProofs', [text(7), text(5)]), refused);
    assert.equal((await bed.call<Answer<Proof>>('getCompressedAccountProof', { hash: text(7) })).value.leafIndex, 7);
    assert.equal(bed.log.lines.filter(({ level }) => level === 'error').length, 1);
  });

  test('with verifyOnRead, a path that does not lead to the root is refused', async (t) => {
    const store = await freshStore(engine, t);
    const tree = await plant(store, treeRow(1, { seq: 3 }), [5]);
    await plant(store, treeRow(2), [7]);
    await store.write(async (tx) => {
      await (tx.db as CompressionDb)
        .updateTable('compression_trees')
        .set({ root: Buffer.from(keyOf(3)) })
        .where('id', '=', 1)
        .execute();
    });
    const bed = createProofBed(store, { config: { verifyOnRead: true } });
    const refused = `-32603 Merkle tree ${encode32(tree.key)} has diverged from the chain at sequence 3 (page); its proofs are withheld`;
    assert.equal(await bed.refusal('getCompressedAccountProof', { hash: text(5) }), refused);
    for (let times = 0; times < 2; times += 1)
      assert.equal((await bed.call<Answer<Proof>>('getCompressedAccountProof', { hash: text(7) })).value.leafIndex, 7);
    assert.equal((await bed.call<Answer<Proof[]>>('getMultipleCompressedAccountProofs', [text(7)])).value.length, 1);
  });
});

/** One bit of the lowest page of a tree. */
async function flipByte(store: Store, tree: number): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as CompressionDb;
    const page = await db
      .selectFrom('compression_pages')
      .selectAll()
      .where('id', '>=', tree * 2 ** 37)
      .orderBy('id')
      .executeTakeFirstOrThrow();
    const bytes = Buffer.from(page.bytes);
    bytes[32 * 5] = (bytes[32 * 5] as number) ^ 1;
    await db.updateTable('compression_pages').set({ bytes }).where('id', '=', page.id).execute();
  });
}
