import { join } from 'node:path';
import type { LoadedConfig } from '../config/load.ts';
import { CodedError } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';
import { chooseUpstream } from './load-config.ts';
import { findRunFile } from './running-daemon.ts';

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

/** Like `findStoreDir`, for commands that need a store. Errors: DAEMON_NOT_RUNNING, exit 75. */
export function needStoreDir(config: LoadedConfig, dataDir: string): string {
  const dir = findStoreDir(config, dataDir);
  if (dir !== null) return dir;
  const why = `no local chain runs with the data folder ${dataDir}, and its store exists only while it runs`;
  throw new CodedError('DAEMON_NOT_RUNNING', `${why}; for another store give --config or SOLANA_RPC_URL`, {
    exitCode: EXIT.temporary,
  });
}
