/** A block that cannot be applied for any reason does not stop the chain forever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DecodedBlock } from '../../../plugins/compression/indexing/decode-block.ts';
import { createCompressionProcessor } from '../../../plugins/compression/indexing/processor.ts';
import { knownTrees } from '../../../plugins/compression/trees/tree-book.ts';
import { createTreeSource } from '../../../plugins/compression/trees/tree-reader.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { blocksOf, loadRecording } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { sqliteStore } from '../../helpers/store.ts';

test('after ten failures its events are left out and their trees suspected', {
  skip: skipWithoutFixtures,
}, async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  const recording = loadRecording('lamport_transfers');
  const log = createMemoryLog();
  const applied: DecodedBlock[] = [];
  let fails = true;
  const indexer = {
    async apply(_tx: unknown, block: DecodedBlock) {
      if (fails && block.transactions.some(({ events }) => events.length > 0)) throw new TypeError('a mistake of ours');
      applied.push(block);
    },
    revert: async () => undefined,
    finalized: async () => undefined,
  };
  const processor = createCompressionProcessor({
    indexer,
    store,
    log,
    known: knownTrees(recording.trees as never),
    startSlot: undefined,
    programId: recording.expected.compressionProgramId,
    source: createTreeSource({ reader: null, clock: createSystemClock(), log, signal: new AbortController().signal }),
  });
  const [block, next] = blocksOf(recording);
  const apply = async (one = block!) => {
    await processor.prepare?.(one, 'main');
    await store.write((tx) => processor.apply(tx, one, 'main'));
  };
  for (let i = 0; i < 10; i += 1) await assert.rejects(apply(), /a mistake of ours/);
  await apply();
  const [left] = applied;
  assert.deepEqual(
    left!.transactions.map(({ events, faults }) => [events.length, faults.length, faults[0]!.trees.length]),
    [[0, 1, 1]],
  );
  fails = false;
  await apply(next);
  assert.ok(applied[1]!.transactions[0]!.events.length > 0, 'the next one is read as always');
});
