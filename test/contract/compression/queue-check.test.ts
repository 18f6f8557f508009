/** What waits for V2 trees, told falsely or not at all, in made-up histories: found by the chains of the queues or by a root, and healed. */
import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { poseidon2 } from 'poseidon-lite';
import { dropContradicted } from '../../../plugins/compression/chain/drop-contradicted.ts';
import { createQueueCheck } from '../../../plugins/compression/chain/queue-check.ts';
import type { QueueChain, QueueReader } from '../../../plugins/compression/chain/queue-reader.ts';
import { type QueueKind, queuesOf } from '../../../plugins/compression/chain/queue-values.ts';
import { createRepair } from '../../../plugins/compression/chain/repair.ts';
import { createRootCheck } from '../../../plugins/compression/chain/root-check.ts';
import type { DecodedBlock } from '../../../plugins/compression/indexing/decoded-block.ts';
import { createCompressionIndexer } from '../../../plugins/compression/indexing/parts.ts';
import type { Db, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { rebuildTree } from '../../../plugins/compression/trees/rebuild.ts';
import { seedTrees } from '../../../plugins/compression/trees/seed-trees.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { CompressionEvent } from '../../../src/solana/compression/events.ts';
import { readEverything } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { bytesOf, numberOf } from '../../helpers/compression-trees.ts';
import { makeWorld, type World, worldTrees } from '../../helpers/compression-world.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';

const SIGNAL = new AbortController().signal;
const hashing = createHashing({ add: () => undefined });
/** Of the worlds. */
const PART = 2;
const [, , STATE_V2, ADDRESS_V2] = worldTrees;

type Lie = (event: CompressionEvent) => CompressionEvent | null;

const readTrees = (store: Store): Promise<TreeRow[]> =>
  (store.read as Db).selectFrom('compression_trees').selectAll().orderBy('id').execute();

const treeOf = async (store: Store, key: Uint8Array): Promise<TreeRow> =>
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
        if (isFinal) await dropContradicted(tx, hashing, block, log);
        await indexer.apply(tx, block, { isFinal });
      }),
    finalized: (slot: number) => store.write((tx) => indexer.finalized(tx, slot)),
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
  const db = store.read as Db;
  const [state, address] = [await treeOf(store, STATE_V2!.key), await treeOf(store, ADDRESS_V2!.key)];
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
async function liedTo(store: Store, honest: Store, world: World, lie: Lie) {
  const bed = await open(store);
  for (const block of world.blocks) await bed.apply(tell(block, lie), false);
  const { log } = bed;
  const queues = createQueueCheck({ store, hashing, reader: await truthOf(honest), log });
  const roots = await (honest.read as Db).selectFrom('compression_roots').selectAll().execute();
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
  const check = createRootCheck({ store, reader, log, isDoubted: (tree) => queues.isDoubted(tree) });
  const clock = createManualClock();
  const asked: string[] = [];
  const repair = createRepair({
    ...{ store, hashing, reader, clock, log, leavesHistory: false },
    missing: {
      async ask(_, width, also) {
        asked.push(width);
        await store.write(async (tx) => await also?.(tx));
        for (const block of world.blocks) await bed.apply(block, true);
        return true;
      },
      isBeingRead: async () => false,
    },
    rebuild: (tree, signal) => rebuildTree({ store, hashing }, tree, signal),
  });
  return {
    ...{ ...bed, asked },
    check: async () => {
      for (let pass = 0; pass < 3; pass += 1) {
        await check.pass(SIGNAL);
        await queues.pass(SIGNAL);
      }
    },
    async heal() {
      await bed.finalized(slot);
      for (let pass = 0; pass < 4; pass += 1) {
        await repair.pass(SIGNAL);
        await this.check();
        await clock.advance(20_000);
      }
    },
  };
}

type Bed = Awaited<ReturnType<typeof liedTo>>;

/** The rows of the trees and of what is in them. `verified_slot` tells when it was looked at. */
const wholeState = async (store: Store) => {
  const tables = await readEverything(store, [
    ...(['compression_accounts', 'compression_address_queue', 'compression_pages', 'compression_balances'] as const),
    ...(['compression_indexed_leaves', 'compression_pending', 'compression_early_spends'] as const),
  ]);
  const trees = (await readTrees(store)).map(({ seq, root, next_index, reason }) => [seq, root, next_index, reason]);
  return { tables, trees };
};

/** A history that ends with full parts in all three queues. */
async function busyWorld(store: Store): Promise<{ world: World; truth: Awaited<ReturnType<typeof truthOf>> }> {
  const bed = await open(store);
  const world = makeWorld(SEED, BLOCKS);
  for (const block of world.blocks) await bed.apply(block, false);
  const truth = await truthOf(store);
  for (const [kind, parts] of Object.entries(truth.parts)) assert.ok(parts.length > 0, `nothing waits in ${kind}`);
  return { world, truth };
}

const SEED = 2;
const BLOCKS = 16;
const bent = (bytes: Uint8Array): Uint8Array => {
  const copy = Uint8Array.from(bytes);
  copy[31]! ^= 1;
  return copy;
};

/** What is told falsely, by the place of the first value that waits. */
const LIES: readonly (readonly [string, QueueKind, (from: number) => Lie, string])[] = [
  [
    'an account that waits has another hash',
    'outputs',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : {
            ...event,
            outputs: event.outputs.map((output) =>
              output.treeType === STATE_V2!.type && output.leafIndex === from
                ? { ...output, hash: bent(output.hash) }
                : output,
            ),
          },
    'diverged',
  ],
  [
    'a nullifier is made of another transaction',
    'nullifiers',
    (from) => (event) =>
      event.kind === 'transaction' && event.inputs.some(({ queued }) => queued?.queueIndex === BigInt(from))
        ? { ...event, txHash: bent(event.txHash) }
        : event,
    'diverged',
  ],
  [
    'an address is another one',
    'addresses',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : {
            ...event,
            newAddresses: event.newAddresses.map((one) =>
              one.queueIndex === BigInt(from) ? { ...one, address: bent(one.address) } : one,
            ),
          },
    'diverged',
  ],
  [
    'an address is left out',
    'addresses',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : { ...event, newAddresses: event.newAddresses.filter(({ queueIndex }) => queueIndex !== BigInt(from)) },
    'gap',
  ],
];

type Stores = readonly [honest: Store, store: Store];

async function proveLie([honest, store]: Stores, [, kind, lieAt, status]: (typeof LIES)[number]): Promise<void> {
  const { world, truth } = await busyWorld(honest);
  const bed: Bed = await liedTo(store, honest, world, lieAt(truth.parts[kind][0]!.from));
  const key = (kind === 'addresses' ? ADDRESS_V2 : STATE_V2)!.key;
  await bed.check();
  const { status: found, reason } = await treeOf(store, key);
  assert.deepEqual([found, reason], [status, status === 'gap' ? 'history' : 'queue']);
  await proveHealed(bed, [honest, store]);
}

async function proveBatch([honest, store]: Stores, kind: (typeof BATCHES)[number]): Promise<void> {
  const { world } = await busyWorld(honest);
  let lies = 0;
  const bed = await liedTo(store, honest, world, (event) => {
    if (event.kind !== kind || lies > 0) return event;
    lies += 1;
    return { ...event, newRoot: bent(event.newRoot) };
  });
  assert.equal(lies, 1);
  const key = (kind === 'addressAppend' ? ADDRESS_V2 : STATE_V2)!.key;
  const { status, reason } = await treeOf(store, key);
  assert.deepEqual([status, reason], ['diverged', 'root']);
  await proveHealed(bed, [honest, store]);
}

async function proveHealed(bed: Bed, [honest, store]: Stores): Promise<void> {
  await bed.heal();
  assert.deepEqual(bed.asked, ['near']);
  assert.deepEqual(await wholeState(store), await wholeState(honest));
  for (const tree of await readTrees(store)) assert.equal(tree.status, 'ok');
}

const BATCHES = ['append', 'batchNullify', 'addressAppend'] as const;

eachStore('queues against the chain', (engine) => {
  const stores = async (t: TestContext): Promise<Stores> => [await engine.store(t), await engine.store(t)];

  test('what is true is left alone', async (t) => {
    const [honest, store] = await stores(t);
    const { world } = await busyWorld(honest);
    const bed = await liedTo(store, honest, world, (event) => event);
    await bed.check();
    for (const { status } of await readTrees(store)) assert.equal(status, 'ok');
    assert.deepEqual(bed.log.lines, []);
  });

  test('a lie: refused, read again, right', async (t) => proveLie(await stores(t), LIES[0]!));
});

suite('lies about what waits: refused, read again, right', () => {
  const stores = async (t: TestContext): Promise<Stores> => [await sqliteStore(t), await sqliteStore(t)];
  for (const lie of LIES.slice(1)) test(lie[0], async (t) => proveLie(await stores(t), lie));
  for (const kind of BATCHES)
    test(`the event of a batch is another one (${kind})`, async (t) => proveBatch(await stores(t), kind));
});
