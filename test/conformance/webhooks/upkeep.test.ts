import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import { addressOf, makeBlock } from './blocks.ts';
import { startHarness } from './harness.ts';

const HOUR_MS = 3_600_000;

/** Until this is left. Time moves on meanwhile, as the next turn of the upkeep is planned when the one before has ended. */
async function pruned(clock: ManualClock, left: () => Promise<unknown>, expected: unknown): Promise<void> {
  const isDone = async () => {
    await clock.advance(HOUR_MS / 4);
    return isDeepStrictEqual(await left(), expected);
  };
  await until(isDone, JSON.stringify(expected));
}

eachStore('upkeep of webhooks', (engine) => {
  test('delivered events are forgotten after a day, failed ones after two weeks, elements with their last delivery', async (t) => {
    const clock = createManualClock();
    const store = await engine.store(t);
    const harness = await startHarness(t, { store, clock, deliver: false });
    await harness.start();
    const hook = async () => {
      const body = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [addressOf(1)] };
      return (await harness.call('POST', '/v0/webhooks', body)).body.webhookID as string;
    };
    const [good, bad] = [await hook(), await hook()];
    await harness.apply(
      makeBlock({
        slot: 1,
        transactions: [
          { name: 'a', keys: [1] },
          { name: 'b', keys: [1] },
        ],
      }),
    );
    await store.write(async (tx) => {
      const end = (grp: string, state: string) =>
        tx.db
          .updateTable('outbox')
          .set({ state, claims: 1, finished_at: clock.now() })
          .where('grp', '=', grp)
          .execute();
      await end(good, 'done');
      await end(bad, 'failed');
    });
    /** The last hour as it comes, the others at once. */
    const pass = async (ms: number) => {
      await clock.leap(ms - HOUR_MS);
      await clock.advance(HOUR_MS);
    };
    const left = async () => {
      const rows = await store.read.selectFrom('outbox').select('grp').execute();
      const blobs = await store.read.selectFrom('webhook_elements').select('refs').execute();
      const count = (id: string) => rows.filter(({ grp }) => grp === id).length;
      return { good: count(good), bad: count(bad), refs: blobs.map(({ refs }) => refs) };
    };
    await pass(23 * HOUR_MS);
    assert.deepEqual(await left(), { good: 2, bad: 2, refs: [2, 2] });
    await pass(2 * HOUR_MS);
    await pruned(clock, left, { good: 0, bad: 2, refs: [1, 1] });
    await pass(14 * 24 * HOUR_MS);
    await pruned(clock, left, { good: 0, bad: 0, refs: [] });
  });

  test('of a transaction that moved to another block each element goes with its own delivery', async (t) => {
    const clock = createManualClock();
    const store = await engine.store(t);
    const harness = await startHarness(t, { store, clock, deliver: false });
    await harness.start();
    const body = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [addressOf(1)] };
    await harness.call('POST', '/v0/webhooks', body);
    const block = (slot: number) => makeBlock({ slot, transactions: [{ name: 'moved', keys: [1] }] });
    await harness.apply(block(7));
    await harness.revert(block(7));
    await harness.apply(block(6));
    const slots = async () =>
      (await store.read.selectFrom('webhook_elements').select('slot').orderBy('slot').execute()).map(
        ({ slot }) => slot,
      );
    assert.deepEqual(await slots(), [6, 7]);
    // The first delivery was discarded with its block, the second one waits.
    await clock.leap(14 * 24 * HOUR_MS);
    await clock.advance(HOUR_MS);
    await pruned(clock, slots, [6]);
  });
});
