import { randomUUID } from 'node:crypto';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createSystemClock } from '../adapters/clock.ts';
import type { RootLog } from '../adapters/log.ts';
import { createApiHub } from '../adapters/workers/api-process.ts';
import { startApiProcess, startWorker } from '../adapters/workers/start-worker.ts';
import type { LoadedConfig } from '../config/load.ts';
import { type FoundPlugin, runsIn } from '../daemon/registry.ts';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import { ROLES, type Role } from '../ports/daemon-view.ts';
import type { ApiProcess, WorkerHandle } from '../ports/processes.ts';
import type { UpstreamConfig } from '../ports/upstream.ts';
import { createWriteLock, forgetLockMember, type LockMemory, makeLockMemory } from '../store/write-lock.ts';
import type { CliIo, CommandValues } from './command.ts';
import type { SharedParts } from './compose.ts';

interface WorkersPlan {
  readonly roles: readonly Role[];
  /** Processes of the API besides this one. */
  readonly furtherProcesses: number;
  readonly config: LoadedConfig<FoundPlugin>;
  /** The local chain; null: none. */
  readonly local: UpstreamConfig | null;
  /** Folder of the store. */
  readonly dataDir: string;
  readonly cwd: string;
  readonly version: string;
  readonly log: RootLog;
}

interface StartedWorkers {
  readonly threads: readonly WorkerHandle[];
  readonly apiProcesses: readonly ApiProcess[];
  /** Parts for the main thread. */
  readonly shared: SharedParts;
  /** Terminates the workers that still run. */
  end(): Promise<void>;
}

/** Index of the main thread in the lock; the workers follow. */
const MAIN = 0;

/**
 * Starts a thread per role, and the further processes of the API; they load in parallel with the main thread. The threads share the lock of
 * the database; a process queues at its file.
 */
export function startWorkers({ roles, furtherProcesses, config, log, ...rest }: WorkersPlan): StartedWorkers {
  const channel = roles.length === 0 ? null : `parhelion-${process.pid}-${randomUUID()}`;
  const memory = roles.length === 0 ? null : makeLockMemory(1 + roles.length);
  const clock = createSystemClock();
  const { file, core, values, productionEnv } = config;
  const dataOf = (role: Role, name: string): RoleData => ({
    role,
    name,
    ...rest,
    channel: null,
    lock: null,
    processes: 1,
    config: { file, core, values, productionEnv },
    leaveOut: config.plugins
      .filter((plugin) => !plugin.enabled || !runsIn(plugin, new Set([role])))
      .map(({ use }) => use),
  });
  const writeLog = (lines: string) => log.writeLines(lines);
  const threads = roles.map((role, index) => {
    const place = MAIN + 1 + index;
    return startWorker({
      name: role,
      role,
      clock,
      entry,
      writeLog,
      data: { ...dataOf(role, role), channel, lock: memory === null ? null : { memory, place } },
      gone: () => {
        if (memory !== null) forgetLockMember(memory, place);
      },
    });
  });
  const count = 1 + furtherProcesses;
  const hub = count === 1 ? null : createApiHub(count, 'api');
  const apiProcesses: ApiProcess[] = [];
  for (let number = 2; hub !== null && number <= count; number += 1) {
    const name = `api-${number}`;
    // Read at each start: a reload changes the values in place.
    const data = () => ({ ...dataOf('api', name), processes: count });
    apiProcesses.push(startApiProcess({ name, role: 'api', clock, entry, writeLog, data, hub }));
  }
  return {
    threads,
    apiProcesses,
    shared: {
      channel,
      isConnected: true,
      lock: memory === null ? null : createWriteLock(memory, MAIN),
      peers: hub?.peers ?? null,
    },
    async end() {
      await Promise.all([...threads, ...apiProcesses].map((worker) => worker.end()));
    },
  };
}

const entry = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);

/** Input of a worker. The configuration is the one that the main thread has read; the file may have changed since. */
export interface RoleData {
  readonly role: Role;
  /** Unique among the threads and processes of the daemon. */
  readonly name: string;
  readonly config: Pick<LoadedConfig, 'file' | 'core' | 'values' | 'productionEnv'>;
  /** Plugins that the worker does not need, by their configured names. */
  readonly leaveOut: readonly string[];
  readonly local: UpstreamConfig | null;
  /** Folder of the store. */
  readonly dataDir: string;
  /** Working directory: base of relative paths without a configuration file. */
  readonly cwd: string;
  readonly version: string;
  /** Name of the channel between the threads. */
  readonly channel: string | null;
  /** Processes that serve the API, if this is one of them. */
  readonly processes: number;
  /** Lock of the embedded database. */
  readonly lock: { readonly memory: LockMemory; readonly place: number } | null;
}

/** The roles of a command line: `--role`, else PARHELION_ROLE, else all. Errors: CONFIG_INVALID, exit 64. */
export function chooseRoles(values: CommandValues, io: CliIo): readonly Role[] {
  const flag = values['role'];
  const text = typeof flag === 'string' ? flag : (io.env['PARHELION_ROLE'] ?? '');
  if (typeof flag !== 'string' && text.trim() === '') return ROLES;
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => !ROLES.some((role) => role === name));
  if (unknown.length > 0) {
    const origin = typeof flag === 'string' ? '--role' : 'PARHELION_ROLE';
    throw new CodedError(
      'CONFIG_INVALID',
      `${origin}: "${unknown[0]}" is not a role; the roles are ${ROLES.join(', ')}`,
      {
        exitCode: EXIT.usage,
      },
    );
  }
  return ROLES.filter((role) => names.includes(role));
}

/**
 * Assigns roles to the main thread and to workers: `api` never shares a thread with another role. Only a try, on a local chain without a configuration, has
 * one thread: there is little to index, and each thread takes as long to load as the first one. With a configuration the threads are those of production, so that who
 * writes a plugin tries it in them.
 */
export function splitRoles(
  roles: readonly Role[],
  isTry: boolean,
): {
  readonly main: readonly Role[];
  readonly threads: readonly Role[];
} {
  if (roles.length === 1 || isTry) return { main: roles, threads: [] };
  return { main: roles.filter((role) => role === 'api'), threads: roles.filter((role) => role !== 'api') };
}
