/** Every event of the table of replays in every mode: what may come happens, all else changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createBudgets } from '../../../src/budgets.ts';
import { stateAfter } from '../../../src/lib/transitions.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { OpenBlocks } from './open-blocks.ts';
import { REPLAY, type ReplayMode, Replays } from './replays.ts';
import type { Feed, Reader, UpdateBatch } from './types.ts';

const MODES: readonly ReplayMode[] = ['reading', 'live', 'over'];
const NEWEST = 5;
const MAX_BYTES = 100;

type Event = keyof typeof REPLAY;

/** A replay that waits for the first block of a ledger, has caught up with it, or was left while it waited. */
async function startReplay(mode: ReplayMode) {
  let answer: (block: ChainBlock | Error) => void = () => {};
  let reads = 0;
  const newest = mode === 'live' ? 0 : NEWEST;
  const state = { finalSlot: newest, newest, isOpen: false };
  const kept = {
    get finalSlot() {
      return state.finalSlot;
    },
    newest: () => state.newest,
    firstOfRun: () => 0,
    state: (slot: number) => (slot <= state.newest ? ('block' as const) : ('unknown' as const)),
    async block(slot: number) {
      reads += 1;
      const block = { slot, parentSlot: slot - 1, transactions: [] } as unknown as ChainBlock;
      if (state.isOpen) return block;
      return await new Promise<ChainBlock>((resolve, reject) => {
        answer = (given) => (given instanceof Error ? reject(given) : resolve(block));
      });
    },
  } as unknown as LedgerReader;
  const seen = { joined: 0, leftLive: 0, refused: 0, lagged: 0 };
  const open = new OpenBlocks(() => kept);
  const top = { slot: state.newest, parentSlot: state.newest - 1, transactions: [] } as unknown as ChainBlock;
  open.add(top);
  const replays = new Replays({
    log: createMemoryLog(),
    open,
    sent: createMetricsRegistry().scope('streams').counter('sent_total', 'sent'),
    maxPendingBytes: MAX_BYTES,
    joinLive() {
      seen.joined += 1;
      return () => {
        seen.leftLive += 1;
        return null;
      };
    },
  });
  const batch: UpdateBatch = { bytes: Buffer.alloc(MAX_BYTES + 1), updates: 1, messageBytes: MAX_BYTES };
  const feed: Feed = { level: 'finalized', content: () => [batch], slot: () => [] };
  const reader: Reader = {
    tenant: createBudgets().tenantOf({ projectId: 'p', keyId: 'k', plan: 'p', wallet: null }, ''),
    send: () => undefined,
    ready: () => Promise.resolve(),
    payForBlock: () => Promise.resolve(),
    refused: () => (seen.refused += 1),
    lagged: () => (seen.lagged += 1),
  };
  const leave = replays.start(kept, { key: null, feed, from: 1 }, 1, reader);
  const settle = async () => {
    for (let turns = 0; turns < 50; turns += 1) await turn();
  };
  await settle();
  if (mode === 'over') leave();
  return {
    async occur(event: Event): Promise<void> {
      if (event === 'reader left') leave();
      if (event === 'failed') answer(new Error('the disk is gone'));
      if (event === 'held too much') state.finalSlot = 0;
      if (event === 'held too much' || event === 'caught up') {
        state.isOpen = true;
        answer(top);
      }
      await settle();
    },
    /** By what its reader and the ledger notice. */
    async modeNow(): Promise<ReplayMode> {
      if (seen.joined > 0) return seen.leftLive > 0 ? 'over' : 'live';
      const before = reads;
      state.isOpen = true;
      answer(top);
      await settle();
      return reads > before || seen.joined > 0 ? 'reading' : 'over';
    },
    seen,
  };
}

test('a replay changes its mode where the table says so, and nowhere else', async () => {
  for (const event of Object.keys(REPLAY) as Event[])
    for (const mode of MODES) {
      const replay = await startReplay(mode);
      await replay.occur(event);
      // Nothing can fail in a live one but joining, which is the turn in which it becomes live.
      const isJoining = event === 'failed' && mode === 'live';
      const expected = isJoining ? mode : (stateAfter(REPLAY, event, mode) ?? mode);
      const { refused, lagged } = replay.seen;
      assert.deepEqual(
        [await replay.modeNow(), refused, lagged],
        [
          expected,
          Number(event === 'failed' && mode === 'reading'),
          Number(event === 'held too much' && mode === 'reading'),
        ],
        `${event} in ${mode}`,
      );
    }
});
