import { randomUUID } from 'node:crypto';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createSystemClock } from '../adapters/clock.ts';
import type { RootLog } from '../adapters/log.ts';
import { createWriteLock, forgetLockMember, makeLockMemory } from '../adapters/store/write-lock.ts';
import { hireMember } from '../adapters/workers/hire.ts';
import type { ChainSetup } from '../kernel/assembly/parts.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import { type FoundPlugin, hasDuty } from '../kernel/plugins/registry.ts';
import type { CrewMember } from '../ports/crew.ts';
import type { Role } from '../ports/role.ts';
import type { SharedParts } from './compose.ts';
import type { RoleData } from './role-data.ts';

export interface CrewPlan {
  readonly roles: readonly Role[];
  readonly config: LoadedConfig<FoundPlugin>;
  readonly chains: readonly ChainSetup[];
  /** Folder of the store. */
  readonly dataDir: string;
  readonly cwd: string;
  readonly version: string;
  readonly log: RootLog;
}

export interface HiredCrew {
  readonly members: readonly CrewMember[];
  /** For the main thread. */
  readonly shared: SharedParts;
  /** Ends those that still run. */
  end(): Promise<void>;
}

/** The main thread's place in the lock; the others follow it. */
const MAIN = 0;

/** Starts a thread per role; they load while the main thread does. The database's lock is theirs in common. */
export function hireCrew({ roles, config, log, ...rest }: CrewPlan): HiredCrew {
  const channel = roles.length === 0 ? null : `parhelion-${process.pid}-${randomUUID()}`;
  const memory = roles.length === 0 ? null : makeLockMemory(1 + roles.length);
  const clock = createSystemClock();
  const { file, core, values, productionEnv } = config;
  const members = roles.map((role, index) => {
    const place = MAIN + 1 + index;
    const data: RoleData = {
      ...{ role, ...rest, channel, lock: memory === null ? null : { memory, place } },
      config: { file, core, values, productionEnv },
      leaveOut: config.plugins
        .filter((plugin) => !plugin.enabled || !hasDuty(plugin, new Set([role])))
        .map(({ use }) => use),
    };
    return hireMember({
      ...{ role, data, clock, entry },
      writeLog: (lines) => log.writeLines(lines),
      gone: () => {
        if (memory !== null) forgetLockMember(memory, place);
      },
    });
  });
  return {
    members,
    shared: { channel, isConnected: true, lock: memory === null ? null : createWriteLock(memory, MAIN) },
    async end() {
      await Promise.all(members.map((member) => member.end()));
    },
  };
}

const entry = new URL(`./role-thread${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
