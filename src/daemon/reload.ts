import { isDeepStrictEqual } from 'node:util';
import type { CoreConfig } from '../config/core.ts';
import type { LoadedConfig } from '../config/load.ts';
import { mapTexts, type SchemaNode } from '../config/node.ts';
import { coreSections } from '../config/schema.ts';
import type { ReloadReport } from '../http/admin.ts';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import type { Clock } from '../ports/clock.ts';
import type { ConfigValues } from '../ports/processes.ts';
import type { Log } from '../ports/telemetry.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import type { Workers } from './workers.ts';

interface ReloaderOptions {
  /** The values in force. A reload assigns to them, so whoever reads a reloadable key later gets its new value. */
  readonly config: LoadedConfig;
  /** The roles in other threads. */
  readonly workers: Pick<Workers, 'takeConfig'>;
  readonly setLogLevel: (level: CoreConfig['log']['level']) => void;
  /** Reads the certificates and throws if one cannot be served; the returned function activates them, and the limits of the listeners. */
  readonly prepareListeners: (next: CoreConfig) => () => void;
  readonly metrics: MetricsRegistry;
  readonly clock: Clock;
  readonly log: Log;
}

/** Dotted names of the keys that differ between the file and what was in force. */
export interface Reloaded {
  /** In effect now. */
  readonly changed: readonly string[];
  /** In effect after a restart. */
  readonly restart: readonly string[];
}

/**
 * Takes over the keys of a new configuration that can change in a running daemon, and names the others. An invalid configuration is refused
 * as a whole, and so is one whose certificates cannot be served.
 */
export interface Reloader {
  /** For all threads. `load` reads and checks the new configuration; its errors count as a refusal. Calls queue. */
  reload(load: () => Promise<ConfigValues>): Promise<Reloaded>;
  /** Null: there was none. */
  last(): ReloadReport | null;
  /** Assigns all values, in this thread only. */
  take(next: ConfigValues): Promise<void>;
}

export function createReloader(options: ReloaderOptions): Reloader {
  const { config, workers, clock, log } = options;
  const scope = options.metrics.scope('config');
  const succeeded = scope.gauge('reload_success', '1 if the last reload was applied, 0 if it was refused');
  const at = scope.gauge('reload_timestamp_seconds', 'unix time of the last applied reload');
  const waiting = scope.gauge('restart_keys', 'changed keys of the last reload that need a restart');
  succeeded.set(1);
  at.set(clock.now() / 1_000);
  let last: ReloadReport | null = null;
  const report = (error: string | null, { changed, restart }: Reloaded): void => {
    last = { number: (last?.number ?? 0) + 1, at: clock.now(), error, changed, restart };
  };
  let queue: Promise<unknown> = Promise.resolve();

  async function take(next: ConfigValues): Promise<void> {
    assign(config.schema, config.values, next.values);
    options.setLogLevel(config.core.log.level);
    succeeded.set(1);
    at.set(clock.now() / 1_000);
  }

  /** Certificates are checked first, because they may be refused; the workers come before this thread, because one may not answer. */
  async function takeEverywhere(load: () => Promise<ConfigValues>): Promise<Reloaded> {
    try {
      const { values } = await load();
      const before = copyOf(config);
      const { next, changed, restart } = merge(config.schema, before.values, values);
      const serve = options.prepareListeners(next.core as CoreConfig);
      if (changed.length > 0) await workers.takeConfig(next, before);
      await take(next);
      serve();
      waiting.set(restart.length);
      log.info({ changed, restart }, 'configuration reloaded');
      if (restart.length > 0) log.warn({ keys: restart }, 'some changes need a restart');
      report(null, { changed, restart });
      return { changed, restart };
    } catch (error) {
      succeeded.set(0);
      report(messageOf(error), { changed: [], restart: [] });
      log.error(
        { code: codeOf(error), error: messageOf(error) },
        'configuration not reloaded; the old one stays in force',
      );
      throw error;
    }
  }
  return {
    last: () => last,
    take,
    reload(load) {
      const run = queue.then(() => takeEverywhere(load));
      queue = run.catch(() => undefined);
      return run;
    },
  };
}

/** Plain values, which can be sent to another thread. The sections of the kernel are those of all values. */
function copyOf({ schema, values }: Pick<LoadedConfig, 'schema' | 'values'>): ConfigValues {
  const copy = mapTexts(schema, values, (text) => text) as Record<string, unknown>;
  return { values: copy, core: coreOf(copy) };
}

const coreOf = (values: ConfigValues['values']): ConfigValues['core'] =>
  Object.fromEntries(coreSections.map((key) => [key, values[key]]));

/** The values before with all changes that a running daemon takes over. */
function merge(schema: SchemaNode, before: ConfigValues['values'], wanted: ConfigValues['values']) {
  const changed: string[] = [];
  const restart: string[] = [];
  const visit = (node: SchemaNode, old: unknown, given: unknown, path: readonly string[]): unknown => {
    if (isDeepStrictEqual(old, given)) return old;
    if (node.properties !== undefined && isPlainObject(old) && isPlainObject(given)) {
      const result: Record<string, unknown> = { ...old };
      const properties = node.properties;
      for (const key of new Set([...Object.keys(old), ...Object.keys(given)]))
        result[key] = visit(properties[key] ?? {}, old[key], given[key], [...path, key]);
      return result;
    }
    const isTaken = node.reloadable === 'set' ? isSet(old) && isSet(given) : node.reloadable === true;
    (isTaken ? changed : restart).push(path.join('.'));
    return isTaken ? structuredClone(given) : old;
  };
  const values = visit(schema, before, wanted, []) as Record<string, unknown>;
  return { next: { values, core: coreOf(values) }, changed, restart };
}

const isSet = (value: unknown): boolean => value !== null && !(Array.isArray(value) && value.length === 0);

/** Assigns to the objects that the parts of the daemon hold. Values that have not changed stay the same objects. */
function assign(schema: SchemaNode, target: ConfigValues['values'], source: ConfigValues['values']): void {
  for (const [key, value] of Object.entries(source)) {
    const held = target[key];
    if (isDeepStrictEqual(held, value)) continue;
    const node = schema.properties?.[key];
    if (node?.properties !== undefined && isPlainObject(held) && isPlainObject(value)) assign(node, held, value);
    else Object.assign(target, { [key]: value });
  }
}
