import type { LockMemory } from '../adapters/store/write-lock.ts';
import type { ChainSetup } from '../kernel/assembly/parts.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import type { Role } from '../ports/role.ts';

/** What a thread of one role is given. The configuration is the one that the main thread has read, not what the file says by now. */
export interface RoleData {
  readonly role: Role;
  readonly config: Pick<LoadedConfig, 'file' | 'core' | 'values' | 'productionEnv'>;
  /** Plugins that have nothing to do there, as the configuration names them. */
  readonly leaveOut: readonly string[];
  readonly chains: readonly ChainSetup[];
  /** Folder of the store. */
  readonly dataDir: string;
  /** Working directory: where packages of plugins are looked for. */
  readonly cwd: string;
  readonly version: string;
  /** Name of the way between the threads. */
  readonly channel: string | null;
  /** Of the embedded database. */
  readonly lock: { readonly memory: LockMemory; readonly place: number } | null;
}
