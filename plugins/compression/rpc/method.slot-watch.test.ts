import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainReader, RpcError } from '../../../src/plugin/plugin.ts';
import type { BlockHeader } from '../../../src/ports/block.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createSlotWatch } from './method.ts';

const never = new AbortController().signal;

/** A watch over a head that the test moves, with the number of reads. */
function bed() {
  const head = { slot: null as number | null, asked: 0, fails: false };
  const store = {
    read: {
      selectFrom: () => ({
        select: () => ({
          executeTakeFirst: async () => {
            head.asked += 1;
            if (head.fails) throw new Error('the store is away');
            return head.slot === null ? undefined : { slot: head.slot };
          },
        }),
      }),
    },
  } as unknown as Store;
  let listener: ((header: BlockHeader) => void) | null = null;
  const chain = {
    onReleased: (given: typeof listener) => {
      listener = given;
      return () => {
        listener = null;
      };
    },
  } as unknown as ChainReader;
  const clock = createManualClock();
  const log = createMemoryLog();
  const watch = createSlotWatch({ store, clock, chain, log });
  return {
    head,
    clock,
    watch,
    log,
    release: () => listener?.({} as BlockHeader),
    isListening: () => listener !== null,
  };
}

test('a thousand calls at one moment cause one read', async () => {
  const { head, clock, watch } = bed();
  head.slot = 5;
  await clock.advance(1_000);
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => watch.newest()));
  assert.deepEqual([...new Set(answers)], [5]);
  assert.equal(head.asked, 1);
  await clock.advance(199);
  await watch.newest();
  assert.equal(head.asked, 1);
  await clock.advance(1);
  head.slot = 6;
  assert.equal(await watch.newest(), 6);
});

test('a hint causes an early read, and another one when it arrives during a read', async () => {
  const { head, clock, watch, release, isListening } = bed();
  watch.start();
  head.slot = 7;
  release();
  release();
  await clock.advance(0);
  assert.equal(head.asked, 2);
  head.slot = 8;
  release();
  await clock.advance(0);
  assert.equal(await watch.newest(), 8);
  watch.stop();
  assert.equal(isListening(), false);
});

test('the answer never decreases, although a wait notices a revert', async () => {
  const { head, clock, watch } = bed();
  head.slot = 9;
  await clock.advance(1_000);
  assert.equal(await watch.newest(), 9);
  watch.saw(12);
  assert.equal(await watch.newest(), 12);
  head.slot = 8;
  await clock.advance(500);
  assert.equal(await watch.newest(), 12);
  const refused = watch.until(9, never).then(String, (error: RpcError) => error.details);
  await clock.advance(3_000);
  assert.equal(await refused, 'slot 9 has not been indexed yet (at 8)');
});

test('a wait ends when the slot is indexed, by hint or by polling, and when its call ends', async () => {
  const { head, clock, watch } = bed();
  head.slot = 3;
  let ended = '';
  const wait = (slot: number, signal = never) =>
    watch.until(slot, signal).then(
      () => (ended += `${slot} `),
      (error: Error) => (ended += `${error.message} `),
    );
  void wait(3);
  await clock.advance(0);
  assert.equal(ended, '3 ');
  void wait(4);
  await clock.advance(100);
  assert.equal(ended, '3 ');
  watch.saw(4);
  await clock.advance(0);
  assert.equal(ended, '3 4 ');
  void wait(5);
  head.slot = 6;
  await clock.advance(200);
  assert.equal(ended, '3 4 5 ');
  const call = new AbortController();
  void wait(99, call.signal);
  await clock.advance(10);
  call.abort(new Error('gone'));
  await clock.advance(0);
  assert.equal(ended, '3 4 5 gone ');
  assert.equal(clock.pending, 0);
});

test('store errors are logged for hints and thrown to callers', async () => {
  const { head, clock, watch, release, log } = bed();
  watch.start();
  head.fails = true;
  release();
  await clock.advance(0);
  assert.deepEqual(
    log.lines.map(({ message }) => message),
    ['the newest indexed slot is unknown'],
  );
  await clock.advance(1_000);
  await assert.rejects(watch.newest(), /the store is away/);
  head.fails = false;
  head.slot = 2;
  await clock.advance(1_000);
  assert.equal(await watch.newest(), 2);
});
