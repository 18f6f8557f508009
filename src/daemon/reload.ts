import { isDeepStrictEqual } from 'node:util';
import { type CoreConfig, TLS_SECTIONS } from '../config/core.ts';
import type { LoadedConfig } from '../config/load.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { ConfigValues } from '../ports/workers.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { Workers } from './workers.ts';

/** Kernel keys that can change without a restart. */
const LIVE_KEYS: readonly string[] = [
  'log.level',
  ...TLS_SECTIONS.flatMap((section) => [`${section}.tls.certFile`, `${section}.tls.keyFile`]),
];

interface ReloaderOptions {
  readonly config: LoadedConfig;
  readonly lifecycle: Lifecycle;
  /** The roles in other threads. */
  readonly workers: Pick<Workers, 'checkConfig' | 'takeConfig'>;
  readonly setLogLevel: (level: CoreConfig['log']['level']) => void;
  /** Reads the certificates and throws if one cannot be served; the returned function activates them. */
  readonly prepareTls: (next: CoreConfig) => () => void;
  readonly metrics: MetricsRegistry;
  readonly clock: Clock;
  readonly log: Log;
}

/** Applies a new configuration as a whole, or refuses it and keeps the old one in force. */
export interface Reloader {
  /** For all threads. `load` reads and checks the new configuration; its errors count as a refusal. Calls queue. */
  reload(load: () => Promise<ConfigValues>): Promise<void>;
  /** Checks whether this thread could apply it; changes nothing. Errors: PLUGIN_RELOAD_REFUSED. */
  check(next: ConfigValues): void;
  /** Applies it in this thread only. Errors: PLUGIN_RELOAD_REFUSED. */
  take(next: ConfigValues): Promise<void>;
}

export function createReloader(options: ReloaderOptions): Reloader {
  const { lifecycle, workers, clock, log } = options;
  const scope = options.metrics.scope('config');
  const succeeded = scope.gauge('reload_success', '1 if the last reload was applied, 0 if it was refused');
  const at = scope.gauge('reload_timestamp_seconds', 'unix time of the last applied reload');
  succeeded.set(1);
  at.set(clock.now() / 1_000);
  let current: ConfigValues = pick(options.config);
  let queue: Promise<void> = Promise.resolve();

  function check(next: ConfigValues): void {
    const kernelKeys = changedKeys(current.core, next.core).filter((key) => !LIVE_KEYS.includes(key));
    const pluginKeys = fixedSections(next).flatMap((id) => changedKeys(current.values[id], next.values[id], id));
    const fixed = [...kernelKeys, ...pluginKeys];
    if (fixed.length === 0) return;
    throw new CodedError('PLUGIN_RELOAD_REFUSED', `changes of these keys need a restart: ${fixed.join(', ')}`, {
      facts: { keys: fixed },
    });
  }

  /** Ids of the plugins that cannot change their section while they run. */
  function fixedSections(next: ConfigValues): readonly string[] {
    try {
      lifecycle.checkReload(next.values);
      return [];
    } catch (error) {
      const plugins = error instanceof CodedError ? error.facts['plugins'] : undefined;
      if (!Array.isArray(plugins)) throw error;
      return plugins.map(String);
    }
  }

  async function take(next: ConfigValues): Promise<void> {
    check(next);
    await lifecycle.reload(next.values);
    options.setLogLevel((next.core as CoreConfig).log.level);
    current = next;
    succeeded.set(1);
    at.set(clock.now() / 1_000);
  }

  /** First all threads check the configuration, then all apply it; if one still refuses, it is reverted everywhere. */
  async function takeEverywhere(load: () => Promise<ConfigValues>): Promise<void> {
    try {
      const next = pick(await load());
      const before = current;
      check(next);
      const serveCertificates = options.prepareTls(next.core as CoreConfig);
      await workers.checkConfig(next);
      await workers.takeConfig(next, before);
      try {
        await take(next);
      } catch (error) {
        await workers.takeConfig(before, next).catch((failure: unknown) => {
          log.error({ error: messageOf(failure) }, 'a role did not restore its old configuration');
        });
        throw error;
      }
      serveCertificates();
      log.info({}, 'configuration reloaded');
    } catch (error) {
      succeeded.set(0);
      log.error(
        { code: codeOf(error), error: messageOf(error) },
        'configuration not reloaded; the old one stays in force',
      );
      throw error;
    }
  }
  return {
    check,
    take,
    reload(load) {
      const run = queue.then(() => takeEverywhere(load));
      queue = run.catch(() => undefined);
      return run;
    },
  };
}

/** Omits schemas and plugins: they do not change, and cannot be sent to another thread. */
const pick = ({ core, values }: ConfigValues): ConfigValues => ({ core, values });

/** Dotted paths of the keys that differ between two configurations. */
function changedKeys(before: unknown, after: unknown, path = ''): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isPlainObject(before) || !isPlainObject(after)) return [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => changedKeys(before[key], after[key], path === '' ? key : `${path}.${key}`));
}
