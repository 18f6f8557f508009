/** The test kit for plugins, `parhelion/test`: a daemon in this process that follows a local chain, which forks on command. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLog } from '../adapters/log.ts';
import { createDaemon } from '../daemon/daemon.ts';
import { rpcReplyOf, rpcRequest } from '../lib/json-rpc.ts';
import type { CliIo } from './command.ts';
import { chainSetups, composeParts } from './compose.ts';
import { loadCliConfig } from './load-config.ts';
import { readVersion } from './package-files.ts';

export interface TestDaemonOptions {
  /** Plugins as in the configuration: the path of an entry file, a package, or a built-in name. `access` is always loaded. */
  readonly plugins: readonly string[];
  /** Sections of the configuration, by name. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface TestChain {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** Produces `count` blocks (default 1); returns the slot of the newest. */
  seal(count?: number): Promise<number>;
  /** Skips `count` slots. */
  skip(count?: number): Promise<void>;
  /** Forks: replaces the newest `depth` blocks, and adds at least one. */
  fork(depth: number): Promise<void>;
  /** Transfers from the faucet in the next block; returns the signature. */
  fund(address: string, lamports: number | bigint): Promise<string>;
}

export interface TestDaemon {
  readonly apiUrl: string;
  readonly adminUrl: string;
  /** An API key of the only project. */
  readonly key: string;
  readonly chain: TestChain;
  /** Calls a route of the API with the key. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Calls a JSON-RPC method with the key. Rejects with the error object of the answer. */
  rpc<T = unknown>(method: string, params: unknown): Promise<T>;
  stop(): Promise<void>;
}

/** Starts a chain and a daemon on free ports, with a new store. Stop it at the end of the test. */
export async function startTestDaemon({ plugins, config = {} }: TestDaemonOptions): Promise<TestDaemon> {
  const { startLocalChain } = await import('../../packages/local-chain/index.ts');
  const chain = await startLocalChain({ time: { kind: 'virtual' }, lightAssets: false });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-test-'));
  const remove = async () => {
    await chain.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const key = `test-${randomUUID()}`;
    const file = join(dataDir, 'parhelion.yaml');
    // JSON is valid YAML.
    writeFileSync(file, JSON.stringify(configOf(dataDir, chain, plugins, config)));
    const loaded = await loadCliConfig({ config: file }, silentIo(dataDir));
    const log = createLog({ level: process.env['TEST_LOG'] ?? 'error', format: 'json' });
    const parts = composeParts(loaded.core, log, undefined, loaded.file);
    const daemon = await createDaemon({
      config: loaded,
      parts,
      dataDir,
      version: readVersion(),
      chains: chainSetups(loaded.core, null),
      firstProject: { key },
    });
    await daemon.start();
    const { api, admin } = daemon.addresses();
    return {
      ...clientOf(String(api), key),
      adminUrl: admin,
      key,
      chain: {
        rpcUrl: chain.rpcUrl,
        wsUrl: chain.wsUrl,
        seal: chain.seal,
        skip: chain.skip,
        fund: chain.fund,
        fork: async (depth) => void (await chain.fork({ depth })),
      },
      async stop() {
        await daemon.stop();
        await parts.bus.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

function configOf(
  dataDir: string,
  chain: { readonly rpcUrl: string; readonly wsUrl: string },
  plugins: readonly string[],
  sections: Readonly<Record<string, unknown>>,
) {
  return {
    dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    lifecycle: { drainTimeoutMs: 5_000 },
    follow: { pollMs: 50, startSlot: 'latest' },
    upstream: { urls: [{ url: chain.rpcUrl, websocketUrl: chain.wsUrl }] },
    ...sections,
    plugins: ['access', ...plugins.filter((plugin) => plugin !== 'access')],
  };
}

const silentIo = (cwd: string): CliIo => ({
  env: {},
  cwd,
  isTerminal: false,
  program: 'parhelion',
  out: () => {},
  err: () => {},
});

function clientOf(apiUrl: string, key: string): Pick<TestDaemon, 'apiUrl' | 'fetch' | 'rpc'> {
  return {
    apiUrl,
    fetch: (path, init = {}) =>
      // biome-ignore lint/style/noRestrictedGlobals: the daemon that this kit has started, for options of any kind
      fetch(new URL(path, apiUrl), { ...init, headers: { 'x-api-key': key, ...(init.headers as object) } }),
    async rpc<T>(method: string, params: unknown): Promise<T> {
      // biome-ignore lint/style/noRestrictedGlobals: the same
      const response = await fetch(apiUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': key },
        body: rpcRequest(method, params),
      });
      const reply = rpcReplyOf(await response.json());
      if (reply === null)
        throw new Error(`the answer to ${method} is not a JSON-RPC reply (status ${response.status})`);
      if ('error' in reply) throw Object.assign(new Error(reply.error.message), reply.error);
      return reply.result as T;
    },
  };
}

/** Polls until the result is not undefined, for at most 30 s. */
export async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  for (const endMs = performance.now() + 30_000; performance.now() < endMs; await sleep(20)) {
    const answer = await ask();
    if (answer !== undefined) return answer;
  }
  throw new Error(`not within 30 s: ${what}`);
}
