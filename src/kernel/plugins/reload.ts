import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { CoreConfig } from '../config/core.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { MetricsRegistry } from '../metrics.ts';
import { changedKeys } from './changed-keys.ts';
import type { Lifecycle } from './lifecycle.ts';

/** Keys of the kernel that a running daemon can change. */
const LIVE_KEYS: readonly string[] = ['log.level'];

export interface ReloaderOptions {
  readonly config: LoadedConfig;
  readonly lifecycle: Lifecycle;
  readonly setLogLevel: (level: CoreConfig['log']['level']) => void;
  readonly metrics: MetricsRegistry;
  readonly clock: Clock;
  readonly log: Log;
}

/** Takes a new configuration, or refuses it as a whole and leaves the old one in force. */
export interface Reloader {
  /** `load` reads and checks the new configuration; its errors count as a refusal. Calls queue. */
  reload(load: () => Promise<LoadedConfig>): Promise<void>;
}

export function createReloader(options: ReloaderOptions): Reloader {
  const { lifecycle, clock, log } = options;
  const scope = options.metrics.scope('config');
  const succeeded = scope.gauge('reload_success', '1 when the last reload was taken, 0 when it was refused');
  const at = scope.gauge('reload_timestamp_seconds', 'unix time of the last reload that was taken');
  succeeded.set(1);
  at.set(clock.now() / 1_000);
  let current = options.config;
  let queue: Promise<void> = Promise.resolve();

  async function take(load: () => Promise<LoadedConfig>): Promise<void> {
    try {
      const next = await load();
      const fixed = changedKeys(current.core, next.core).filter((key) => !LIVE_KEYS.includes(key));
      if (fixed.length > 0) {
        throw new CodedError('PLUGIN_RELOAD_REFUSED', `changes of these keys need a restart: ${fixed.join(', ')}`, {
          facts: { keys: fixed },
        });
      }
      await lifecycle.reload(next.values);
      options.setLogLevel(next.core.log.level);
      current = next;
      succeeded.set(1);
      at.set(clock.now() / 1_000);
      log.info({}, 'configuration reloaded');
    } catch (error) {
      succeeded.set(0);
      log.error({ code: codeOf(error), error: messageOf(error) }, 'configuration not reloaded; the old one stays');
      throw error;
    }
  }
  return {
    reload(load) {
      const run = queue.then(() => take(load));
      queue = run.catch(() => undefined);
      return run;
    },
  };
}
