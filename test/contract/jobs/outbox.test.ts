import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOutbox, insertJobs } from '../../../src/jobs/outbox.ts';
import { migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';

const KIND = 'test.job';

eachStore('outbox', (engine) => {
  test('lists, counts and changes the states of rows that wait', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    let wakes = 0;
    const outbox = createOutbox({ store, clock, wake: () => (wakes += 1) });
    await store.write((tx) =>
      insertJobs(
        tx,
        newJobs(20, (index) => ({ group: `g${index % 2}`, slot: index })),
        clock.now(),
      ),
    );
    const g0 = { kind: KIND, group: 'g0' };

    const page = await outbox.list(g0, { limit: 3 });
    assert.deepEqual(
      page.map(({ key }) => key),
      ['key-18', 'key-16', 'key-14'],
    );
    const next = await outbox.list(g0, { limit: 100, beforeId: page[2]!.id });
    assert.deepEqual(
      next.map(({ key }) => key),
      ['key-12', 'key-10', 'key-8', 'key-6', 'key-4', 'key-2', 'key-0'],
    );
    const oldest = await outbox.list(g0, { limit: 2, afterId: next.at(-1)!.id });
    assert.deepEqual(
      oldest.map(({ key }) => key),
      ['key-2', 'key-4'],
    );
    assert.equal(await outbox.get(KIND, 'nothing'), null);
    assert.equal(await outbox.count(g0), 10);
    assert.equal(await outbox.count(g0, { atMost: 4 }), 4);

    await store.write(async (tx) => {
      assert.equal(await outbox.hold(tx, { ...g0, limit: 6 }, 'paused'), 6);
      assert.equal(await outbox.count({ ...g0, states: ['held'] }, { tx }), 6);
    });
    assert.equal((await outbox.get(KIND, 'key-0'))?.holdReason, 'paused');
    assert.equal(wakes, 0);
    await store.write((tx) => outbox.release(tx, { ...g0, limit: 2 }));
    assert.equal(wakes, 1, 'released rows are looked at after the commit');
    assert.equal((await outbox.get(KIND, 'key-0'))?.state, 'pending');
    assert.equal((await outbox.get(KIND, 'key-4'))?.state, 'held');
    assert.equal(await store.write((tx) => outbox.discard(tx, g0, 'gone')), 10);
    assert.equal(await store.write((tx) => outbox.discard(tx, { kind: 'other.job' }, 'gone')), 0);
    const gone = await outbox.get(KIND, 'key-4');
    assert.deepEqual([gone?.state, gone?.error, gone?.finishedAt], ['discarded', 'gone', clock.now()]);
    assert.equal(await store.write((tx) => outbox.requeue(tx, { kind: KIND, ids: [gone!.id] })), 1);
    assert.equal(await store.write((tx) => outbox.requeue(tx, { kind: KIND, keys: ['key-6'], states: ['failed'] })), 0);
    assert.deepEqual((await outbox.get(KIND, 'key-4'))?.finishedAt, null);
    assert.equal(await store.write((tx) => outbox.moveSlot(tx, KIND, ['key-4', 'no'], 77)), 1);
    assert.equal((await outbox.get(KIND, 'key-4'))?.slot, 77);
  });

  test('a roll-back takes only what nobody began, and frees its keys', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const outbox = createOutbox({ store, clock: createManualClock(), wake: () => {} });
    const jobs = newJobs(6, (index) => ({ slot: 10 + index, ...(index === 4 ? { held: 'paused' } : {}) }));
    await store.write((tx) => insertJobs(tx, jobs, 1));
    // One of them was begun once, by a process that died.
    await store.write((tx) => tx.db.updateTable('outbox').set({ claims: 1 }).where('key', '=', 'key-3').execute());
    const range = { kind: KIND, fromSlot: 12, toSlot: 14 };
    assert.equal(await store.write((tx) => outbox.discardUntried(tx, { ...range, groups: ['other'] })), 0);
    assert.equal(await store.write((tx) => outbox.discardUntried(tx, range)), 2);
    const states = new Map((await outbox.list({ kind: KIND })).map(({ slot, state }) => [slot, state]));
    assert.deepEqual(
      [10, 11, 12, 13, 14, 15].map((slot) => states.get(slot)),
      ['pending', 'pending', 'discarded', 'pending', 'discarded', 'pending'],
    );
    assert.equal(await store.write((tx) => insertJobs(tx, jobs, 2)), 2, 'the same events in another block');
    assert.equal(await store.write((tx) => outbox.discardUntried(tx, range)), 2, 'and rolled back once more');
  });

  test('a taken job counts as begun, unless it is given back', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const outbox = createOutbox({ store, clock: createManualClock(), wake: () => {} });
    await store.write((tx) =>
      insertJobs(
        tx,
        newJobs(4, (index) => ({ slot: index })),
        1,
      ),
    );
    const scope = { kind: KIND, group: 'group' };
    await store.write(async (tx) => {
      const taken = await outbox.take(tx, { ...scope, limit: 3 }, 'batch');
      assert.deepEqual(
        taken.map(({ key, state }) => [key, state]),
        [0, 1, 2].map((at) => [`key-${at}`, 'held']),
      );
      await outbox.giveBack(tx, { kind: KIND, ids: [taken[2]!.id] }, 'batch');
      await outbox.giveBack(tx, { kind: KIND, ids: [taken[1]!.id] }, 'another reason');
      await outbox.release(tx, { kind: KIND, ids: [taken[0]!.id] }, { attempts: 3 });
    });
    const rows = await store.read
      .selectFrom('outbox')
      .select(['state', 'claims', 'attempts', 'lane'])
      .orderBy('id')
      .execute();
    assert.deepEqual(
      rows.map(({ state, claims, attempts, lane }) => [state, claims, attempts, lane]),
      [
        ['pending', 1, 3, 1],
        ['held', 1, 0, 0],
        ['pending', 0, 0, 0],
        ['pending', 0, 0, 0],
      ],
    );
    assert.equal(await store.write((tx) => outbox.discardUntried(tx, { kind: KIND, fromSlot: 0, toSlot: 9 })), 2);
  });

  test('prunes what was over long ago, oldest first and a piece at a time', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const start = clock.now();
    for (let i = 0; i < 5; i += 1) {
      await store.write(async (tx) => {
        await insertJobs(
          tx,
          newJobs(2, (index) => ({ key: `k${i}-${index}` })),
          clock.now(),
        );
        await outbox.discard(tx, { kind: KIND }, 'over');
      });
      await clock.advance(1_000);
    }
    const prune = (finishedBefore: number, limit: number) =>
      store.write((tx) => outbox.prune(tx, { kind: KIND, state: 'discarded', finishedBefore, limit }));
    const keys = (rows: readonly { key: string }[]) => rows.map(({ key }) => key).sort();
    assert.deepEqual(keys(await prune(start + 1_001, 3)).length, 3);
    assert.deepEqual(keys(await prune(start + 1_001, 3)).length, 1);
    assert.deepEqual(keys(await prune(start + 1_001, 3)), []);
    assert.equal(await outbox.count({ kind: KIND }), 6);
    const before = (await outbox.list({ kind: KIND }))[0]!.id;
    await prune(clock.now(), 100);
    await store.write((tx) => insertJobs(tx, newJobs(1), clock.now()));
    assert.ok((await outbox.list({ kind: KIND }))[0]!.id > before, 'ids are not used again');
  });
});
