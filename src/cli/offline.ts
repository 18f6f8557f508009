import { existsSync } from 'node:fs';
import { openTellingBus } from '../adapters/bus/index.ts';
import { createSystemRandom } from '../adapters/clock.ts';
import { createLog } from '../adapters/log.ts';
import type { LoadedConfig } from '../config/load.ts';
import { type Assembly, assemble } from '../daemon/assemble.ts';
import { migrationScopes } from '../daemon/migrations.ts';
import type { FoundPlugin } from '../daemon/registry.ts';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { Bus } from '../ports/processes.ts';
import type { Store } from '../ports/store.ts';
import type { UpstreamConfig } from '../ports/upstream.ts';
import { openStore, sqliteFile } from '../store/index.ts';
import { appliedSteps, ensureSchema } from '../store/migrate.ts';
import { chainSetups, composeParts } from './compose.ts';
import { readVersion } from './package-files.ts';
import { findRunFile } from './running-daemon.ts';

/** Stands for the local chain when none is running. Nothing listens there. */
const NO_CHAIN = { url: 'http://127.0.0.1:9' };

/** An assembly that is not started, and the bus of its plugins; closing the bus flushes its messages. */
export interface OfflineAssembly extends Assembly {
  readonly bus: Bus;
}

/** Assembles a daemon without opening anything. Logs nothing. */
export async function assembleOffline(config: LoadedConfig<FoundPlugin>): Promise<OfflineAssembly> {
  const { upstream, dataDir } = config.core;
  const local = upstream.urls.length === 0 ? (findLocalChain(dataDir) ?? NO_CHAIN) : null;
  const log = createLog({ level: 'silent', format: 'json' });
  const bus = openTellingBus({ storeUrl: config.core.store.url, random: createSystemRandom(), log });
  const parts = { ...composeParts(config.core, log), bus };
  const chains = chainSetups(config.core, local);
  const assembly = await assemble({ config, parts, chains, version: readVersion(), stockMetrics: 'none' });
  return { ...assembly, bus };
}

/** Where the local chain of the running daemon listens. A data folder that cannot be read is reported by who needs the store. */
function findLocalChain(dataDir: string): UpstreamConfig | null {
  try {
    return findRunFile(dataDir)?.localChain ?? null;
  } catch {
    return null;
  }
}

/**
 * Opens the store for a command that works on it. It makes no database and changes no schema: in the wrong place nobody would notice, and a
 * running daemon of another version would have to end. Errors: STORE_MISSING, STORE_MIGRATION, exit 78, and those of the store.
 */
export async function openExistingStore(
  { core, plugins, file: configFile }: LoadedConfig<FoundPlugin>,
  assembly: Pick<Assembly, 'store'>,
  dir: string,
): Promise<Store> {
  const from = configFile === null ? 'without a configuration file' : `by ${configFile}`;
  const missing = (what: string) =>
    new CodedError('STORE_MISSING', `${what} (${from}): serve and migrate create it`, { exitCode: EXIT.config });
  const file = sqliteFile(core.store.url, dir);
  if (file !== null && !existsSync(file)) throw missing(`there is no database ${file}`);
  const store = await openStore(core.store, dir);
  try {
    if ((await appliedSteps(store)).length === 0)
      throw missing('the database of store.url has no tables of this program');
    await ensureSchema(store, await migrationScopes(plugins.filter(({ enabled }) => enabled)), 'manual');
  } catch (error) {
    await store.close();
    throw error;
  }
  assembly.store.set(store);
  return store;
}
