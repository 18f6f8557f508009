import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { createBus } from '../adapters/bus/index.ts';
import { insertHeader, moveCursors } from '../chain/cursor.ts';
import { followerMigrations, MAIN } from '../chain/tables.ts';
import { jobMigrations } from '../jobs/table.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainStatus } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import { migrate } from '../store/migrate.ts';
import { createAnnouncer } from './chains.ts';
import { createRemoteFollower, createRemoteRunner, TOPICS } from './remote.ts';

const header = (slot: number, fork = ''): BlockHeader => ({
  slot,
  parentSlot: slot - 1,
  blockhash: `hash-${slot}${fork}`,
  previousBlockhash: `hash-${slot - 1}`,
  blockHeight: slot,
  blockTime: 1_700_000_000 + slot,
});

/** The writes of a follower in another process for a block. */
async function release(store: Store, from: BlockHeader | null, to: BlockHeader): Promise<void> {
  await store.write(async (tx) => {
    await moveCursors(tx, 'main', [MAIN], from, to);
    await insertHeader(tx, 'main', to);
  });
}

eachStore('a follower elsewhere', (engine) => {
  async function setUp(t: TestContext, tip: number | null = 10, onlyTold = false) {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'kernel.follower', migrations: followerMigrations }]);
    const clock = createManualClock();
    const log = createMemoryLog();
    const bus = createBus([], log);
    const parts = { chain: 'main', store, bus, clock, log } as const;
    const follower = createRemoteFollower({ ...parts, tipSlot: () => tip, onlyTold });
    const told: string[] = [];
    follower.onReleased(({ blockhash }) => void told.push(blockhash));
    t.after(() => follower.stop());
    /** Lets a second pass, and with it a poll of the store. */
    const look = async () => {
      await clock.advance(1_000);
      await sleep(30);
    };
    const eventually = async (count: number) => {
      for (let i = 0; i < 200 && told.length < count; i++) await look();
    };
    return { store, clock, log, bus, follower, told, look, eventually };
  }

  test('a follower that waits for an upstream to start is where the store says', async (t) => {
    const { store, bus, follower, clock } = await setUp(t);
    await release(store, null, header(4));
    await follower.start();
    const waiting = { openGaps: 0, cursorSlot: null, finalizedSlot: null, tipSlot: null, stalled: 'no upstream' };
    bus.publish(TOPICS.status, { chain: 'main', status: waiting });
    await sleep(20);
    assert.deepEqual(follower.status(), { ...waiting, cursorSlot: 4 });
    bus.publish(TOPICS.status, { chain: 'main', status: { ...waiting, cursorSlot: 3, stalled: null } });
    await sleep(20);
    assert.equal(follower.status().cursorSlot, 3);
    bus.publish(TOPICS.status, { chain: 'main', status: { ...waiting, finalizedSlot: 3, finalizedAgeMs: 100 } });
    await sleep(20);
    await clock.advance(1_000);
    assert.equal(follower.status().finalizedAgeMs, 1_100, 'it grows on the way');
  });

  test('without messages the store provides the position, and every block since the last poll', async (t) => {
    const { store, follower, told, look, eventually } = await setUp(t);
    await follower.start();
    assert.deepEqual(follower.status(), {
      cursorSlot: null,
      finalizedSlot: null,
      tipSlot: 10,
      lagSlots: null,
      slotMs: null,
    });
    await release(store, null, header(4));
    for (let i = 0; i < 200 && follower.status().cursorSlot !== 4; i++) await look();
    assert.deepEqual(follower.status(), { cursorSlot: 4, finalizedSlot: null, tipSlot: 10, lagSlots: 6, slotMs: null });
    for (const slot of [5, 6, 7]) await release(store, header(slot - 1), header(slot));
    await eventually(3);
    assert.deepEqual(told, ['hash-5', 'hash-6', 'hash-7']);
    // A rollback: the block at the cursor is another one.
    await store.write(async (tx) => {
      await tx.db.deleteFrom('follow_headers').where('slot', '>', 5).execute();
      await moveCursors(tx, 'main', [MAIN], header(7), header(6, 'b'));
      await insertHeader(tx, 'main', header(6, 'b'));
    });
    await eventually(4);
    assert.deepEqual(told.slice(3), ['hash-6b']);
  });

  test('a message is announced at once and only once; the next poll makes up for lost ones', async (t) => {
    const { store, bus, follower, told, look, eventually } = await setUp(t);
    await release(store, null, header(4));
    await follower.start();
    await release(store, header(4), header(5));
    bus.publish(TOPICS.released, { chain: 'main', header: header(5) });
    bus.publish(TOPICS.released, { chain: 'devnet', header: header(99) });
    await sleep(20);
    assert.deepEqual(told, ['hash-5']);
    await look();
    await look();
    assert.deepEqual(told, ['hash-5'], 'not told again');
    for (const slot of [6, 7]) await release(store, header(slot - 1), header(slot));
    await eventually(3);
    assert.deepEqual(told, ['hash-5', 'hash-6', 'hash-7']);
    bus.publish(TOPICS.released, null as never);
    bus.publish(TOPICS.status, { chain: 'main' });
    await sleep(20);
    assert.equal(typeof follower.status(), 'object', 'nonsense on the bus does no harm');
  });

  test('a received status is used while it is fresh', async (t) => {
    const { store, clock, bus, follower, look } = await setUp(t);
    await release(store, null, header(4));
    await follower.start();
    const status: Partial<ChainStatus> = {
      cursorSlot: 9,
      tipSlot: 9,
      lagSlots: 0,
      stalled: 'no upstream',
      openGaps: 2,
    };
    bus.publish(TOPICS.status, { chain: 'main', status });
    await sleep(20);
    assert.deepEqual(follower.status(), status);
    await clock.advance(4_900);
    assert.deepEqual(follower.status(), status);
    await clock.advance(200);
    await look();
    assert.equal(follower.status().cursorSlot, 4);
    assert.equal(follower.status().stalled, undefined);
  });

  test('where perhaps nobody follows, a position in the store is no lag, and one that a follower says is', async (t) => {
    const { store, bus, follower, look } = await setUp(t, 1_000, true);
    await release(store, null, header(4));
    await follower.start();
    await look();
    const none = { cursorSlot: null, finalizedSlot: null, tipSlot: 1_000, lagSlots: null, slotMs: null };
    assert.deepEqual(follower.status(), none);
    const status: Partial<ChainStatus> = { cursorSlot: 999, tipSlot: 1_000, lagSlots: 1, openGaps: 0 };
    bus.publish(TOPICS.status, { chain: 'main', status });
    await sleep(20);
    assert.deepEqual(follower.status(), status);
  });
});

/** A bus without a connection delivers messages in the turn after the one that sent them, however long that took. */
const turn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

test('a follower is announced: each block, and its status after it and every second, gaps cut to a few', async () => {
  const clock = createManualClock();
  const bus = createBus([], createMemoryLog());
  const got: [string, unknown][] = [];
  for (const topic of Object.values(TOPICS)) bus.subscribe(topic, (message) => void got.push([topic, message]));
  let listener: (header: BlockHeader) => void = () => undefined;
  const gap = { fromSlot: 1, toSlot: 2 };
  const announcer = createAnnouncer({
    chain: 'main',
    bus,
    clock,
    follower: {
      status: () => ({ cursorSlot: 3, gaps: Array.from({ length: 50 }, () => gap) as never }),
      onReleased(fn) {
        listener = fn;
        return () => {
          listener = () => undefined;
        };
      },
    },
  });
  announcer.start();
  await turn();
  const status = { chain: 'main', status: { cursorSlot: 3, gaps: Array.from({ length: 10 }, () => gap) } };
  assert.deepEqual(got, [[TOPICS.status, status]]);
  await clock.advance(500);
  listener(header(4));
  listener(header(5));
  await turn();
  assert.deepEqual(
    got.slice(1).map(([topic]) => topic),
    [TOPICS.released, TOPICS.status, TOPICS.released],
  );
  await clock.advance(500);
  await turn();
  assert.equal(got.length, 5);
  announcer.stop();
  listener(header(6));
  await clock.advance(5_000);
  await turn();
  assert.equal(got.length, 5);
  assert.equal(clock.pending, 0);
});

eachStore('jobs for a runner elsewhere', (engine) => {
  test('they are in the store, and the runner is woken after the last commit, also of a burst', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'kernel.jobs', migrations: jobMigrations }]);
    const clock = createManualClock();
    const bus = createBus([], createMemoryLog());
    let wakes = 0;
    bus.subscribe(TOPICS.jobsDue, () => {
      wakes += 1;
    });
    const runner = createRemoteRunner({ bus, clock });
    const job = (key: string) => ({ kind: 'a.b', key, group: 'g', payload: {} });
    assert.equal(await store.write((tx) => runner.enqueue(tx, [job('1'), job('2')])), 2);
    assert.equal(await store.write((tx) => runner.enqueue(tx, [job('2')])), 0);
    await sleep(10);
    assert.equal(wakes, 1);
    for (let n = 10; n < 20; n++) await store.write((tx) => runner.enqueue(tx, [job(String(n))]));
    await sleep(10);
    assert.equal(wakes, 1, 'not yet: the millisecond is not over');
    await clock.advance(1);
    await sleep(10);
    assert.equal(wakes, 2, 'and then for all of them');
    await clock.advance(1);
    await assert.rejects(
      store.write(async (tx) => {
        await runner.enqueue(tx, [job('never')]);
        throw new Error('rolled back');
      }),
    );
    await sleep(10);
    assert.equal(wakes, 2);
  });
});
