/** Concurrent trees in the whole indexer: blocks are reverted and applied again, and older ones are filled in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createCompressionIndexer,
  createCompressionProcessor,
} from '../../../plugins/compression/indexing/processor.ts';
import { createCnft } from '../../../plugins/compression/plugin.ts';
import type { CompressionDb, CompressionTables } from '../../../plugins/compression/store/tables.ts';
import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { createModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { blockWith, readEverything } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { eachStore } from '../../helpers/store.ts';

/** All that a block may change; the head moves only forward, and is looked at apart. */
const TABLES: readonly (keyof CompressionTables)[] = [
  ...([
    'compression_trees',
    'compression_pages',
    ...(['compression_assets', 'compression_metadata', 'compression_changes'] as const),
    'compression_pending',
    'compression_roots',
  ] as const),
];

function openBed(store: Store) {
  const log = createMemoryLog();
  const counter = { add: () => undefined, with: () => counter };
  const metrics = { counter: () => counter };
  const config = { cnft: { trees: 'all' as const }, pageCacheBytes: 1_000_000, verifyOnRead: false };
  const cnft = createCnft({ config, log, metrics })!;
  const programId = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';
  const processor = createCompressionProcessor({
    store,
    known: [],
    programId,
    log,
    startSlot: undefined,
    decodeConcurrent: cnft.decode,
    indexer: createCompressionIndexer({ log, metrics, config: { programId, verifyChain: true }, cnft }),
    source: { lookUp: () => Promise.reject(new Error('nothing is looked up')) },
  });
  return {
    async apply(block: ChainBlock, isFinal = false) {
      await processor.prepare?.(block, 'main');
      await store.write((tx) => processor.apply(tx, block, 'main', { isFinal }));
    },
    async revert(slots: readonly number[]) {
      const header = { parentSlot: 0, blockhash: '', previousBlockhash: '', blockHeight: null, blockTime: null };
      await store.write(async (tx) => {
        for (const slot of slots.toSorted((a, b) => b - a)) await processor.revert(tx, { ...header, slot }, 'main');
      });
    },
    finalized: (slot: number) => store.write(async (tx) => await processor.finalized?.(tx, slot, 'main')),
  };
}

/** A chain of blocks, each with some changes of three trees. */
function chainOf(choices: readonly number[], seed: number): ChainBlock[] {
  const trees = [3, 4, 8].map((height, at) => createModelTree(new Uint8Array(32).fill(210 + at), height));
  const start = trees.map((tree) => ({ call: 'start' as const, tree: tree.key, told: tree.started() }));
  const blocks = [blockWith(10, [treeTransaction(10, 1, start)])];
  choices.forEach((choice, at) => {
    const slot = 11 + at;
    const entries = Array.from({ length: 1 + (choice % 3) }, (_, i) => {
      const tree = trees[(choice + i) % 3]!;
      const leaf = (choice * 7 + i + seed) % 2 ** tree.height;
      // Names repeat, so that assets share their metadata.
      const made = choice % 4 === 0 ? null : mintOf(tree.key, leaf, (seed + choice) % 200, `Leaf ${choice % 5}`);
      const schema = made?.schema ?? null;
      const told = tree.set(leaf, schema === null ? new Uint8Array(32).fill(choice % 5) : hashLeaf(schema));
      return treeTransaction(slot, slot * 10 + i + seed * 1_000, [{ call: 'replace', tree: tree.key, told, ...made }]);
    });
    blocks.push(blockWith(slot, entries));
  });
  return blocks;
}

async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    for (const table of [
      ...TABLES,
      'compression_undo',
      'compression_head',
      'compression_recent',
      'compression_blocks',
    ] as const)
      await (tx.db as CompressionDb).deleteFrom(table).execute();
  });
}

const choices = fc.array(fc.nat(60), { minLength: 3, maxLength: 12 });

bySeed(12, ({ length }) =>
  eachStore('concurrent trees that are taken back', (engine) => {
    const runs = { numRuns: engine.dialect === 'sqlite' ? length : 4 };

    test('a revert restores the exact state, and another branch may follow', async (t) => {
      const store = await engine.store(t);
      await createCompressionTables(store);
      const bed = openBed(store);
      await fc.assert(
        fc.asyncProperty(choices, choices, fc.nat(100), async (common, other, cut) => {
          await clear(store);
          const main = chainOf(common, 1);
          const kept = 1 + (cut % (main.length - 1));
          for (const block of main.slice(0, kept)) await bed.apply(block);
          const before = await readEverything(store);
          for (const block of main.slice(kept)) await bed.apply(block);
          const after = await readEverything(store);
          const gone = main.slice(kept).map(({ slot }) => slot);
          await bed.revert(gone);
          assert.deepEqual(await readEverything(store), before);
          // A branch with the same first blocks: its changes from there on are others.
          const branch = chainOf([...common.slice(0, kept - 1), ...other], 1);
          for (const block of branch.slice(kept)) await bed.apply(block);
          await bed.revert(branch.slice(kept).map(({ slot }) => slot));
          for (const block of main.slice(kept)) await bed.apply(block);
          assert.deepEqual(await readEverything(store), after);
        }),
        runs,
      );
    });

    test('older blocks are filled in while newer ones may still be taken back', async (t) => {
      const store = await engine.store(t);
      await createCompressionTables(store);
      const bed = openBed(store);
      await fc.assert(
        fc.asyncProperty(choices, fc.array(fc.nat(100), { minLength: 12, maxLength: 12 }), async (list, order) => {
          await clear(store);
          const blocks = chainOf(list, 2);
          const kept = Math.ceil(blocks.length / 2);
          for (const block of blocks.slice(0, kept)) await bed.apply(block, true);
          const before = await readEverything(store, TABLES);
          for (const block of blocks.slice(kept)) await bed.apply(block, true);
          const whole = await readEverything(store, TABLES);
          await clear(store);
          // The newer half is followed, with the older half missing; that comes in any order, and the newer half goes and comes again.
          for (const block of blocks.slice(kept)) await bed.apply(block);
          const older = blocks
            .slice(0, kept)
            .map((block, at) => ({ block, place: order[at % order.length]! }))
            .sort((a, b) => a.place - b.place);
          const newer = blocks.slice(kept).map(({ slot }) => slot);
          for (const [at, { block }] of older.entries()) {
            await bed.apply(block, true);
            if (order[at % order.length]! % 3 !== 0) continue;
            await bed.revert(newer);
            for (const one of blocks.slice(kept)) await bed.apply(one);
          }
          assert.deepEqual(withoutIds(await readEverything(store, TABLES)), withoutIds(whole));
          await bed.revert(newer);
          assert.deepEqual(withoutIds(await readEverything(store, TABLES)), withoutIds(before));
        }),
        runs,
      );
    });
  }),
);

/** Trees are numbered as they come; what is compared is how many rows of each kind there are and all that is not numbered. */
function withoutIds(rows: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  const plain = (text: string): string => text.replace(/\["(id|tree)",\d+\]/g, '');
  return Object.fromEntries(Object.entries(rows).map(([table, list]) => [table, list.map(plain).sort()]));
}
