import type { Health } from '../../http/health.ts';
import type { CrewDuties } from '../../ports/crew.ts';
import type { MetricsRegistry } from '../../runtime/metrics.ts';
import type { Reloader } from '../plugins/reload.ts';

export interface DutiesOptions {
  readonly daemon: { start(): Promise<void>; stop(): Promise<void> };
  readonly drain: () => Promise<void>;
  readonly health: Pick<Health, 'checks'>;
  readonly metrics: Pick<MetricsRegistry, 'families'>;
  readonly reloader: Pick<Reloader, 'check' | 'take'>;
}

/** What a daemon that is a member of a crew does for the main thread. */
export function createDuties({ daemon, drain, health, metrics, reloader }: DutiesOptions): CrewDuties {
  return {
    start: daemon.start,
    async ping() {},
    checks: () => health.checks(),
    metrics: () => metrics.families(),
    async checkConfig(next) {
      reloader.check(next);
    },
    takeConfig: (next) => reloader.take(next),
    drain,
    stop: daemon.stop,
  };
}
