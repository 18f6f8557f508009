/** Made-up histories that were told with a lie, and all that looks after their trees against the chain as it is. */
import assert from 'node:assert/strict';
import { poseidon2 } from 'poseidon-lite';
import {
  createQueueCheck,
  type QueueChain,
  type QueueKind,
  type QueueReader,
  queuesOf,
} from '../../plugins/compression/chain/queue-check.ts';
import { createRepair } from '../../plugins/compression/chain/repair.ts';
import { createRootCheck } from '../../plugins/compression/chain/root-check.ts';
import { dropContradicted, revertUnverifiedSpends } from '../../plugins/compression/indexing/corrections.ts';
import type { DecodedBlock } from '../../plugins/compression/indexing/decode-block.ts';
import { createCompressionIndexer } from '../../plugins/compression/indexing/processor.ts';
import type { CompressionDb, TreeRow } from '../../plugins/compression/store/tables.ts';
import { createHashing } from '../../plugins/compression/trees/hashing.ts';
import { rebuildTree } from '../../plugins/compression/trees/rebuild.ts';
import { type NewTree, seedTrees } from '../../plugins/compression/trees/tree-book.ts';
import type { Store } from '../../src/ports/store.ts';
import type { CompressionEvent } from '../../src/solana/compression/events.ts';
import { readEverything } from './compression.ts';
import { createCompressionTables } from './compression-rows.ts';
import { bytesOf, numberOf } from './compression-trees.ts';
import { makeWorld, type World, worldTrees } from './compression-world.ts';
import { createManualClock } from './manual-clock.ts';
import { createMemoryLog } from './memory-log.ts';

const SIGNAL = new AbortController().signal;
export const hashing = createHashing({ add: () => undefined });
/** Size of a batch in the queues of the worlds. */
const PART = 2;
export const [STATE_V1, , STATE_V2, ADDRESS_V2] = worldTrees as [NewTree, NewTree, NewTree, NewTree];

export type Lie = (event: CompressionEvent) => CompressionEvent | null;

export const readTrees = (store: Store): Promise<TreeRow[]> =>
  (store.read as CompressionDb).selectFrom('compression_trees').selectAll().orderBy('id').execute();

export const treeOf = async (store: Store, key: Uint8Array): Promise<TreeRow> =>
  (await readTrees(store)).find((row) => Buffer.compare(row.key, key) === 0)!;

async function open(store: Store) {
  await createCompressionTables(store);
  await store.write((tx) => seedTrees(tx, hashing, worldTrees));
  const log = createMemoryLog();
  const counter = { add: () => undefined, with: () => counter };
  const config = { programId: '', verifyChain: true };
  const indexer = createCompressionIndexer({ log, metrics: { counter: () => counter }, config, hashing });
  return {
    log,
    apply: (block: DecodedBlock, isFinal: boolean) =>
      store.write(async (tx) => {
        await dropContradicted({ indexer, hashing, log }, tx, block, { isFinal });
        await indexer.apply(tx, block, { isFinal });
      }),
    revert: (slot: number) => store.write((tx) => indexer.revert(tx, { slot })),
    finalized: (slot: number) =>
      store.write(async (tx) => {
        await indexer.finalized(tx, slot);
        await revertUnverifiedSpends(tx, indexer, log);
      }),
  };
}

const tell = (block: DecodedBlock, lie: Lie): DecodedBlock => ({
  ...block,
  transactions: block.transactions.map((one) => ({
    ...one,
    events: one.events.map(lie).filter((event) => event !== null),
  })),
});

/** What waits in the queues of an honest index, by the hashes of another library. */
async function truthOf(store: Store): Promise<QueueReader & { readonly parts: Record<QueueKind, QueueChain[]> }> {
  const db = store.read as CompressionDb;
  const [state, address] = [await treeOf(store, STATE_V2.key), await treeOf(store, ADDRESS_V2.key)];
  const accounts = await db.selectFrom('compression_accounts').selectAll().where('tree', '=', state.id).execute();
  const outputs = accounts.filter(({ queued }) => queued === 1).map((row) => [row.leaf_index, row.hash] as const);
  const nullifiers = accounts
    .filter((row) => row.nullifier_index !== null && row.nullified === 0)
    .map((row) => [row.nullifier_index!, row.nullifier!] as const);
  const waiting = await db.selectFrom('compression_address_queue').selectAll().execute();
  const addresses = waiting.map((row) => [row.queue_index, row.address] as const);
  const chains = (values: (readonly [number, Uint8Array])[]): QueueChain[] => {
    const sorted = values.sort(([a], [b]) => a - b);
    return Array.from({ length: Math.floor(sorted.length / PART) }, (_, i) => {
      const [first, second] = sorted.slice(i * PART);
      const chain = bytesOf(poseidon2([numberOf(first![1]), numberOf(second![1])]));
      return { from: first![0], size: PART, chain };
    });
  };
  const parts = { outputs: chains(outputs), nullifiers: chains(nullifiers), addresses: chains(addresses) };
  const head = await db.selectFrom('compression_head').select('slot').executeTakeFirstOrThrow();
  const kinds = [state, address].flatMap((tree) => queuesOf(tree));
  return {
    parts,
    async read(account) {
      const queue = kinds.find((one) => Buffer.compare(one.account, account) === 0);
      return queue === undefined ? null : { slot: head.slot, chains: parts[queue.kind] };
    },
  };
}

/** A store in which the world was told with a lie, and all that looks after its trees, against the chain as it is. */
export async function liedTo(store: Store, honest: Store, world: World, lie: Lie) {
  const bed = await open(store);
  for (const block of world.blocks) await bed.apply(tell(block, lie), false);
  const { log } = bed;
  const queues = createQueueCheck({ store, hashing, reader: await truthOf(honest), log });
  const roots = await (honest.read as CompressionDb).selectFrom('compression_roots').selectAll().execute();
  const trees = await readTrees(honest);
  const slot = world.blocks.at(-1)!.slot;
  const reader = {
    async one(key: Uint8Array) {
      const { seq, type, height } = trees.find((row) => Buffer.compare(row.key, key) === 0)!;
      const tree = { key, type, height, queue: null, nextTree: null, rootCapacity: 10, nextIndex: 0, seq };
      return { kind: 'tree', slot, tree } as const;
    },
    async rootAt({ key }: { readonly key: Uint8Array }, seq: number) {
      const tree = trees.find((row) => Buffer.compare(row.key, key) === 0)!;
      const known = roots.find((row) => row.tree === tree.id && row.seq === seq)?.root;
      return { seq: tree.seq, root: known ?? (seq === tree.seq ? tree.root : null), slot };
    },
  };
  const check = createRootCheck({ store, reader, log, isSuspect: (tree) => queues.isSuspect(tree) });
  const clock = createManualClock();
  const asked: string[] = [];
  const repair = createRepair({
    store,
    hashing,
    reader,
    clock,
    log,
    leavesHistory: false,
    missing: {
      async ask(_, width, also) {
        asked.push(width);
        await store.write(async (tx) => await also?.(tx, 0));
        for (const block of world.blocks) await bed.apply(block, true);
        return true;
      },
      isBeingRead: async () => false,
    },
    rebuild: (tree, signal) => rebuildTree({ store, hashing }, tree, signal),
  });
  return {
    ...bed,
    asked,
    check: async () => {
      for (let pass = 0; pass < 3; pass += 1) {
        await check.pass(SIGNAL);
        await queues.pass(SIGNAL);
      }
    },
    /** What is to be repaired is found, and has to wait while the lie can be taken back. */
    look: () => repair.pass(SIGNAL),
    /** One round of repair and of what checks it. Nothing of the lie can be taken back any more. */
    async round() {
      await bed.finalized(slot);
      await repair.pass(SIGNAL);
      await this.check();
      await clock.advance(20_000);
    },
    async heal() {
      for (let round = 0; round < 4; round += 1) await this.round();
    },
  };
}

export type Bed = Awaited<ReturnType<typeof liedTo>>;

/** The rows of the trees and of what is in them. `verified_slot` tells when it was looked at. */
export const wholeState = async (store: Store) => {
  const tables = await readEverything(store, [
    ...(['compression_accounts', 'compression_address_queue', 'compression_pages', 'compression_balances'] as const),
    ...(['compression_indexed_leaves', 'compression_pending', 'compression_early_spends'] as const),
  ]);
  const trees = (await readTrees(store)).map(({ seq, root, next_index, reason }) => [seq, root, next_index, reason]);
  return { tables, trees };
};

/** A history that ends with full parts in all three queues. */
export async function busyWorld(store: Store): Promise<{ world: World; truth: Awaited<ReturnType<typeof truthOf>> }> {
  const bed = await open(store);
  const world = makeWorld(SEED, BLOCKS);
  for (const block of world.blocks) await bed.apply(block, false);
  const truth = await truthOf(store);
  for (const [kind, parts] of Object.entries(truth.parts)) assert.ok(parts.length > 0, `nothing waits in ${kind}`);
  return { world, truth };
}

const SEED = 2;
const BLOCKS = 16;
/** A value that is almost this one. */
export const bent = (bytes: Uint8Array): Uint8Array => {
  const copy = Uint8Array.from(bytes);
  copy[31]! ^= 1;
  return copy;
};
