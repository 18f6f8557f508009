/** The rows depend on the events, not on their delivery: blocks in any order, split in any way, repeated, reverted and applied again. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import {
  blocksOf,
  blockWith,
  createIndexingBed,
  INDEXED_TABLES,
  type IndexingBed,
  loadRecording,
  type Recording,
  readEverything,
  recordingNames,
} from '../../helpers/compression.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { byCase } from '../../helpers/run-part.ts';
import { eachStore, type StoreEngine, sqliteStore } from '../../helpers/store.ts';

const skip = skipWithoutFixtures;
/** Steps of a recording that are shuffled: the batches of the long ones start after them, and are tested with generated trees. */
const MAX_STEPS = 8;

const optionsOf = ({ expected, trees, isPartial }: Recording) => ({
  programId: expected.compressionProgramId,
  trees,
  verifyChain: !isPartial,
});

/** Each transaction in a separate slot. */
const stepBlocks = ({ entries }: Recording): ChainBlock[] =>
  entries.slice(0, MAX_STEPS).map(({ entry }, step) => blockWith(1_000 + step, [entry]));

async function withStore<T>(store: Store, recording: Recording, work: (bed: IndexingBed) => Promise<T>): Promise<T> {
  try {
    return await work(await createIndexingBed(store, optionsOf(recording)));
  } finally {
    await store.close();
  }
}

const result = async (t: TestContext, recording: Recording, work: (bed: IndexingBed) => Promise<void>) => {
  const store = await sqliteStore(t);
  return await withStore(store, recording, async (bed) => {
    await work(bed);
    return await readEverything(store);
  });
};

eachStore('compression: the same block again', (engine: StoreEngine) => {
  for (const name of recordingNames) {
    test(name, { skip }, async (t) => {
      const store = await engine.store(t);
      const recording = loadRecording(name);
      const bed = await createIndexingBed(store, optionsOf(recording));
      const blocks = blocksOf(recording);
      await bed.applyAll(blocks);
      const once = await readEverything(store);
      await bed.applyAll(blocks.slice(-2));
      assert.deepEqual(await readEverything(store), once, 'the newest ones, which could still be taken back');
      await bed.applyAll(blocks.slice(0, 2), { isFinal: true });
      assert.deepEqual(await readEverything(store), once, 'old ones, as final ones');
    });
  }
});

byCase(recordingNames, (names) => {
  for (const name of names) {
    test(`${name}: any order, any part final`, { skip }, async (t) => {
      const recording = loadRecording(name);
      const all = stepBlocks(recording);
      const wanted = await result(t, recording, (bed) => bed.applyAll(all));
      const order = fc.shuffledSubarray([...all.keys()], { minLength: all.length });
      const finals = fc.array(fc.boolean(), { minLength: all.length, maxLength: all.length });
      await fc.assert(
        fc.asyncProperty(order, finals, async (steps, isFinal) => {
          const found = await result(t, recording, async (bed) => {
            for (const step of steps) await bed.apply(all[step]!, { isFinal: isFinal[step]! });
          });
          // Where sequence numbers are not checked, which roots there were in between depends on the order.
          const kept = INDEXED_TABLES.filter((table) => !recording.isPartial || table !== 'compression_roots');
          for (const table of kept) assert.deepEqual(found[table], wanted[table], table);
        }),
        { numRuns: 4 },
      );
    });

    test(`${name}: all in one block`, { skip }, async (t) => {
      const recording = loadRecording(name);
      const { entries } = recording;
      const slot = 2_000;
      const wanted = await result(t, recording, async (bed) => {
        for (const { entry } of entries.slice(0, MAX_STEPS))
          await bed.apply(blockWith(slot, [entry]), { isFinal: true });
      });
      const found = await result(t, recording, (bed) =>
        bed.apply(
          blockWith(
            slot,
            entries.slice(0, MAX_STEPS).map(({ entry }) => entry),
          ),
        ),
      );
      // A tree has one root per block.
      const kept = INDEXED_TABLES.filter((table) => table !== 'compression_roots');
      for (const table of kept) assert.deepEqual(found[table], wanted[table], table);
    });

    test(`${name}: what is taken back leaves nothing`, { skip }, async (t) => {
      const recording = loadRecording(name);
      const blocks = stepBlocks(recording);
      const store = await sqliteStore(t);
      await withStore(store, recording, async (bed) => {
        const states = [];
        for (const block of blocks) {
          states.push(await readEverything(store));
          await bed.apply(block);
        }
        const last = await readEverything(store);
        for (const at of [...blocks.keys()].reverse()) {
          await bed.revert([blocks[at]!.slot]);
          assert.deepEqual(await readEverything(store), states[at], `before step ${at}`);
        }
        await bed.applyAll(blocks);
        assert.deepEqual(await readEverything(store), last, 'and again');
      });
    });
  }
});
