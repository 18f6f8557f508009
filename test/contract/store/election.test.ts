/** Who leads: one at a time, and whoever has lost the lead writes nothing any more. Every process has a clock of its own. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { createElection } from '../../../src/chain/election.ts';
import { followerMigrations } from '../../../src/chain/tables.ts';
import type { Store } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore, type TestDatabase } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const LEASE_MS = 1_000;
const FENCED = { code: 'FOLLOW_FENCED', exitCode: 75 };

async function prepared(database: TestDatabase): Promise<Store> {
  const store = await database.open();
  await migrate(store, [{ scope: 'kernel.follower', migrations: followerMigrations }]);
  await store.write(({ db }) => sql`create table written (by text not null)`.execute(db));
  return store;
}

async function candidate(t: TestContext, database: TestDatabase, name: string) {
  const clock = createManualClock();
  const lost: unknown[] = [];
  const rivals: string[] = [];
  const election = createElection({
    chain: 'main',
    store: await database.open(),
    name,
    leaseMs: LEASE_MS,
    clock,
    log: createMemoryLog(),
    lost: (error) => void lost.push(error),
    otherLeads: () => void rivals.push(name),
  });
  t.after(() => election.resign());
  const write = () => election.store.write((tx) => tx.insertMany('written', ['by'], [[name]]));
  return { ...election, clock, lost, rivals, write };
}

const writtenBy = async (store: Store) =>
  (await sql<{ by: string }>`select by from written`.execute(store.read)).rows.map(({ by }) => by);

const beatOf = async (store: Store) =>
  (await sql<{ beat: number }>`select beat from follow_leaders`.execute(store.read)).rows[0]?.beat;

eachStore('the lead of a chain', ({ database }) => {
  test('one of several that begin at once leads, the others wait and know whom for', async (t) => {
    const shared = await database(t);
    await prepared(shared);
    const all = await Promise.all(['a', 'b', 'c'].map((name) => candidate(t, shared, name)));
    const leads = await Promise.all(all.map((each) => each.tryLead()));
    assert.equal(leads.filter(Boolean).length, 1);
    const leader = ['a', 'b', 'c'][leads.indexOf(true)];
    for (const each of all) {
      await (each.leader()?.name === leader ? undefined : each.tryLead());
      assert.deepEqual(each.leader(), { name: leader, epoch: 1 });
    }
  });

  test('a leader that is silent for a lease is replaced; what it still tries to write fails and leaves nothing', async (t) => {
    const shared = await database(t);
    const store = await prepared(shared);
    const [a, b] = [await candidate(t, shared, 'a'), await candidate(t, shared, 'b')];
    assert.equal(await a.tryLead(), true);
    await a.write();
    assert.equal(await b.tryLead(), false);
    await b.clock.advance(LEASE_MS - 1);
    assert.equal(await b.tryLead(), false);
    await b.clock.advance(1);
    assert.equal(await b.tryLead(), true);
    assert.deepEqual(b.leader(), { name: 'b', epoch: 2 });
    await assert.rejects(a.write(), FENCED);
    await b.write();
    assert.deepEqual(await writtenBy(store), ['a', 'b']);
  });

  test('one that was paused hears of it at its next beat, also when it has nothing to write', async (t) => {
    const shared = await database(t);
    await prepared(shared);
    const [a, b] = [await candidate(t, shared, 'a'), await candidate(t, shared, 'b')];
    await a.tryLead();
    await b.tryLead();
    await b.clock.advance(LEASE_MS);
    assert.equal(await b.tryLead(), true);
    for (let tries = 0; tries < 400 && a.lost.length === 0; tries += 1) {
      await a.clock.advance(LEASE_MS);
      await sleep(5);
    }
    assert.equal(a.lost.length, 1);
    assert.deepEqual([(a.lost[0] as typeof FENCED).code, (a.lost[0] as typeof FENCED).exitCode], ['FOLLOW_FENCED', 75]);
  });

  test('a leader that lives is never replaced, whether it writes or not', async (t) => {
    const shared = await database(t);
    const store = await prepared(shared);
    const [a, b] = [await candidate(t, shared, 'a'), await candidate(t, shared, 'b')];
    await a.tryLead();
    for (let round = 0; round < 6; round += 1) {
      const before = await beatOf(store);
      if (round % 2 === 0) await a.write();
      else
        for (let tries = 0; tries < 400 && (await beatOf(store)) === before; tries += 1) {
          await a.clock.advance(LEASE_MS / 5);
          await sleep(5);
        }
      assert.equal(await b.tryLead(), false);
      await b.clock.advance(LEASE_MS - 1);
    }
    assert.deepEqual(b.rivals, ['b'], 'told once');
    assert.deepEqual(a.rivals, []);
    assert.deepEqual(a.lost, []);
  });

  test('a leader within a transaction holds the lead until it ends, however long that takes', async (t) => {
    const shared = await database(t);
    const store = await prepared(shared);
    const [a, b] = [await candidate(t, shared, 'a'), await candidate(t, shared, 'b')];
    await a.tryLead();
    await b.tryLead();
    let go = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    let isInside = false;
    const writing = a.store.write(async (tx) => {
      isInside = true;
      await held;
      return await tx.insertMany('written', ['by'], [['a']]);
    });
    await until(() => isInside);
    await b.clock.advance(LEASE_MS);
    const looking = b.tryLead();
    await sleep(50);
    go();
    assert.equal(await writing, 1);
    assert.equal(await looking, false);
    assert.deepEqual(await writtenBy(store), ['a']);
    await a.write();
  });

  test('a leader that resigns is replaced without a wait', async (t) => {
    const shared = await database(t);
    await prepared(shared);
    const [a, b] = [await candidate(t, shared, 'a'), await candidate(t, shared, 'b')];
    await a.tryLead();
    assert.equal(await b.tryLead(), false);
    await a.resign();
    assert.equal(await b.tryLead(), true);
    assert.deepEqual(b.leader(), { name: 'b', epoch: 2 });
    await assert.rejects(a.write(), FENCED);
    b.stop();
    await b.write();
  });
});
