/** Recorded transactions of the Light programs, indexed: roots after each step, accounts, proofs and queues are the known ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CompressionDb, u64Of } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { pageId, readTreePages } from '../../../plugins/compression/trees/page-book.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { pathPages, siblings } from '../../../src/solana/merkle/path.ts';
import {
  blockWith,
  createIndexingBed,
  type ExpectedState,
  loadRecording,
  recordingNames,
} from '../../helpers/compression.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { eachStore } from '../../helpers/store.ts';

const skip = skipWithoutFixtures;
const hashing = createHashing({ add: () => undefined });

test('recordings are there', { skip }, () => assert.equal(recordingNames.length, 8));

eachStore('compression recordings', (engine) => {
  for (const name of recordingNames) {
    test(`${name}, transaction by transaction`, { skip }, async (t) => {
      const store = await engine.store(t);
      const { expected, entries, trees, isPartial } = loadRecording(name);
      const options = { programId: expected.compressionProgramId, trees, verifyChain: !isPartial };
      const bed = await createIndexingBed(store, options);
      for (const [i, { slot, entry }] of entries.entries()) {
        await bed.apply(blockWith(slot, [entry]));
        assert.deepEqual(
          await rootsOf(store, Object.keys(expected.steps[i]!.roots)),
          expected.steps[i]!.roots,
          `step ${i}`,
        );
      }
      assert.deepEqual(await accountsOf(store), accountsOfExpected(expected));
      await checkProofs(store, expected);
      assert.deepEqual(await queueOf(store, expected), expected.addressQueueAfterLastStep);
      assert.deepEqual(
        [bed.counts['decode_errors_total'] ?? 0, bed.counts['account_hash_mismatches_total'] ?? 0],
        [0, 0],
      );
    });
  }
});

async function rootsOf(store: Store, names: readonly string[]) {
  const rows = await (store.read as CompressionDb).selectFrom('compression_trees').selectAll().execute();
  return Object.fromEntries(
    rows
      .filter(({ key }) => names.includes(encode32(key)))
      .map(({ key, root, seq }) => [encode32(key), { root: encode32(root), rootSeq: seq }]),
  );
}

async function accountsOf(store: Store) {
  const db = store.read as CompressionDb;
  const trees = await db.selectFrom('compression_trees').selectAll().execute();
  const rows = await db.selectFrom('compression_accounts').selectAll().execute();
  const text = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));
  const accounts = rows.map((row) => {
    const tree = trees.find(({ id }) => id === row.tree)!;
    return {
      hash: encode32(row.hash),
      owner: encode32(row.owner),
      lamports: String(u64Of(row.lamports)),
      address: text(row.address),
      tree: encode32(tree.key),
      leafIndex: row.leaf_index,
      seq: tree.type === 1 ? row.seq : null,
      data:
        row.data === null
          ? null
          : {
              discriminatorLE: String(Buffer.from(row.discriminator!).readBigUInt64LE()),
              dataBase64: Buffer.from(row.data).toString('base64'),
              dataHash: encode32(row.data_hash!),
            },
      slotCreated: row.slot_created,
      spent: row.spent === 1,
      inOutputQueue: row.queued === 1,
      nullifier: text(row.nullifier),
      nullifierQueueIndex: row.nullifier_index,
      nullifiedInTree: row.nullified === 1,
    };
  });
  return sorted(accounts);
}

const sorted = <T extends { readonly hash: string }>(list: readonly T[]) =>
  [...list].sort((a, b) => (a.hash < b.hash ? -1 : 1));

function accountsOfExpected({ accounts, trees }: ExpectedState) {
  return sorted(
    accounts.map(({ leafInTree, ...account }) => {
      // V1 leaves are set to zero in place: the recordings say of their accounts only that the leaf is gone.
      const isGone = trees[account.tree]?.type === 1 && !leafInTree;
      return { ...account, nullifiedInTree: account.nullifiedInTree || isGone };
    }),
  );
}

async function pathOf(store: Store, treeKey: string, index: number) {
  const db = store.read as CompressionDb;
  const key = Buffer.from(decode32(treeKey)!);
  const tree = await db.selectFrom('compression_trees').selectAll().where('key', '=', key).executeTakeFirstOrThrow();
  const pages = await readTreePages(
    db,
    pathPages(tree.height, index).map((page) => pageId(tree.id, page)),
  );
  const page = (number: number) => {
    const found = pages.get(pageId(tree.id, number)) ?? null;
    assert.ok(typeof found !== 'string');
    return found;
  };
  const proof = siblings(tree.height, index, page, hashing.zeros).map((hash) => encode32(hash));
  return { tree, proof, root: encode32(tree.root), rootSeq: tree.seq };
}

async function checkProofs(store: Store, expected: ExpectedState): Promise<void> {
  for (const { merkleTree, leafIndex, ...known } of expected.inclusionProofsAfterLastStep) {
    const { proof, root, rootSeq } = await pathOf(store, merkleTree, leafIndex);
    assert.deepEqual({ hash: known.hash, proof, root, rootSeq }, known);
  }
  const db = store.read as CompressionDb;
  for (const known of expected.newAddressProofsAfterLastStep) {
    const { tree, proof, root, rootSeq } = await pathOf(store, known.merkleTree, known.lowElementLeafIndex);
    const low = await db
      .selectFrom('compression_indexed_leaves')
      .selectAll()
      .where('tree', '=', tree.id)
      .where('value', '<', Buffer.from(decode32(known.address)!))
      .orderBy('value', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow();
    assert.deepEqual(
      {
        address: known.address,
        merkleTree: known.merkleTree,
        lowElementLeafIndex: low.leaf_index,
        nextIndex: low.next_index,
        lowerRangeAddress: encode32(low.value),
        higherRangeAddress: encode32(low.next_value),
        root,
        rootSeq,
        proof,
      },
      known,
    );
  }
}

async function queueOf(store: Store, { addressQueueAfterLastStep }: ExpectedState) {
  const rows = await (store.read as CompressionDb)
    .selectFrom('compression_address_queue as q')
    .innerJoin('compression_trees as t', 't.id', 'q.tree')
    .select(['t.key', 'q.address'])
    .orderBy('q.queue_index')
    .execute();
  return Object.fromEntries(
    Object.keys(addressQueueAfterLastStep).map((tree) => [
      tree,
      rows.filter(({ key }) => encode32(key) === tree).map(({ address }) => encode32(address)),
    ]),
  );
}
