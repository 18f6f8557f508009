import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CoreConfig } from '../config/core.ts';
import { localStoreDir } from './offline.ts';

const INFO_TIMEOUT_MS = 5_000;

/** The local chain of this run. */
export interface LocalChain {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** The second port, for websockets only, if open. */
  readonly socketPort: number | null;
  readonly genesisHash: string;
  /** `litesvm 1.5.0`. */
  readonly engine: string;
  /** Folder of the store, which belongs only to this chain. */
  readonly storeDir: string;
  /** Called with the reason when the chain ends unexpectedly. */
  onExit(listener: (reason: string) => void): void;
  /** Starts the demo scenario once it is being followed; no effect without the demo. */
  goLive(): void;
  stop(): Promise<void>;
}

/** Starts the local chain in a separate process and deletes the stores of earlier ones. */
export async function startLocalChain(core: CoreConfig, dataDir: string): Promise<LocalChain> {
  // Imported only here: a daemon with a real upstream never loads the chain's engine.
  const { startLocalChainProcess } = await import('../local-chain/index.ts');
  const { mode: _mode, ...options } = core.upstream.local;
  const chain = await startLocalChainProcess(options);
  const storeDir = localStoreDir(dataDir, chain.genesisHash);
  removeOthers(join(dataDir, 'local'), chain.genesisHash);
  return {
    rpcUrl: chain.rpcUrl,
    wsUrl: chain.wsUrl,
    socketPort: chain.socketPort,
    genesisHash: chain.genesisHash,
    engine: await askEngine(chain.rpcUrl),
    storeDir,
    onExit: chain.onExit,
    goLive: chain.goLive,
    stop: chain.stop,
  };
}

/** Deletes stores whose chains ended with their processes. */
function removeOthers(dir: string, genesisHash: string): void {
  if (!existsSync(dir)) return;
  for (const name of readdirSync(dir)) {
    if (name !== genesisHash) rmSync(join(dir, name), { recursive: true, force: true });
  }
}

async function askEngine(rpcUrl: string): Promise<string> {
  const response = await fetch(rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"local_info"}',
    signal: AbortSignal.timeout(INFO_TIMEOUT_MS),
  });
  const answer = (await response.json()) as { result?: { engine?: string } };
  return answer.result?.engine ?? 'in-process engine';
}
