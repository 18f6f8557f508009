import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CoreConfig } from '../config/core.ts';
import type { FirstStart } from '../daemon/daemon.ts';
import type { DaemonAddresses } from '../daemon/fronts.ts';
import { rpcRequest } from '../lib/json-rpc.ts';
import { MEMO_V3_PROGRAM } from '../solana/programs.ts';
import { localStoreDir } from './store-dir.ts';

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
    body: rpcRequest('local_info'),
    signal: AbortSignal.timeout(INFO_TIMEOUT_MS),
  });
  const answer = (await response.json()) as { result?: { engine?: string } };
  return answer.result?.engine ?? 'in-process engine';
}

const RULE = '='.repeat(62);

/** Shown first: states that this is not a public network. */
export function localChainBanner(
  chain: {
    readonly rpcUrl: string;
    readonly wsUrl: string;
    readonly socketPort: number | null;
    readonly engine: string;
  },
  program: string,
): string[] {
  return [
    RULE,
    ' LOCAL CHAIN  -  not a public Solana network',
    ` A temporary chain runs in memory (${chain.engine}).`,
    ' Data and keys are for trying out.',
    ` RPC  ${chain.rpcUrl}     WS  ${chain.wsUrl}`,
    ...(chain.socketPort === null ? [] : [` It also uses port ${chain.socketPort}, for websockets only.`]),
    ` For a real network: SOLANA_RPC_URL=... ${program} serve`,
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
  { chain, program }: { readonly chain: 'local' | 'rpc'; readonly program: string },
): string[] {
  if (api === null) return ['', ` Admin      ${admin}  (/healthz, /readyz, /metrics)`, ''];
  const lines = [
    '',
    ` API        ${api}`,
    ...(websocket === null ? [] : [` WebSocket  ${websocket}`]),
    ` Admin      ${admin}  (/healthz, /readyz, /metrics, /dashboard)`,
    ` Docs       ${api}/docs`,
    ...(operatorToken === null
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
