/** Made-up histories of small trees of all four kinds, with roots that are hashed anew from all leaves by another hasher. */
import { poseidon2, poseidon3 } from 'poseidon-lite';
import type { DecodedBlock } from '../../plugins/compression/indexing/decode-block.ts';
import type { NewTree } from '../../plugins/compression/trees/tree-book.ts';
import { createAccountHasher } from '../../src/solana/compression/accounts.ts';
import type { CompressionEvent, CreatedOutput, TransactionEvent } from '../../src/solana/compression/events.ts';
import { createPoseidon } from '../../src/solana/merkle/poseidon.ts';
import { bytesOf, numberOf } from './compression-trees.ts';
import { createSfc32 } from './sfc32.ts';

const HEIGHT = 6;
/** Elements of one batch. */
const BATCH = 2;
const HIGHEST = 2n ** 248n - 1n;
const hasher = createAccountHasher(createPoseidon());

const key = (kind: number, fill: number): Uint8Array =>
  Buffer.concat([Buffer.alloc(1), Buffer.alloc(31, kind * 16 + fill)]);
const QUEUE = key(9, 3);

const tree = (kind: number, type: number, queue: Uint8Array | null): NewTree => ({
  key: key(8, kind),
  type,
  queue,
  height: HEIGHT,
  rootCapacity: 10,
  nextTree: null,
});
export const worldTrees: readonly NewTree[] = [
  tree(1, 1, null),
  tree(2, 2, null),
  tree(3, 3, QUEUE),
  tree(4, 4, key(8, 4)),
];
const [STATE_V1, ADDRESS_V1, STATE_V2, ADDRESS_V2] = worldTrees as [NewTree, NewTree, NewTree, NewTree];

/** What a tree must hold in the end. */
export interface TreeTruth {
  readonly key: Uint8Array;
  readonly seq: number;
  readonly root: bigint;
}

export interface World {
  readonly blocks: readonly DecodedBlock[];
  readonly truth: readonly TreeTruth[];
}

/** Root of all leaves, every node hashed. */
function rootOf(leaves: readonly bigint[]): bigint {
  let nodes = Array.from({ length: 2 ** HEIGHT }, (_, i) => leaves[i] ?? 0n);
  while (nodes.length > 1)
    nodes = nodes.filter((_, i) => i % 2 === 0).map((left, i) => poseidon2([left, nodes[2 * i + 1]!]));
  return nodes[0]!;
}

interface Indexed {
  value: bigint;
  nextIndex: number;
  nextValue: bigint;
}

function insertValue(list: Indexed[], value: bigint): { readonly low: number; readonly high: number } {
  let low = 0;
  for (const [i, leaf] of list.entries()) if (leaf.value < value && leaf.value >= list[low]!.value) low = i;
  const before = list[low]!;
  list.push({ value, nextIndex: before.nextIndex, nextValue: before.nextValue });
  list[low] = { ...before, nextIndex: list.length - 1, nextValue: value };
  return { low, high: list.length - 1 };
}

/** A history of so many blocks. */
export function makeWorld(seed: number, blockCount: number): World {
  const random = createSfc32(seed);
  const v1 = { leaves: [] as bigint[], seq: 0, open: [] as CreatedOutput[], spent: [] as number[] };
  const first: Indexed[] = [
    { value: 0n, nextIndex: 1, nextValue: HIGHEST },
    { value: HIGHEST, nextIndex: 0, nextValue: 0n },
  ];
  const addresses1 = { list: first, seq: 3 };
  const v2 = {
    leaves: [] as bigint[],
    seq: 0,
    outputs: [] as CreatedOutput[],
    open: [] as CreatedOutput[],
    appended: 0,
    nullifiers: [] as { index: number; value: bigint }[],
    nullified: 0,
    done: new Set<number>(),
  };
  const addresses2 = {
    list: [{ value: 0n, nextIndex: 0, nextValue: HIGHEST }],
    seq: 0,
    queue: [] as bigint[],
    taken: 0,
  };
  const hash1 = ({ value, nextIndex, nextValue }: Indexed) => poseidon3([value, BigInt(nextIndex), nextValue]);
  const hash2 = ({ value, nextValue }: Indexed) => poseidon2([value, nextValue]);
  const smallNumber = () => numberOf(random.fill(new Uint8Array(30)));

  function output(version: 1 | 2): CreatedOutput {
    const [home, index] = version === 1 ? [STATE_V1, v1.leaves.length] : [STATE_V2, v2.outputs.length];
    const owner = key(7, random.below(3));
    const account = { owner, lamports: BigInt(random.below(4) * 100), address: bytesOf(smallNumber()), data: null };
    const hash = hasher.hash(account, home.key, index, version);
    const made = {
      account,
      hash,
      leafIndex: index,
      tree: home.key,
      treeType: home.type,
      wallet: null,
      treeOrQueue: version === 1 ? home.key : QUEUE,
      seq: version === 1 ? BigInt(++v1.seq) : null,
    };
    if (version === 1) {
      v1.leaves.push(numberOf(hash));
      v1.open.push(made);
    } else {
      v2.outputs.push(made);
      v2.open.push(made);
    }
    return made;
  }

  function spend(version: 1 | 2): TransactionEvent['inputs'] {
    const { open } = version === 1 ? v1 : v2;
    if (open.length === 0) return [];
    const [spent] = open.splice(random.below(open.length), 1) as [CreatedOutput];
    if (version === 1) {
      v1.spent.push(spent.leafIndex);
      return [{ hash: spent.hash, queued: null }];
    }
    const queueIndex = BigInt(v2.nullifiers.length);
    const value = numberOf(hasher.nullifier(spent.hash, spent.leafIndex, key(5, 5)));
    v2.nullifiers.push({ index: spent.leafIndex, value });
    return [{ hash: spent.hash, queued: { tree: STATE_V2.key, leafIndex: spent.leafIndex, queueIndex } }];
  }

  function transaction(): CompressionEvent {
    const inputs = [...(random.below(2) === 0 ? spend(1) : []), ...(random.below(2) === 0 ? spend(2) : [])];
    const room = v1.leaves.length < 40 && v2.outputs.length < 40;
    const outputs = room ? Array.from({ length: random.below(3) }, () => output(random.below(2) === 0 ? 1 : 2)) : [];
    const newAddresses: TransactionEvent['newAddresses'][number][] = [];
    if (random.below(2) === 0 && addresses2.queue.length < 40) {
      const value = smallNumber();
      newAddresses.push({ address: bytesOf(value), tree: ADDRESS_V2.key, queueIndex: BigInt(addresses2.queue.length) });
      addresses2.queue.push(value);
    }
    return {
      kind: 'transaction',
      version: 2,
      inputs,
      outputs,
      newAddresses,
      txHash: key(5, 5),
      missesQueueIndexes: [],
    };
  }

  function batch(kind: 'append' | 'batchNullify' | 'addressAppend', from: number, root: bigint, seq: number) {
    const home = kind === 'addressAppend' ? ADDRESS_V2 : STATE_V2;
    const place = { oldNextIndex: from, newNextIndex: from + BATCH, rootIndex: seq % 10, seq: BigInt(seq) };
    return { kind, tree: home.key, ...place, newRoot: bytesOf(root), outputQueue: null } as const;
  }

  /** What a forester would do next, if anything. */
  function upkeep(): CompressionEvent | null {
    const choice = random.below(5);
    if (choice === 0 && v1.spent.length > 0) {
      const leafIndexes = v1.spent.splice(0, 1 + random.below(2));
      for (const index of leafIndexes) v1.leaves[index] = 0n;
      const seq = BigInt(v1.seq + 1);
      v1.seq += leafIndexes.length;
      return { kind: 'nullify', tree: STATE_V1.key, leafIndexes, seq };
    }
    if (choice === 1 && addresses1.list.length < 40) {
      const { low, high } = insertValue(addresses1.list, smallNumber());
      const side = (index: number) => {
        const { value, nextIndex, nextValue } = addresses1.list[index]!;
        return { value: bytesOf(value), nextIndex, nextValue: bytesOf(nextValue), index };
      };
      const hash = (index: number) => bytesOf(hash1(addresses1.list[index]!));
      const seq = BigInt(addresses1.seq + 1);
      addresses1.seq += 2;
      const update = { low: side(low), lowHash: hash(low), high: side(high), highHash: hash(high) };
      return { kind: 'indexed', tree: ADDRESS_V1.key, updates: [update], seq };
    }
    if (choice === 2 && v2.outputs.length - v2.appended >= BATCH) {
      const from = v2.appended;
      for (const { leafIndex, hash } of v2.outputs.slice(from, from + BATCH))
        if (!v2.done.has(leafIndex)) v2.leaves[leafIndex] = numberOf(hash);
      v2.appended += BATCH;
      return batch('append', from, rootOf(v2.leaves), ++v2.seq);
    }
    if (choice === 3 && v2.nullifiers.length - v2.nullified >= BATCH) {
      const from = v2.nullified;
      for (const { index, value } of v2.nullifiers.slice(from, from + BATCH)) {
        v2.leaves[index] = value;
        v2.done.add(index);
      }
      v2.nullified += BATCH;
      return batch('batchNullify', from, rootOf(v2.leaves), ++v2.seq);
    }
    if (choice === 4 && addresses2.queue.length - addresses2.taken >= BATCH) {
      const from = addresses2.taken + 1;
      for (const value of addresses2.queue.slice(addresses2.taken, addresses2.taken + BATCH))
        insertValue(addresses2.list, value);
      addresses2.taken += BATCH;
      return batch('addressAppend', from, rootOf(addresses2.list.map(hash2)), ++addresses2.seq);
    }
    return null;
  }

  const blocks = Array.from({ length: blockCount }, (_, at): DecodedBlock => {
    const events = Array.from({ length: 1 + random.below(4) }, () =>
      random.below(2) === 0 ? transaction() : upkeep(),
    );
    const transactions = events
      .filter((event) => event !== null)
      .map((event) => ({ signature: random.fill(new Uint8Array(64)), events: [event], faults: [] }));
    return { slot: 100 + 2 * at, blockTime: 1_700_000_000 + at, transactions, others: [], newTrees: [], foreign: [] };
  });
  return {
    blocks,
    truth: [
      { key: STATE_V1.key, seq: v1.seq, root: rootOf(v1.leaves) },
      { key: ADDRESS_V1.key, seq: addresses1.seq, root: rootOf(addresses1.list.map(hash1)) },
      { key: STATE_V2.key, seq: v2.seq, root: rootOf(v2.leaves) },
      { key: ADDRESS_V2.key, seq: addresses2.seq, root: rootOf(addresses2.list.map(hash2)) },
    ],
  };
}
