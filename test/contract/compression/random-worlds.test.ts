/** Generated histories compared with rehashed trees: any order, lost and altered events, reverted blocks. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { DecodedBlock } from '../../../plugins/compression/indexing/decode-block.ts';
import { createCompressionIndexer } from '../../../plugins/compression/indexing/processor.ts';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { seedTrees } from '../../../plugins/compression/trees/tree-book.ts';
import { walkTree } from '../../../plugins/compression/verify-command.ts';
import type { Store } from '../../../src/ports/store.ts';
import { readEverything } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { bytesOf } from '../../helpers/compression-trees.ts';
import { makeWorld, type World, worldTrees } from '../../helpers/compression-world.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';

const hashing = createHashing({ add: () => undefined });
const seeds = fc.integer({ min: 1, max: 1_000_000 });
const BLOCKS = 30;

async function openWorld(store: Store) {
  await createCompressionTables(store);
  await store.write((tx) => seedTrees(tx, hashing, worldTrees));
  const log = createMemoryLog();
  const counter = { add: () => undefined, with: () => counter };
  const metrics = { counter: () => counter };
  const config = { programId: '', verifyChain: true };
  const indexer = createCompressionIndexer({ log, metrics, config, hashing });
  return {
    lines: log.lines,
    apply: (block: DecodedBlock, isFinal = false) => store.write((tx) => indexer.apply(tx, block, { isFinal })),
    revert: (slot: number) => store.write((tx) => indexer.revert(tx, { slot })),
    finalized: (slot: number) => store.write((tx) => indexer.finalized(tx, slot)),
  };
}

const treesOf = (store: Store): Promise<TreeRow[]> =>
  (store.read as CompressionDb).selectFrom('compression_trees').selectAll().orderBy('id').execute();

/** Every tree is where the model is, and so is every node of it. */
async function checkTruth(store: Store, { truth }: World): Promise<void> {
  const trees = await treesOf(store);
  for (const [i, { key, seq, root }] of truth.entries()) {
    const tree = trees.find((row) => Buffer.compare(row.key, key) === 0)!;
    assert.deepEqual([tree.seq, Buffer.from(tree.root)], [seq, bytesOf(root)], `tree of type ${i + 1}`);
    assert.deepEqual((await walkTree(store.read as CompressionDb, hashing, tree)).faults, []);
    assert.match(tree.status, /^(ok|unverified)$/);
  }
}

const inStore = async (t: TestContext, work: (store: Store) => Promise<void>) => {
  const store = await sqliteStore(t);
  try {
    await work(store);
  } finally {
    await store.close();
  }
};

bySeed(60, ({ length: blocks }) =>
  eachStore('compression: generated histories', (engine) => {
    test('a long one is that of the model, and leaves nothing when it is taken back', async (t) => {
      const store = await engine.store(t);
      const bed = await openWorld(store);
      const world = makeWorld(7, Math.max(20, blocks));
      const empty = await readEverything(store);
      for (const block of world.blocks) await bed.apply(block);
      await checkTruth(store, world);
      assert.deepEqual(bed.lines, []);
      for (const { slot } of [...world.blocks].reverse()) await bed.revert(slot);
      assert.deepEqual(await readEverything(store), empty);
    });
  }),
);

bySeed(6, ({ length: numRuns }) => {
  test('any order, any part of it final', async (t) => {
    await fc.assert(
      fc.asyncProperty(seeds, async (seed) => {
        const world = makeWorld(seed, BLOCKS);
        const random = createSfc32(seed + 1);
        let wanted: unknown;
        await inStore(t, async (store) => {
          const bed = await openWorld(store);
          for (const block of world.blocks) await bed.apply(block);
          await checkTruth(store, world);
          wanted = await readEverything(store);
        });
        await inStore(t, async (store) => {
          const bed = await openWorld(store);
          const order = world.blocks.map((block) => ({ block, at: random.next() })).sort((a, b) => a.at - b.at);
          for (const { block } of order) await bed.apply(block, random.below(3) > 0);
          assert.deepEqual(await readEverything(store), wanted);
        });
      }),
      { numRuns },
    );
  });
});

bySeed(5, ({ length: numRuns }) => {
  test('blocks that are taken back, in any rhythm, while older ones are filled in', async (t) => {
    await fc.assert(
      fc.asyncProperty(seeds, async (seed) => {
        const world = makeWorld(seed, BLOCKS);
        const random = createSfc32(seed + 2);
        await inStore(t, async (store) => {
          const bed = await openWorld(store);
          // A part of the past is missing at first, and comes bit by bit as final blocks.
          const hole = world.blocks.slice(3, 12);
          const live = [...world.blocks.slice(0, 3), ...world.blocks.slice(12)];
          let at = 0;
          while (at < live.length || hole.length > 0) {
            const choice = random.below(4);
            if (choice === 0 && at > 3) {
              const states = [];
              const depth = 1 + random.below(Math.min(4, at - 3));
              for (let i = 0; i < depth; i += 1) await bed.revert(live[--at]!.slot);
              states.push(await readEverything(store));
              for (let i = 0; i < depth; i += 1) await bed.apply(live[at + i]!);
              for (let i = depth - 1; i >= 0; i -= 1) await bed.revert(live[at + i]!.slot);
              assert.deepEqual(await readEverything(store), states[0]);
            } else if (choice === 1 && at > 3 && hole.length > 0) await bed.apply(hole.shift()!, true);
            else if (at < live.length) await bed.apply(live[at++]!);
          }
          await checkTruth(store, world);
        });
      }),
      { numRuns },
    );
  });
});

bySeed(6, ({ length: numRuns }) => {
  test('an event that is lost leaves a gap in its tree alone, and heals when it comes', async (t) => {
    await fc.assert(
      fc.asyncProperty(seeds, async (seed) => {
        const world = makeWorld(seed, BLOCKS);
        const batches = world.blocks.flatMap((block, at) =>
          block.transactions.flatMap(({ events: [event] }, place) =>
            event?.kind === 'append' ? [{ at, place, seq: Number(event.seq) }] : [],
          ),
        );
        const [lost] = batches;
        if (lost === undefined) return;
        await inStore(t, async (store) => {
          const bed = await openWorld(store);
          for (const [at, block] of world.blocks.entries()) {
            const transactions = block.transactions.filter((_, place) => at !== lost.at || place !== lost.place);
            await bed.apply({ ...block, transactions });
          }
          // The last event of a tree leaves no gap: nothing says that there was one more.
          const isLast = world.truth[2]!.seq === lost.seq;
          const statuses = (await treesOf(store)).map(({ status }) => status);
          assert.equal(statuses[2], !isLast ? 'gap' : lost.seq === 1 ? 'unverified' : 'ok');
          assert.ok(!statuses.filter((_, i) => i !== 2).includes('gap'));
          await bed.finalized(world.blocks.at(-1)!.slot);
          await bed.apply(world.blocks[lost.at]!, true);
          await checkTruth(store, world);
        });
      }),
      { numRuns },
    );
  });
});

test('an altered root makes the tree diverged: its state stays, what follows waits', async (t) => {
  const world = makeWorld(11, 60);
  await inStore(t, async (store) => {
    const bed = await openWorld(store);
    let altered: TreeRow | null = null;
    for (const block of world.blocks) {
      const transactions = block.transactions.map((one) => {
        const [event] = one.events;
        if (event?.kind !== 'append' || event.seq !== 3n) return one;
        return { ...one, events: [{ ...event, newRoot: bytesOf(5n) }] };
      });
      const [, , before] = await treesOf(store);
      await bed.apply({ ...block, transactions });
      const [, , now] = await treesOf(store);
      if (now!.status === 'diverged' && altered === null) {
        altered = now!;
        assert.deepEqual([now!.seq, now!.root], [before!.seq, before!.root]);
        assert.deepEqual([now!.reason, Buffer.from(now!.expected_root!)], ['root', bytesOf(5n)]);
        assert.notEqual(now!.computed_root, null);
      }
    }
    const [, , last] = await treesOf(store);
    assert.ok(altered !== null || world.truth[2]!.seq < 3, 'the history has such an event');
    assert.deepEqual(last, altered);
    assert.deepEqual((await walkTree(store.read as CompressionDb, hashing, last!)).faults, []);
    const waiting = await (store.read as CompressionDb).selectFrom('compression_pending').select('seq').execute();
    assert.equal(waiting.length, world.truth[2]!.seq - last!.seq);
  });
});

test('a damaged page makes its tree diverged and is never hashed into', async (t) => {
  const world = makeWorld(7, 60);
  await inStore(t, async (store) => {
    const bed = await openWorld(store);
    for (const block of world.blocks.slice(0, 30)) await bed.apply(block);
    const before = await treesOf(store);
    await store.write(async (tx) => {
      const pages = await (tx.db as CompressionDb).selectFrom('compression_pages').selectAll().execute();
      for (const { id, bytes } of pages) {
        const damaged = Buffer.from(bytes);
        damaged[40] = damaged[40]! ^ 1;
        await (tx.db as CompressionDb)
          .updateTable('compression_pages')
          .set({ bytes: damaged })
          .where('id', '=', id)
          .execute();
      }
    });
    for (const block of world.blocks.slice(30)) await bed.apply(block);
    for (const [i, { status, reason, root, seq }] of (await treesOf(store)).entries()) {
      if (seq === before[i]!.seq && status !== 'diverged') continue;
      assert.deepEqual([status, reason, root], ['diverged', 'page', before[i]!.root]);
    }
    assert.ok((await treesOf(store)).some(({ status }) => status === 'diverged'));
  });
});
