import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { addressOf, makeBlock } from './blocks.ts';
import { startHarness } from './harness.ts';

const HOUR_MS = 3_600_000;

test('delivered events are forgotten after a day, failed ones after two weeks, elements with their last delivery', async (t) => {
  const clock = createManualClock();
  const store = await sqliteStore(t);
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
      tx.db.updateTable('outbox').set({ state, claims: 1, finished_at: clock.now() }).where('grp', '=', grp).execute();
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
  assert.deepEqual(await left(), { good: 0, bad: 2, refs: [1, 1] });
  await pass(14 * 24 * HOUR_MS);
  assert.deepEqual(await left(), { good: 0, bad: 0, refs: [] });
});
