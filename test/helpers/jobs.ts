/** Runners over a real store, for the suites of jobs. */
import type { TestContext } from 'node:test';
import { createSystemClock, createSystemRandom } from '../../src/adapters/clock.ts';
import { createJobRunner, type JobRunner } from '../../src/jobs/runner.ts';
import { jobMigrations } from '../../src/jobs/table.ts';
import type { Job, JobKind, JobOutcome, NewJob } from '../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Owner } from '../../src/ports/processes.ts';
import type { Store } from '../../src/ports/store.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createMemoryLog } from './memory-log.ts';

const JOBS_CONFIG = {
  concurrency: 64,
  claimBatch: 256,
  claimAhead: 256,
  writeDelayMs: 5,
  pollMs: 1_000,
  maxAttempts: 20,
};

export async function migrateJobs(store: Store): Promise<void> {
  await migrate(store, [{ scope: 'kernel.jobs', migrations: jobMigrations }]);
}

export interface RunnerOptions {
  readonly store: Store;
  readonly kinds: readonly JobKind[];
  readonly clock?: Clock;
  readonly random?: Random;
  readonly config?: Partial<typeof JOBS_CONFIG>;
  readonly owner?: Owner | null;
  readonly fatal?: (error: unknown) => void;
}

/** A runner with its log and metrics; it is stopped when the test ends. */
export function makeRunner(t: TestContext, options: RunnerOptions): JobRunner & ReturnType<typeof observe> {
  const seen = observe();
  const { config, fatal, owner = null, ...rest } = options;
  const runner = createJobRunner({
    clock: createSystemClock(),
    random: createSystemRandom(),
    ...rest,
    owner,
    log: seen.log,
    metrics: seen.metrics.scope('jobs'),
    config: { ...JOBS_CONFIG, ...config },
    ...(fatal === undefined ? {} : { fatal }),
  });
  // The runner's own timers keep no process alive.
  const alive = setInterval(() => {}, 1_000);
  t.after(async () => {
    await runner.stop(AbortSignal.timeout(1_000));
    clearInterval(alive);
  });
  return Object.assign(runner, seen);
}

function observe() {
  return { log: createMemoryLog(), metrics: createMetricsRegistry() };
}

export const DONE: JobOutcome = { kind: 'done' };

export function makeKind(
  run: (job: Job, signal: AbortSignal) => Promise<JobOutcome>,
  more: Partial<JobKind> = {},
): JobKind {
  return {
    kind: 'test.job',
    summary: 'a job of a test',
    concurrency: 64,
    timeoutMs: 5_000,
    run: (job, _prepared, signal) => run(job, signal),
    ...more,
  };
}

export function newJobs(count: number, more: Partial<NewJob> | ((index: number) => Partial<NewJob>) = {}): NewJob[] {
  return Array.from({ length: count }, (_, index) => ({
    kind: 'test.job',
    key: `key-${index}`,
    group: 'group',
    payload: { index },
    ...(typeof more === 'function' ? more(index) : more),
  }));
}
