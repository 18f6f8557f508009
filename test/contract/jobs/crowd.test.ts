/** Many groups, a few of which have long queues and may not run: the others are found all the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AheadRoom, claimJobs } from '../../../src/jobs/claim.ts';
import type { GroupWalk } from '../../../src/jobs/due.ts';
import { insertJobs } from '../../../src/jobs/outbox.ts';
import type { NewJob } from '../../../src/plugin/plugin.ts';
import { DONE, makeKind, migrateJobs } from '../../helpers/jobs.ts';
import { eachStore } from '../../helpers/store.ts';

const KIND = 'test.job';
const GROUPS = 1_000;
const DEAD = 100;
const ROWS = 2_000;
const SLOTS = 64;
const NOTHING_AHEAD: AheadRoom = { total: 0, reserved: 0, kind: () => 0, isOwn: () => false };

const nameOf = (at: number): string => `group-${String(at).padStart(4, '0')}`;
/** All at one place: whoever goes through the groups has to get past them. */
const isDead = (group: string): boolean => Number(group.slice(-4)) < DEAD;

eachStore('a crowd of groups', (engine) => {
  test('groups at their limit are stepped over, however much of them is due', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const job = (group: string, at: number, runAt: number): NewJob => ({
      kind: KIND,
      key: `${group}/${at}`,
      group,
      payload: null,
      runAt,
    });
    const names = Array.from({ length: GROUPS }, (_, at) => nameOf(at));
    const dead = names.filter(isDead);
    const living = names.filter((group) => !isDead(group));
    for (const group of dead) {
      const jobs = Array.from({ length: ROWS }, (_, at) => job(group, at, 1_000 + at));
      await store.write((tx) => insertJobs(tx, jobs, 1_000));
    }
    const newer = living.map((group) => job(group, 0, 100_000));
    await store.write((tx) => insertJobs(tx, newer, 100_000));
    const room = { total: SLOTS, kind: () => SLOTS, slow: 0, slowOfKind: () => 0, lastServed: () => 0 };
    const kinds = new Map([
      [KIND, makeKind(async () => DONE, { groupConcurrency: (group) => (isDead(group) ? 0 : 4) })],
    ]);
    const walk: GroupWalk = new Map();
    const claimed = new Set<string>();
    const sizes: number[] = [];
    let now = 200_000;
    while (claimed.size < living.length && sizes.length < 100) {
      now += 1_000;
      const { jobs } = await store.write((tx) =>
        claimJobs(tx, { kinds, room, ahead: NOTHING_AHEAD, walk, now, owner: null }),
      );
      for (const { job: one } of jobs) {
        assert.equal(isDead(one.group), false);
        claimed.add(one.key);
      }
      sizes.push(jobs.length);
    }
    assert.equal(claimed.size, living.length);
    assert.equal(sizes[0], SLOTS, 'the first claim fills the slots');
    // So do the others, but where the walk through the groups comes to its end.
    assert.ok(sizes.length <= Math.ceil(living.length / SLOTS) + 3, `claims of ${sizes.join(' ')}`);
  });
});
