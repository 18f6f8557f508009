import type { Store } from '../ports/store.ts';
import type { Assembly } from './assemble.ts';
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
  const { clock, log } = parts;
  let runs: readonly ChainRun[] = [];
  return {
    make(store) {
      runs = assembly.chains.map((chain) => createChainRun({ chain, store, follower: null, clock, log, fatal }));
    },
    async startJobs() {},
    async startFollowing() {
      await Promise.all(runs.map((run) => run.start()));
    },
    async drain() {
      await Promise.all(runs.map((run) => run.drain()));
    },
    async stopFollowing() {
      await Promise.all(runs.map((run) => run.stop()));
    },
    async stopJobs() {},
  };
}
