import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LoadedConfig } from '../config/load.ts';
import { CodedError, codeOf, EXIT } from '../lib/coded-error.ts';
import { chooseUpstream } from './load-config.ts';
import { findRunFile } from './running-daemon.ts';

/** Folder of the store of a local chain; each chain has its own. */
export function localStoreDir(dataDir: string, genesisHash: string): string {
  return join(dataDir, 'local', genesisHash);
}

/** What is kept of the local chain of a data folder, beside the folder that belongs to it alone. */
export interface KeptLocalChain {
  readonly seed: string;
  readonly genesisHash: string;
  readonly consensus: string;
}

const localFile = (dataDir: string): string => join(dataDir, 'local', 'chain.json');

/** The local chain that ran last with this data folder; null: none has. */
export function keptLocalChain(dataDir: string): KeptLocalChain | null {
  try {
    return JSON.parse(readFileSync(localFile(dataDir), 'utf8')) as KeptLocalChain;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return null;
    throw error;
  }
}

export function keepLocalChain(dataDir: string, chain: KeptLocalChain): void {
  const path = localFile(dataDir);
  writeFileSync(`${path}.new`, `${JSON.stringify(chain, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/**
 * Folder of the store of this configuration; null if it is that of a local chain and none has run yet. A configuration without an
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
  const kept = keptLocalChain(dataDir);
  return findRunFile(dataDir)?.storeDir ?? (kept === null ? null : localStoreDir(dataDir, kept.genesisHash));
}

/** Like `findStoreDir`, for commands that need a store. Errors: DAEMON_NOT_RUNNING, exit 75. */
export function needStoreDir(config: LoadedConfig, dataDir: string): string {
  const dir = findStoreDir(config, dataDir);
  if (dir !== null) return dir;
  const why = `no local chain has run with the data folder ${dataDir}, so it has no store yet`;
  throw new CodedError('DAEMON_NOT_RUNNING', `${why}; for another store give --config or SOLANA_RPC_URL`, {
    exitCode: EXIT.temporary,
  });
}
