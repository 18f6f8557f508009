import { createOutboxGauges, type OutboxGauges } from '../jobs/metrics.ts';
import { createJobRunner, type JobRunner } from '../jobs/runner.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import type { AssembledChain, Assembly } from './assemble.ts';
import { type ChainRun, createChainRun } from './chains.ts';
import { type Companion, followerOf } from './followers.ts';
import { readLedgers } from './ledgers.ts';
import type { DaemonParts } from './parts.ts';
import { createRemoteRunner, TOPICS } from './remote.ts';

/** The background work of a daemon, depending on its roles: jobs and followers. */
export interface DaemonWork {
  /** Creates runner and followers on the open store, or proxies for those of other threads and processes. */
  make(store: Store, dataDir: string): void;
  startJobs(): Promise<void>;
  startFollowing(): Promise<void>;
  /** Stops accepting new work; running work may finish. */
  drain(): Promise<void>;
  stopFollowing(): Promise<void>;
  stopJobs(): Promise<void>;
}

export function createWork(assembly: Assembly, parts: DaemonParts, fatal: (error: unknown) => void): DaemonWork {
  const { clock, log, random, bus } = parts;
  const { roles } = assembly;
  const { core } = assembly.config;
  let jobs: JobRunner | null = null;
  let gauges: OutboxGauges | null = null;
  let runs: readonly ChainRun[] = [];
  const companions: Companion[] = [];

  function makeJobs(store: Store, dataDir: string): void {
    if (!roles.has('deliverer')) {
      assembly.outbox.set(createRemoteRunner({ bus, clock }));
      return;
    }
    const metrics = assembly.metrics.scope('jobs');
    const kinds = assembly.merged.jobs;
    const owner = parts.openOwner(dataDir);
    assembly.owner.set(owner);
    if (owner === null)
      log.warn(
        { dataDir },
        'cannot lock a file in the data folder: after a crash, claimed jobs wait until their lease ends',
      );
    const runner = createJobRunner({ store, owner, clock, random, log, fatal, kinds, config: core.jobs, metrics });
    jobs = runner;
    gauges = createOutboxGauges({ store, kinds: kinds.map(({ kind }) => kind), clock, log, metrics });
    assembly.outbox.set(runner);
    bus.subscribe(TOPICS.jobsDue, runner.wake);
  }

  function makeArchiveEngines(): void {
    for (const { setup } of assembly.chains) {
      const engine = parts.archiveEngine?.(setup.id, roles.has('indexer')) ?? null;
      if (engine !== null) assembly.archiveEngines.set(setup.id, engine);
    }
  }

  /** When one role finds that an upstream has changed its chain, the others check it at once. */
  function tellOtherChains({ setup, pool }: AssembledChain): Companion {
    const others = () => JSON.stringify(pool.states().map(({ otherChain }) => otherChain));
    let published = others();
    const off = [
      pool.onChange(() => {
        if (others() === published) return;
        published = others();
        bus.publish(TOPICS.otherChain, { chain: setup.id });
      }),
      bus.subscribe(TOPICS.otherChain, (message) => {
        if ((message as { readonly chain: ChainId }).chain === setup.id) void pool.identify();
      }),
    ];
    return {
      start: () => undefined,
      stop() {
        for (const end of off) end();
      },
    };
  }

  return {
    make(store, dataDir) {
      makeJobs(store, dataDir);
      readLedgers(assembly, parts);
      makeArchiveEngines();
      for (const chain of assembly.chains) companions.push(tellOtherChains(chain));
      const all = { assembly, parts, store, fatal, companions };
      runs = assembly.chains.map((chain) =>
        createChainRun({ chain, store, follower: followerOf(all, chain), clock, log, fatal }),
      );
    },
    async startJobs() {
      await jobs?.start();
      await gauges?.start();
    },
    async startFollowing() {
      await Promise.all(runs.map((run) => run.start()));
      for (const companion of companions) await companion.start();
    },
    async drain() {
      await Promise.all([...runs.map((run) => run.drain()), jobs?.drain()]);
    },
    async stopFollowing() {
      for (const companion of companions) await companion.stop();
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
