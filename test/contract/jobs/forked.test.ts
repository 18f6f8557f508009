/** A block is rolled back while its jobs are claimed: what turns out to have been left alone goes with it, all else stays. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';
const LATER = Date.UTC(2100);
/** How claims end, by the key of their job, and what has become of it then. */
const ENDS: readonly (readonly [outcome: JobOutcome, state: string, isFreed: boolean])[] = [
  [{ kind: 'held', reason: 'off', uncounted: 'untouched' }, 'discarded', true],
  [{ kind: 'retry', runAt: LATER, error: 'too many', uncounted: 'untouched' }, 'discarded', true],
  [{ kind: 'held', reason: 'off', uncounted: true }, 'held', false],
  [{ kind: 'retry', runAt: LATER, error: 'stopped', uncounted: true }, 'pending', false],
  [{ kind: 'retry', runAt: LATER, error: 'no answer' }, 'pending', false],
  [{ kind: 'failed', error: 'final' }, 'failed', false],
  [DONE, 'done', false],
];

eachStore('jobs of a block that is rolled back while they are claimed', (engine) => {
  test('go with it when nothing was done, and stay when the block has them again', async (t) => {
    for (const landsAgain of [false, true]) {
      const store = await engine.store(t);
      await migrateJobs(store);
      const outbox = createOutbox({ store, clock: createManualClock(), wake: () => {} });
      let open = (): void => {};
      const gate = new Promise<void>((resolve) => {
        open = resolve;
      });
      let begun = 0;
      const kind = makeKind(async ({ key }) => {
        begun += 1;
        await gate;
        return ENDS[Number(key.slice('key-'.length))]?.[0] ?? DONE;
      });
      const runner = makeRunner(t, { store, kinds: [kind] });
      await runner.start();
      await store.write((tx) =>
        runner.enqueue(
          tx,
          newJobs(ENDS.length, () => ({ slot: 7 })),
        ),
      );
      await until(async () => begun === ENDS.length);
      const range = { kind: KIND, fromSlot: 7, toSlot: 9 };
      assert.equal(await store.write((tx) => outbox.discardUntried(tx, range)), 0, 'all of them are claimed');
      const keys = ENDS.map((_, index) => `key-${index}`);
      if (landsAgain) await store.write((tx) => outbox.moveSlot(tx, KIND, keys, 8));
      open();
      await until(async () => (await outbox.count({ kind: KIND, states: ['running'] })) === 0);
      const rows = (await outbox.list({ kind: KIND })).sort((a, b) => a.id - b.id);
      for (const [index, { state, key, error }] of rows.entries()) {
        const [outcome, expected, isFreed] = ENDS[index] as (typeof ENDS)[number];
        const isKept = landsAgain && isFreed;
        assert.equal(state, isKept ? (outcome.kind === 'retry' ? 'pending' : outcome.kind) : expected, keys[index]);
        assert.equal(key === keys[index], isKept || !isFreed, key);
        assert.equal(error === 'forked', isFreed && !landsAgain, key);
      }
      const marked = await store.read.selectFrom('outbox').select('state').where('is_forked', '=', 1).execute();
      assert.ok(
        marked.every(({ state }) => state === 'discarded'),
        'the mark of a claim ends with the claim',
      );
      const again = newJobs(ENDS.length, () => ({ slot: 9 }));
      const freed = landsAgain ? 0 : ENDS.filter(([, , isFreed]) => isFreed).length;
      assert.equal(await store.write((tx) => runner.enqueue(tx, again)), freed, 'the same events in another block');
      // What nobody began goes with the next roll-back too; the new ones may be claimed by now.
      if (landsAgain) assert.equal(await store.write((tx) => outbox.discardUntried(tx, range)), freed + 2);
      await runner.stop(AbortSignal.timeout(1_000));
    }
  });
});

/** How a runner ends while jobs are under way that do not heed it. */
const STOPS = ['its time is over', 'its store failed for good'] as const;

eachStore('jobs of a block that is rolled back after their process stopped', (engine) => {
  for (const why of STOPS)
    test(`go with it when they were not begun, and stay when they were: ${why}`, async (t) => {
      const store = await engine.store(t);
      await migrateJobs(store);
      let isBroken = false;
      const broken: Store = {
        ...store,
        write: (work) => (isBroken ? Promise.reject(new CodedError('STORE_IO', 'broken')) : store.write(work)),
      };
      const under: string[] = [];
      const never = () => new Promise<never>(() => {});
      const begun = makeKind(({ key }) => {
        under.push(key);
        return never();
      });
      const loaded: JobKind = {
        ...makeKind(never),
        kind: 'test.loaded',
        prepare: (jobs) => {
          under.push(...jobs.map(({ key }) => key));
          return never();
        },
      };
      const fatals: unknown[] = [];
      const runner = makeRunner(t, {
        store: broken,
        kinds: [begun, loaded],
        fatal: (error) => fatals.push(error),
        config: { pollMs: 10 },
      });
      await runner.start();
      const jobs = newJobs(4, (index) => ({ slot: 7, kind: index < 2 ? KIND : 'test.loaded' }));
      await store.write((tx) => runner.enqueue(tx, jobs));
      await until(() => under.length === 4);
      if (why === STOPS[1]) {
        isBroken = true;
        runner.wake();
        await until(() => fatals.length === 1);
        isBroken = false;
      }
      await runner.stop(AbortSignal.timeout(20));
      const outbox = createOutbox({ store, clock: createManualClock(), wake: () => {} });
      const gone = async (kind: string) =>
        await store.write((tx) => outbox.discardUntried(tx, { kind, fromSlot: 7, toSlot: 9 }));
      assert.deepEqual([await gone(KIND), await gone('test.loaded')], [0, 2]);
      assert.equal(await outbox.count({ kind: KIND, states: ['pending'] }), 2);
    });
});
