import type { Store } from '../../ports/store.ts';
import type { Follower } from '../follower/contract.ts';
import { createFollower } from '../follower/create-follower.ts';
import { createJobRunner, type JobRunner } from '../jobs/index.ts';
import { createOutboxGauges, type OutboxGauges } from '../jobs/outbox-gauges.ts';
import type { AssembledChain, Assembly } from './assemble.ts';
import { type ChainRun, createChainRun } from './chain-run.ts';
import type { DaemonParts } from './parts.ts';

/** What a daemon does without being asked: jobs and following. */
export interface DaemonWork {
  /** Makes runner and followers on the open store. */
  make(store: Store): void;
  startJobs(): Promise<void>;
  startFollowing(): Promise<void>;
  /** No new work; what runs may finish. */
  drain(): Promise<void>;
  stopFollowing(): Promise<void>;
  stopJobs(): Promise<void>;
}

export function createWork(assembly: Assembly, parts: DaemonParts, fatal: (error: unknown) => void): DaemonWork {
  const { clock, log, random } = parts;
  const { core } = assembly.config;
  let jobs: JobRunner | null = null;
  let gauges: OutboxGauges | null = null;
  let runs: readonly ChainRun[] = [];

  /** Null when nobody wants the blocks of this chain: reading them would cost the upstream for nothing. */
  function followerOf(chain: AssembledChain, store: Store): Follower | null {
    const { id } = chain.setup;
    const processors = assembly.merged.processors.filter(({ chains }) => chains.includes(id));
    if (!core.follow.enabled || processors.length === 0) return null;
    const metrics = assembly.metrics.scope(id === 'main' ? 'follow' : `follow_${id}`);
    const follower = createFollower({
      ...{ chain: id, source: chain.source, store, processors, core, clock, random, metrics, log, fatal },
    });
    chain.follower.set(follower);
    return follower;
  }

  return {
    make(store) {
      const metrics = assembly.metrics.scope('jobs');
      const kinds = assembly.merged.jobs;
      jobs = createJobRunner({ store, clock, random, log, fatal, kinds, config: core.jobs, metrics });
      gauges = createOutboxGauges({ store, kinds: kinds.map(({ kind }) => kind), clock, log, metrics });
      assembly.outbox.set(jobs);
      runs = assembly.chains.map((chain) =>
        createChainRun({ chain, store, follower: followerOf(chain, store), clock, log, fatal }),
      );
    },
    async startJobs() {
      await jobs?.start();
      await gauges?.start();
    },
    async startFollowing() {
      await Promise.all(runs.map((run) => run.start()));
    },
    async drain() {
      await Promise.all([...runs.map((run) => run.drain()), jobs?.drain()]);
    },
    async stopFollowing() {
      await Promise.all(runs.map((run) => run.stop()));
    },
    async stopJobs() {
      gauges?.stop();
      const deadline = new AbortController();
      const cancel = clock.timeout(core.lifecycle.stopTimeoutMs, () =>
        deadline.abort(new Error('the stop deadline has passed')),
      );
      await jobs?.stop(deadline.signal);
      cancel();
    },
  };
}
