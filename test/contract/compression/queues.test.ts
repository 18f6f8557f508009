import assert from 'node:assert/strict';
import { test } from 'node:test';
import { poseidon2 } from 'poseidon-lite';
import type { TreeRow } from '../../../plugins/compression/store/tables.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
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
import { bytesOf, growAddressTree, growTree, leafHash, numberOf } from '../../helpers/compression-trees.ts';
import { eachStore } from '../../helpers/store.ts';

interface Queue {
  readonly leafIndices: readonly number[];
  readonly accountHashes: readonly string[];
  readonly leaves: readonly string[];
  readonly firstQueueIndex: number;
  readonly nextIndex?: number;
  readonly txHashes?: readonly string[];
  readonly nullifiers?: readonly string[];
  readonly leavesHashChains: readonly string[];
}
interface StateQueue {
  readonly nodes?: readonly { readonly index: string; readonly hash: string }[];
  readonly initialRoot: string;
  readonly rootSeq: number;
  readonly outputQueue?: Queue;
  readonly inputQueue?: Queue;
}
interface AddressQueue {
  readonly addresses: readonly string[];
  readonly queueIndices: readonly number[];
  readonly nodes: readonly { readonly index: string; readonly hash: string }[];
  readonly lowElementIndices: readonly number[];
  readonly lowElementValues: readonly string[];
  readonly lowElementNextIndices: readonly number[];
  readonly lowElementNextValues: readonly string[];
  readonly leavesHashChains: readonly string[];
  readonly initialRoot: string;
  readonly startIndex: number;
  readonly subtrees: readonly string[];
  readonly rootSeq: number;
}

const ZERO = '1'.repeat(32);
const HEIGHT = 32;
const text = (number: number) => encode32(leafHash(number));
const number = (base58: string) => numberOf(decode32(base58)!);
const chain = (values: readonly bigint[]) =>
  values.slice(1).reduce((sum, value) => poseidon2([sum, value]), values[0]!);
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

/** Leaves 0 to 9 are there; 10 to 22 wait; 3, 12 and 7 are to be nullified, in this order, and 5 has been. */
async function world(store: Store): Promise<{ readonly state: TreeRow; readonly address: TreeRow }> {
  await createCompressionTables(store);
  await setHead(store, 40);
  const spends = new Map([3, 12, 7].map((leaf, i) => [leaf, 6 + i]));
  const spend = (leaf: number) => ({
    spent: 1,
    nullifier: leafHash(500 + leaf),
    tx_hash: leafHash(600 + leaf),
    nullified: leaf === 5 ? 1 : 0,
    nullifier_index: leaf === 5 ? 5 : spends.get(leaf)!,
  });
  await insertRows(store, {
    compression_accounts: numbers(0, 23).map((leaf) =>
      accountRow(leafHash(leaf), {
        tree: 1,
        leaf_index: leaf,
        queued: leaf > 9 ? 1 : 0,
        ...(spends.has(leaf) || leaf === 5 ? spend(leaf) : {}),
      }),
    ),
    compression_trees: [treeRow(9)],
    compression_address_queue: [60n, 20n, 30n].map((value, i) => ({
      tree: 2,
      queue_index: 4 + i,
      address: bytesOf(value),
    })),
  });
  return {
    state: await growTree(
      store,
      treeRow(1, { type: 3, height: HEIGHT, seq: 11, next_index: 10 }),
      numbers(0, 10).map((leaf) => ({ index: leaf, hash: leaf === 5 ? leafHash(505) : leafHash(leaf) })),
    ),
    address: await growAddressTree(store, treeRow(2, { type: 4, height: 40, seq: 4 }), [50n, 25n]),
  };
}

/** Numbers above 2^53 stay texts: parsed as numbers they would be others. */
const parsed = <T>(answer: string): T => JSON.parse(answer.replace(/"index":(\d+)/g, '"index":"$1"')) as T;

/** All nodes that a path needs, and that they belong to one tree. */
function assertNodes(
  nodes: readonly { readonly index: string; readonly hash: string }[],
  leaves: readonly number[],
  tree: TreeRow,
) {
  const wanted = new Set<bigint>();
  for (const leaf of leaves) {
    for (let level = 0; level <= tree.height; level += 1) {
      const position = BigInt(leaf) >> BigInt(level);
      wanted.add((BigInt(level) << 56n) | position);
      if (level < tree.height) wanted.add((BigInt(level) << 56n) | (position ^ 1n));
    }
  }
  const found = new Map(nodes.map(({ index, hash }) => [BigInt(index), number(hash)]));
  assert.deepEqual(
    [...found.keys()],
    [...wanted].sort((a, b) => (a < b ? -1 : 1)),
  );
  assert.equal(found.size, nodes.length);
  assert.equal(found.get(BigInt(tree.height) << 56n), numberOf(tree.root));
  for (const leaf of leaves.slice(0, 1)) {
    for (let level = 0n; level < BigInt(tree.height); level += 1n) {
      const left = (level << 56n) | ((BigInt(leaf) >> level) & ~1n);
      const parent = ((level + 1n) << 56n) | (BigInt(leaf) >> (level + 1n));
      assert.equal(poseidon2([found.get(left)!, found.get(left + 1n)!]), found.get(parent));
    }
  }
}

eachStore('queues of V2 trees', (engine) => {
  test('elements to append and to nullify, in whole batches', async (t) => {
    const store = await engine.store(t);
    const { state } = await world(store);
    const bed = createProofBed(store);
    const answer = await bed.text('getQueueElements', {
      tree: encode32(state.key),
      outputQueue: { limit: 100, zkpBatchSize: 5 },
      inputQueue: { limit: 100, zkpBatchSize: 2, startIndex: 6 },
    });
    const { stateQueue, ...rest } = parsed<{ stateQueue: StateQueue }>(answer);
    assert.deepEqual(rest, { context: { slot: 40 } });
    const { nodes, initialRoot, rootSeq, outputQueue, inputQueue } = stateQueue;
    assert.deepEqual([initialRoot, rootSeq], [encode32(state.root), 11]);
    const appended = numbers(10, 10);
    assert.deepEqual(outputQueue, {
      leafIndices: appended,
      accountHashes: appended.map(text),
      leaves: appended.map(() => ZERO),
      firstQueueIndex: 10,
      nextIndex: 10,
      leavesHashChains: [numbers(10, 5), numbers(15, 5)].map((batch) =>
        encode32(bytesOf(chain(batch.map((leaf) => numberOf(leafHash(leaf)))))),
      ),
    });
    assert.deepEqual(inputQueue, {
      leafIndices: [3, 12],
      accountHashes: [text(3), text(12)],
      leaves: [text(3), ZERO],
      txHashes: [text(603), text(612)],
      nullifiers: [text(503), text(512)],
      firstQueueIndex: 6,
      leavesHashChains: [encode32(bytesOf(poseidon2([numberOf(leafHash(503)), numberOf(leafHash(512))])))],
    });
    assertNodes(nodes!, [3, ...appended], state);
  });

  test('fewer than a batch is nothing; nothing at all is absent', async (t) => {
    const store = await engine.store(t);
    const { state } = await world(store);
    const bed = createProofBed(store);
    const tree = encode32(state.key);
    const { stateQueue } = await bed.call<{ stateQueue: StateQueue }>('getQueueElements', {
      tree,
      outputQueue: { limit: 20 },
      inputQueue: { limit: 9, startIndex: 9 },
    });
    const empty = { leafIndices: [], accountHashes: [], leaves: [], firstQueueIndex: 0, leavesHashChains: [] };
    assert.deepEqual(stateQueue, {
      initialRoot: encode32(state.root),
      rootSeq: 11,
      outputQueue: { ...empty, nextIndex: 0 },
    });
    const nothing = await bed.call('getQueueElements', { tree, inputQueue: { limit: 9, startIndex: 9 } });
    assert.deepEqual(nothing, { context: { slot: 40 } });
    const part = { tree, outputQueue: { limit: 6, startIndex: 13, zkpBatchSize: 3 } };
    const later = await bed.call<{ stateQueue: StateQueue }>('getQueueElements', part);
    assert.deepEqual(later.stateQueue.outputQueue?.leafIndices, numbers(13, 6));
  });

  test('addresses that wait, with the elements below them and the edge of the tree', async (t) => {
    const store = await engine.store(t);
    const { address } = await world(store);
    const bed = createProofBed(store);
    const ask = (query: object) =>
      bed
        .text('getQueueElements', { tree: encode32(address.key), addressQueue: query })
        .then((answer) => parsed<{ addressQueue: AddressQueue }>(answer).addressQueue);
    const { nodes, subtrees, ...rest } = await ask({ limit: 10, zkpBatchSize: 2 });
    const texts = (list: readonly bigint[]) => list.map((value) => encode32(bytesOf(value)));
    const highest = 2n ** 248n - 1n;
    assert.deepEqual(rest, {
      addresses: texts([60n, 20n, 30n]),
      queueIndices: [4, 5, 6],
      lowElementIndices: [1, 0, 2],
      lowElementValues: texts([50n, 0n, 25n]),
      lowElementNextIndices: [0, 2, 1],
      lowElementNextValues: texts([highest, 25n, 50n]),
      startIndex: 3,
      rootSeq: 4,
      leavesHashChains: texts([poseidon2([60n, 20n])]),
      initialRoot: encode32(address.root),
    });
    assertNodes(nodes, [0, 1, 2], address);
    // The root of the tree with one more leaf, from the edge alone.
    assert.equal(subtrees.length, 40);
    const leaf = 12_345n;
    await growTree(store, { ...address }, [{ index: 3, hash: bytesOf(leaf) }]);
    const { initialRoot } = await ask({ limit: 1 });
    let [node, index] = [leaf, 3];
    let zero = 0n;
    for (let level = 0; level < 40; level += 1) {
      node = index % 2 === 1 ? poseidon2([number(subtrees[level]!), node]) : poseidon2([node, zero]);
      index >>= 1;
      zero = poseidon2([zero, zero]);
    }
    assert.equal(number(initialRoot), node);

    const empty = await ask({ limit: 10, startIndex: 7 });
    assert.deepEqual(
      [empty.addresses, empty.nodes, empty.leavesHashChains, empty.initialRoot, empty.rootSeq, empty.startIndex],
      [[], [], [], ZERO, 0, 3],
    );
    const fresh = parsed<{ addressQueue: AddressQueue }>(
      await bed.text('getQueueElements', {
        tree: 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx',
        addressQueue: { limit: 5 },
      }),
    ).addressQueue;
    assert.equal(fresh.startIndex, 1);
    assert.equal(number(fresh.subtrees[0]!), poseidon2([0n, highest]));
  });

  test('requests that cannot be answered', async (t) => {
    const store = await engine.store(t);
    const { state, address } = await world(store);
    const bed = createProofBed(store);
    const [tree, other] = [encode32(state.key), encode32(address.key)];
    const query = { limit: 10 };
    const v1 = encode32(treeRow(9).key);
    for (const [params, refusal] of [
      [{ tree }, '-32602 At least one queue must be requested'],
      [{ tree, outputQueue: null }, '-32602 At least one queue must be requested'],
      [
        { tree, outputQueue: { limit: 30_001 } },
        '-32602 Too many queue elements requested 30001. Maximum allowed: 30000',
      ],
      [
        { tree, outputQueue: { ...query, startIndex: 4 } },
        '-32602 Requested start_index 4 but first_queue_index 10 is later (possible pruning)',
      ],
      [
        { tree, inputQueue: { ...query, startIndex: 5 } },
        '-32602 Requested start_index 5 but first_queue_index 6 is later (possible pruning)',
      ],
      [
        { tree: other, addressQueue: { ...query, startIndex: 0 } },
        '-32602 Requested start_index 0 but first_queue_index 4 is later (possible pruning)',
      ],
      [{ tree: encode32(keyOf(77)), outputQueue: query }, '-32000 Record Not Found: Tree not found'],
      [{ tree: v1, outputQueue: query }, `-32602 Tree ${v1} is not a state tree with queues`],
      [{ tree, addressQueue: query }, `-32602 Tree ${tree} is not an address tree with a queue`],
      [{ tree, outputQueue: {} }, "-32602 field 'outputQueue.limit' is required"],
      [
        { tree, outputQueue: { ...query, zkpBatchSize: 0 } },
        "-32602 field 'outputQueue.zkpBatchSize' must be an integer between 1 and 65535",
      ],
    ] as const)
      assert.equal(await bed.refusal('getQueueElements', params), refusal);
  });

  test('sizes of the queues, by tree and type', async (t) => {
    const store = await engine.store(t);
    const { state, address } = await world(store);
    const bed = createProofBed(store);
    const [tree, other] = [encode32(state.key), encode32(address.key)];
    const queue = encode32(state.queue!);
    const all = [
      { tree, queue, queueType: 3, queueSize: 3 },
      { tree, queue, queueType: 5, queueSize: 13 },
      { tree: other, queue: encode32(address.queue!), queueType: 4, queueSize: 3 },
    ];
    assert.deepEqual(await bed.call('getQueueInfo'), { queues: all, slot: 40 });
    assert.deepEqual(await bed.call('getQueueInfo', { trees: [other, other] }), { queues: all.slice(2), slot: 40 });
    assert.deepEqual(await bed.call('getQueueInfo', { trees: [] }), { queues: [], slot: 40 });
  });
});
