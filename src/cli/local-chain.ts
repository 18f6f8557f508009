import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CoreConfig } from '../config/core.ts';
import type { FirstStart } from '../daemon/daemon.ts';
import type { DaemonAddresses } from '../daemon/fronts.ts';
import { makeFolder } from '../runtime/make-folder.ts';
import { MEMO_V3_PROGRAM } from '../solana/programs.ts';
import { keepLocalChain, keptLocalChain, localStoreDir } from './store-dir.ts';

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
  /** Whether it is the chain of an earlier start. */
  readonly continues: boolean;
  /** Called with the reason when the chain ends unexpectedly. */
  onExit(listener: (reason: string) => void): void;
  /** Starts the demo scenario once it is being followed; no effect without the demo. */
  goLive(): void;
  stop(): Promise<void>;
}

/**
 * Starts the local chain of this data folder in a separate process: the one of the last start, unless the configuration has another seed or
 * consensus.
 */
export async function startConfiguredChain(core: CoreConfig, dataDir: string): Promise<LocalChain> {
  // Imported only here: a daemon with a real upstream never loads the chain's engine.
  const { genesisHashOf, startLocalChainProcess } = await import('../../packages/local-chain/index.ts');
  const { mode: _mode, ...options } = core.upstream.local;
  const last = keptLocalChain(dataDir);
  const isSame =
    last !== null && last.consensus === options.consensus && (options.seed === null || options.seed === last.seed);
  const seed = isSame ? last.seed : (options.seed ?? randomBytes(16).toString('hex'));
  const genesisHash = genesisHashOf(seed);
  const storeDir = localStoreDir(dataDir, genesisHash);
  const file = join(storeDir, CHAIN_FILE);
  removeOld(join(dataDir, 'local'), !isSame && last?.genesisHash === genesisHash ? genesisHash : null);
  makeFolder(storeDir);
  keepLocalChain(dataDir, { seed, genesisHash, consensus: options.consensus });
  const continues = existsSync(file);
  const chain = await startLocalChainProcess({ ...options, seed, file });
  return {
    rpcUrl: chain.rpcUrl,
    wsUrl: chain.wsUrl,
    socketPort: chain.socketPort,
    genesisHash: chain.genesisHash,
    engine: chain.engine,
    storeDir,
    continues,
    onExit: chain.onExit,
    goLive: chain.goLive,
    stop: chain.stop,
  };
}

const CHAIN_FILE = 'chain.log';

/** Deletes stores whose chains cannot be continued: those without a chain, and `replaced`, the one that starts again at its genesis. */
function removeOld(dir: string, replaced: string | null): void {
  if (!existsSync(dir)) return;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(dir, entry.name);
    if (entry.name === replaced || !existsSync(join(path, CHAIN_FILE))) rmSync(path, { recursive: true, force: true });
  }
}

const RULE = '='.repeat(62);

/** Shown first: states that this is not a public network. */
export function localChainBanner(
  chain: {
    readonly rpcUrl: string;
    readonly wsUrl: string;
    readonly socketPort: number | null;
    readonly engine: string;
    readonly continues: boolean;
    readonly storeDir: string;
  },
  program: string,
): string[] {
  return [
    RULE,
    ' LOCAL CHAIN  -  not a public Solana network',
    ` ${chain.continues ? 'The chain of your last start goes on' : 'A new chain runs'} (${chain.engine}), for trying out.`,
    ` Kept for the next start: ${dirname(chain.storeDir)} (delete it for a new one)`,
    ` RPC  ${chain.rpcUrl}     WS  ${chain.wsUrl}`,
    ...(chain.socketPort === null ? [] : [` It also uses port ${chain.socketPort}, for websockets only.`]),
    ` For a real network: SOLANA_RPC_URL=... ${program} serve`,
    ` All commands: ${program} --help`,
    RULE,
  ];
}

/** The address of the example webhook: on the local chain the demo wallet that pays every few seconds, elsewhere a quiet account. */
const WATCHED = {
  local: '4h25pvcyW2Peha1JHzkkgCK3FgqZEvUcN1XRcMA7A7Rv',
  rpc: MEMO_V3_PROGRAM,
};
const EXAMPLE_RECEIVER = 'http://127.0.0.1:9900/hook';

/** Addresses, key and operator token if this start created them, and commands that can be copied. */
export function welcome(
  { api, websocket, admin }: DaemonAddresses,
  { key: first, operatorToken }: FirstStart,
  {
    chain,
    program,
    hasDashboard,
  }: { readonly chain: 'local' | 'rpc'; readonly program: string; readonly hasDashboard: boolean },
): string[] {
  if (api === null) return ['', ` Admin      ${admin}  (/healthz, /readyz, /metrics)`, ''];
  const lines = [
    '',
    ` API        ${api}`,
    ...(websocket === null ? [] : [` WebSocket  ${websocket}`]),
    ` Admin      ${admin}  (/healthz, /readyz, /metrics${hasDashboard ? ', /dashboard' : ''})`,
    ` Docs       ${api}/docs`,
    ...(operatorToken === null || !hasDashboard
      ? []
      : [` Dashboard  ${admin}/dashboard`, ` Operator   ${operatorToken}   (shown only once)`]),
  ];
  if (first === null) {
    return [
      ...lines,
      ' API key    keys are shown only once; for a new one:',
      `            ${program} projects list     (or: projects create --name NAME)`,
      `            ${program} keys create --project ID`,
      '',
    ];
  }
  const hook = JSON.stringify({
    webhookURL: EXAMPLE_RECEIVER,
    webhookType: 'raw',
    accountAddresses: [WATCHED[chain]],
  });
  return [
    ...lines,
    ` Project    ${first.projectId}`,
    ` API key    ${first.key}   (shown only once)`,
    '',
    ' Try:',
    `curl ${api}/ping`,
    `curl '${api}/?api-key=${first.key}' -d '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'`,
    `curl '${api}/v0/webhooks?api-key=${first.key}' -d '${hook}'`,
    '',
  ];
}
