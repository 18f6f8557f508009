import { join } from 'node:path';
import { openTellingBus } from '../adapters/bus/index.ts';
import { createLog } from '../adapters/log.ts';
import { createSystemRandom } from '../adapters/random.ts';
import type { LoadedConfig } from '../config/load.ts';
import { type Assembly, assemble } from '../daemon/assemble.ts';
import { migrationScopes } from '../daemon/migrations.ts';
import type { FoundPlugin } from '../daemon/registry.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { Bus } from '../ports/bus.ts';
import type { Store } from '../ports/store.ts';
import { EXIT } from '../runtime/errors.ts';
import { openStore } from '../store/index.ts';
import { ensureSchema } from '../store/migrate.ts';
import { chainSetups } from './chain-setups.ts';
import { composeParts } from './compose.ts';
import { chooseUpstream } from './load-config.ts';
import { findRunFile } from './run-file.ts';
import { readVersion } from './version.ts';

/** Placeholder for the address of the local chain when none is running. It is never used for a connection. */
const NO_CHAIN = { url: 'http://127.0.0.1:8899' };

/** An assembly that is not started, and the bus of its plugins; closing the bus flushes its messages. */
export interface OfflineAssembly extends Assembly {
  readonly bus: Bus;
}

/** Assembles a daemon without opening anything. Logs nothing. */
export async function assembleOffline(config: LoadedConfig<FoundPlugin>): Promise<OfflineAssembly> {
  const local = config.core.upstream.urls.length === 0 ? NO_CHAIN : null;
  const log = createLog({ level: 'silent', format: 'json' });
  const bus = openTellingBus({ storeUrl: config.core.store.url, random: createSystemRandom(), log });
  const parts = { ...composeParts(config.core, log), bus };
  const assembly = await assemble({ config, parts, chains: chainSetups(config.core, local), version: readVersion() });
  return { ...assembly, bus };
}

/** Folder of the store of a local chain; each chain has its own. */
export function localStoreDir(dataDir: string, genesisHash: string): string {
  return join(dataDir, 'local', genesisHash);
}

/**
 * Folder of the store of this configuration; null if it is that of a local chain and no daemon is running. A configuration without an
 * upstream still has a store, for example to create keys.
 */
export function findStoreDir(config: LoadedConfig, dataDir: string): string | null {
  let choice: 'upstream' | 'local' = 'upstream';
  try {
    choice = chooseUpstream(config);
  } catch {
    return dataDir;
  }
  if (choice === 'upstream') return dataDir;
  return findRunFile(dataDir)?.storeDir ?? null;
}

/** The same for commands that need a store. Errors: STORE_UNREACHABLE, exit 75. */
export function needStoreDir(config: LoadedConfig, dataDir: string): string {
  const dir = findStoreDir(config, dataDir);
  if (dir !== null) return dir;
  const why = 'no local chain is running, and its store exists only while it runs';
  throw new CodedError('STORE_UNREACHABLE', `${why}; for another one give --config or SOLANA_RPC_URL`, {
    exitCode: EXIT.temporary,
  });
}

/** Opens the store for a command and migrates its schema, unless the configuration leaves that to `migrate`. */
export async function openMigratedStore(assembly: Assembly, dir: string): Promise<Store> {
  const { core } = assembly.config;
  const store = await openStore(core.store, dir);
  try {
    await ensureSchema(store, migrationScopes(assembly.plugins), core.store.migrate);
  } catch (error) {
    await store.close();
    throw error;
  }
  assembly.store.set(store);
  return store;
}
