/** Every event of the table of the outbox in every state: what may come happens, all else changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { type ClaimedJob, claimJobs } from '../../../src/jobs/claim.ts';
import { createSweeper, giveBack } from '../../../src/jobs/leases.ts';
import { createJobMetrics } from '../../../src/jobs/metrics.ts';
import { createOutbox, insertJobs } from '../../../src/jobs/outbox.ts';
import { ackAll } from '../../../src/jobs/outcomes.ts';
import { OUTBOX, type OutboxEvent, type RowState } from '../../../src/jobs/transitions.ts';
import { stateAfter } from '../../../src/lib/transitions.ts';
import type { JobOutcome } from '../../../src/plugin/plugin.ts';
import type { JobState, Outbox } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { makeKind, migrateJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore } from '../../helpers/store.ts';

const KIND = 'test.job';
const STATES: readonly RowState[] = ['none', 'pending', 'running', 'held', 'done', 'failed', 'discarded'];
const FINAL = ['done', 'failed', 'discarded'] as const;
const MAX_LOST = 4;
const SLOT = 7;
const REASON = 'off';

interface Bed {
  readonly store: Store;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly outbox: Outbox;
  /** One row of each state, whatever the state: an event is tried on all of them. */
  readonly claimed: readonly ClaimedJob[];
  readonly ids: readonly number[];
}

/** The key of a row is its state before the event. */
const newJob = (key: string) => ({ kind: KIND, key, group: 'group', payload: {}, slot: SLOT });

async function sweep({ store, clock }: Bed): Promise<void> {
  const sweeper = createSweeper({
    store,
    clock,
    random: createSystemRandom(),
    log: createMemoryLog(),
    metrics: createJobMetrics(createMetricsRegistry().scope('jobs'), { running: 0 } as never),
    kinds: new Map([[KIND, makeKind(async () => ({ kind: 'done' }))]]),
    maxLost: () => MAX_LOST,
    owner: { id: 'own', isGone: (id) => id === 'gone', forgetGone() {}, close() {} },
    wake() {},
  });
  await sweeper.start();
  await sweeper.stop();
}

const inWrite =
  (work: (tx: StoreTx, bed: Bed) => Promise<unknown>) =>
  async (bed: Bed): Promise<void> => {
    await bed.store.write((tx) => work(tx, bed));
  };

const ack = (outcome: JobOutcome) =>
  inWrite((tx, { clock, claimed }) =>
    ackAll(
      tx,
      new Map(),
      claimed.map((one) => ({ claimed: one, outcome })),
      clock.now(),
    ),
  );

interface Occurrence {
  /** What rows have before it, beside their state. */
  readonly row?: Readonly<Record<string, unknown>>;
  readonly occur: (bed: Bed) => Promise<void>;
}

const everywhere = { kind: KIND };

const OCCURRENCES: Readonly<Record<OutboxEvent, Occurrence>> = {
  enqueue: { occur: inWrite((tx, { clock }) => insertJobs(tx, STATES.map(newJob), clock.now())) },
  'enqueue held': {
    occur: inWrite((tx, { clock }) =>
      insertJobs(
        tx,
        STATES.map((key) => ({ ...newJob(key), held: REASON })),
        clock.now(),
      ),
    ),
  },
  claim: {
    occur: inWrite((tx, { clock }) =>
      claimJobs(tx, {
        kinds: new Map([[KIND, makeKind(async () => ({ kind: 'done' }))]]),
        room: { total: 9, kind: () => 9, slow: 9, slowOfKind: () => 9, lastServed: () => 0 },
        ahead: { total: 0, kind: () => 0, reserved: 0, isOwn: () => false },
        walk: new Map(),
        now: clock.now(),
        owner: null,
      }),
    ),
  },
  'give back': { occur: inWrite((tx, { clock, claimed }) => giveBack(tx, claimed, clock.now())) },
  'give back, rolled back': {
    row: { is_forked: 1 },
    occur: inWrite((tx, { clock, claimed }) => giveBack(tx, claimed, clock.now())),
  },
  'ack retry': { occur: ack({ kind: 'retry', runAt: Date.UTC(2100), error: 'no answer' }) },
  'ack held': { occur: ack({ kind: 'held', reason: REASON }) },
  'ack done': { occur: ack({ kind: 'done' }) },
  'ack failed': { occur: ack({ kind: 'failed', error: 'final' }) },
  'ack discarded': { occur: ack({ kind: 'discarded', error: 'gone' }) },
  'lease expired': { row: { lease_until: 1 }, occur: sweep },
  'lease expired too often': { row: { lease_until: 1, lost: MAX_LOST - 1 }, occur: sweep },
  'process ended': { row: { owner: 'gone:1' }, occur: sweep },
  hasten: { row: { run_at: Date.UTC(2100) }, occur: inWrite((tx, { outbox }) => outbox.hasten(tx, everywhere)) },
  hold: { occur: inWrite((tx, { outbox }) => outbox.hold(tx, everywhere, REASON)) },
  take: { occur: inWrite((tx, { outbox }) => outbox.take(tx, { kind: KIND, group: 'group', limit: 9 }, REASON)) },
  'return taken': { occur: inWrite((tx, { outbox, ids }) => outbox.giveBack(tx, { kind: KIND, ids }, REASON)) },
  release: { occur: inWrite((tx, { outbox }) => outbox.release(tx, everywhere)) },
  'finish done': { occur: inWrite((tx, { outbox }) => outbox.finish(tx, everywhere, { state: 'done' })) },
  'finish failed': {
    occur: inWrite((tx, { outbox }) => outbox.finish(tx, everywhere, { state: 'failed', error: 'no' })),
  },
  discard: { occur: inWrite((tx, { outbox }) => outbox.discard(tx, everywhere, 'gone')) },
  'roll back': {
    // A started job is only marked: see 'give back, rolled back'.
    row: { claims: 0 },
    occur: inWrite((tx, { outbox }) => outbox.discardUntried(tx, { kind: KIND, fromSlot: SLOT, toSlot: SLOT })),
  },
  requeue: { occur: inWrite((tx, { outbox }) => outbox.requeue(tx, everywhere)) },
  prune: {
    occur: inWrite(async (tx, { outbox, clock }) => {
      // A plugin in JavaScript may ask for any state.
      for (const state of STATES as readonly (typeof FINAL)[number][])
        await outbox.prune(tx, { kind: KIND, state, finishedBefore: clock.now() + 1 });
    }),
  },
};

async function createBed(store: Store, more: Readonly<Record<string, unknown>>): Promise<Bed> {
  await migrateJobs(store);
  const clock = createManualClock();
  const outbox = createOutbox({ store, clock, wake() {} });
  const now = clock.now();
  const stored = STATES.filter((state): state is JobState => state !== 'none');
  await store.write(async (tx) => {
    await insertJobs(tx, stored.map(newJob), now);
    for (const state of stored) {
      const row = {
        state,
        claims: 1,
        // Only a running job has an owner and a lease; all have them here, so that the state alone decides.
        lease_until: now + 60_000,
        owner: 'alive:1',
        hold_reason: state === 'held' ? REASON : null,
        finished_at: (FINAL as readonly string[]).includes(state) ? now : null,
        ...more,
      };
      await tx.db.updateTable('outbox').set(row).where('key', '=', state).execute();
    }
  });
  const rows = await outbox.list(everywhere);
  const claimed = rows.map(({ id, key }): ClaimedJob => {
    const job = { id, kind: KIND, key, group: 'group', payload: {}, slot: SLOT, attempts: 0, createdAt: now };
    return { job: { ...job, once: false } as never, lane: 0, claim: 1, runAt: now, lost: 0 };
  });
  return { store, clock, outbox, claimed, ids: rows.map(({ id }) => id) };
}

eachStore('transitions of the outbox', (engine) => {
  test('happen where the table has them, and nowhere else', async (t) => {
    for (const [event, { row = {}, occur }] of Object.entries(OCCURRENCES) as [OutboxEvent, Occurrence][]) {
      const store = await engine.store(t);
      const bed = await createBed(store, row);
      await occur(bed);
      // A job that a roll-back discards gives up its key.
      const rows = await bed.outbox.list(everywhere);
      const after = STATES.map((state) => rows.find(({ key }) => key.split('#')[0] === state)?.state ?? 'none');
      const expected = STATES.map((state) => stateAfter(OUTBOX, event, state) ?? state);
      assert.deepEqual(after, expected, event);
    }
  });
});
