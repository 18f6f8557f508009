/**
 * Several runners on one store, with a clock that stands still, random outcomes and crashes, all from one seed. Afterwards every
 * job has to be over, with exactly as many recorded attempts as it counts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GRACE_MS } from '../../../src/jobs/dispatch.ts';
import { createJobRunner, type JobRunner } from '../../../src/jobs/runner.ts';
import type { Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { makeKind, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { mortalStore } from '../../helpers/mortal-store.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { sqliteStore } from '../../helpers/store.ts';

const CONFIG = { concurrency: 6, claimBatch: 4, claimAhead: 8, writeDelayMs: 5, pollMs: 1_000, maxAttempts: 4 };
const GROUP_LIMIT = 2;
const TIMEOUT_MS = 2_000;
const JOBS = 60;

function seeded(seed: number): Random & { below(n: number): number } {
  let state = seed >>> 0;
  const float = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x45d9f3b);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(float() * n);
  return { float, below, bytes: (count) => new Uint8Array(count), uuid: () => `id-${below(1e9)}` };
}

interface RunningJob {
  readonly job: Job;
  readonly life: { readonly isDead: boolean };
  /** From then on its runner waits no longer for a handler that does not heed its signal. */
  readonly givenUpAt: number;
}

interface World {
  readonly clock: ManualClock;
  readonly random: ReturnType<typeof seeded>;
  readonly store: Store;
  readonly running: Set<RunningJob>;
  readonly problems: string[];
}

function simulatedKind(world: World, life: { readonly isDead: boolean }): JobKind {
  const { clock, random, running, problems } = world;
  const run = async (job: Job, signal: AbortSignal): Promise<JobOutcome> => {
    // What a dead process had claimed ahead it does not begin any more.
    if (life.isDead) return await new Promise(() => {});
    const entry = { job, life, givenUpAt: clock.now() + TIMEOUT_MS + GRACE_MS };
    running.add(entry);
    const alive = [...running].filter((one) => !one.life.isDead && one.givenUpAt > clock.now());
    const ofGroup = alive.filter((one) => one.job.group === job.group).length;
    if (job.group === 'ordered' && ofGroup > 1) problems.push('two of an ordered group run at once');
    if (ofGroup > GROUP_LIMIT) problems.push(`${ofGroup} of ${job.group} run at once`);
    if (alive.some((one) => one !== entry && one.job.id === job.id)) problems.push(`job ${job.id} runs twice at once`);
    const ofProcess = alive.filter((one) => one.life === life).length;
    if (ofProcess > CONFIG.concurrency) problems.push(`${ofProcess} run in one process`);
    try {
      await clock.sleep(random.below(400), signal).catch(() => {});
      const dice = random.below(20);
      if (dice === 0) await clock.sleep(60_000);
      if (dice < 3) throw new Error('thrown');
      if (dice < 6) return { kind: 'retry', runAt: clock.now() + random.below(5_000), error: 'again' };
      if (dice < 8) return { kind: 'retry', runAt: clock.now(), error: 'wait', uncounted: true };
      if (dice === 8) return { kind: 'failed', error: 'final' };
      return { kind: 'done' };
    } finally {
      running.delete(entry);
    }
  };
  return makeKind(run, {
    timeoutMs: TIMEOUT_MS,
    groupConcurrency: () => GROUP_LIMIT,
    ack: async (tx, finished) => {
      const rows = finished.map(({ job, outcome }) => [job.id, outcome.kind === 'retry' && outcome.uncounted ? 0 : 1]);
      await tx.insertMany('results', ['job', 'counted'], rows);
      if (random.below(25) === 0) throw new Error('ack failed');
    },
  });
}

async function simulate(t: TestContext, seed: number): Promise<void> {
  const random = seeded(seed);
  const store = await sqliteStore(t);
  await migrateJobs(store);
  await store.write(({ db }) =>
    db.schema.createTable('results').addColumn('job', 'bigint').addColumn('counted', 'integer').execute(),
  );
  const clock = createManualClock();
  const world: World = { clock, random, store, running: new Set(), problems: [] };
  const log = createMemoryLog();
  const lives = new Map<string, { readonly isDead: boolean }>();
  const start = async () => {
    const { life, store: own } = mortalStore(store, random);
    const options = { store: own, clock, random, log, metrics: createMetricsRegistry().scope('jobs'), config: CONFIG };
    const id = random.uuid();
    lives.set(id, life);
    const isGone = (other: string) => lives.get(other)?.isDead === true;
    // Some processes run elsewhere: nobody sees their end, and they see nobody's.
    const owner = random.below(3) === 0 ? null : { id, isGone, forgetGone() {}, close() {} };
    const runner = createJobRunner({ ...options, owner, kinds: [simulatedKind(world, life)] });
    await runner.start();
    return { life, runner };
  };
  const processes = [await start(), await start()];
  const enqueue = (from: number, runner: JobRunner) =>
    store.write((tx) =>
      runner.enqueue(
        tx,
        newJobs(JOBS / 4, (index) => ({
          key: `key-${from + index}`,
          group: `g${random.below(5)}`,
          ...(index % 5 === 0 ? { position: index, group: 'ordered' } : {}),
        })),
      ),
    );
  const open = async () =>
    (await store.read.selectFrom('outbox').select('id').where('state', 'in', ['pending', 'running']).execute()).length;
  let crashes = 0;
  for (let step = 0; step < 4_000; step += 1) {
    if (step < 4) await enqueue((step * JOBS) / 4, processes[0]!.runner);
    await clock.advance(random.below(300));
    if (crashes < 6 && random.below(30) === 0) {
      const index = random.below(processes.length);
      processes[index]!.life.isDead = true;
      crashes += 1;
      await clock.advance(random.below(100));
      processes[index] = await start();
    }
    if (step > 4 && step % 20 === 0 && (await open()) === 0) break;
  }
  for (const { runner } of processes) {
    const stopped = runner.stop();
    await clock.advance(60_000);
    await stopped;
  }
  assert.deepEqual(world.problems, [], `seed ${seed}`);
  await checkEnd(store, seed);
}

async function checkEnd(store: Store, seed: number): Promise<void> {
  const rows = await store.read.selectFrom('outbox').selectAll().execute();
  const results = await store.read.selectFrom('results').selectAll().execute();
  assert.equal(rows.length, JOBS);
  for (const { id, state, attempts, lost, error } of rows) {
    assert.ok(state === 'done' || state === 'failed', `seed ${seed}: job ${id} is ${state}`);
    const counted = results.filter((result) => result['job'] === id && result['counted'] === 1).length;
    // An outcome that its kind could not write is recorded without it.
    const unwritten = String(error).startsWith('JOB_ACK_FAILED') ? 1 : 0;
    assert.equal(counted + unwritten, attempts, `seed ${seed}: job ${id}, ${state}, lost ${lost}`);
  }
}

const seeds = Number(process.env['PARHELION_SEEDS'] ?? 6);
const first = Number(process.env['PARHELION_FIRST_SEED'] ?? 1);
bySeed(seeds, (own) => {
  for (const seed of own)
    test(`random outcomes and crashes, seed ${first + seed - 1}`, (t) => simulate(t, first + seed - 1));
});
