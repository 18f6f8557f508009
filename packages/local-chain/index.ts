import { type ChildProcess, fork } from 'node:child_process';
import { CodedError } from '../../src/lib/coded-error.ts';
import type { LocalChainOptions } from './chain.ts';
import type { DemoReport } from './demo.ts';
import type { ChainHooks, LocalChainHandle } from './in-process.ts';

export type { LocalChainOptions } from './chain.ts';
export type { ChainHooks, LocalChainHandle } from './in-process.ts';
export { genesisHashOf } from './ledger/genesis.ts';

/** Starts a chain in this process, listening on loopback. Throws LOCAL_ENGINE_MISSING without the native engine. */
export async function startLocalChain(options: LocalChainOptions = {}, hooks?: ChainHooks): Promise<LocalChainHandle> {
  // Imported only here: a daemon leaves the engine and its packages to the process of the chain.
  const { startChainWithInternals } = await import('./in-process.ts');
  return (await startChainWithInternals(options, hooks)).handle;
}

const START_LIMIT_MS = 60_000;
const KILL_AFTER_MS = 3_000;

export interface LocalChainProcess extends ChildReady {
  readonly pid: number;
  /** Called once when the process ends unexpectedly, with its exit code or signal as text. */
  onExit(listener: (reason: string) => void): void;
  /** Call it when the daemon is ready: a small payment every few seconds (demo only). */
  goLive(): void;
  /** SIGTERM, and SIGKILL after 3 s. Resolves when the process has ended. */
  stop(): Promise<void>;
}

/**
 * Starts the chain in a separate process and waits until it answers. Throws the error of the child (such as
 * LOCAL_ENGINE_MISSING, exit 78), or LOCAL_CHILD.
 */
export async function startLocalChainProcess(options: LocalChainProcessOptions = {}): Promise<LocalChainProcess> {
  const source = import.meta.url.endsWith('.ts');
  const entry = new URL(source ? './child.ts' : './child.js', import.meta.url);
  const child = fork(entry, {
    // A package of the chain's client uses a part of Node that goes away: its warning would be the first line that a newcomer reads.
    execArgv: source ? ['--no-deprecation', '--import', import.meta.resolve('tsx')] : ['--no-deprecation'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const listeners = new Set<(reason: string) => void>();
  let stopping = false;
  const gone = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  gone.then((reason) => {
    if (!stopping) for (const listener of listeners) listener(reason);
  });
  async function stop(): Promise<void> {
    stopping = true;
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
    await gone;
    clearTimeout(timer);
  }
  const goLive = (): void => {
    if (child.connected) child.send({ goLive: true });
  };
  child.send(options);
  try {
    const ready = await firstMessage(child, gone);
    return { ...ready, pid: child.pid!, onExit: (listener) => void listeners.add(listener), goLive, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function firstMessage(child: ChildProcess, gone: Promise<string>): Promise<ChildReady> {
  return new Promise((resolve, reject) => {
    const fail = (message: string, code = 'LOCAL_CHILD', exitCode = 75) =>
      reject(new CodedError(code, message, { exitCode }));
    const timer = setTimeout(() => fail(`the local chain was not ready within ${START_LIMIT_MS} ms`), START_LIMIT_MS);
    gone.then((reason) => fail(`the local chain ended during its start: ${reason}`));
    child.once('message', (message: ChildMessage) => {
      clearTimeout(timer);
      if ('ready' in message) resolve(message.ready);
      else fail(message.failed.message, message.failed.code, 78);
    });
  });
}

export interface LocalChainProcessOptions extends Omit<LocalChainOptions, 'warn'> {
  /** Run the demo scenario before the first connection (default false). */
  readonly demo?: boolean;
}

interface ChildReady {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  readonly socketPort: number | null;
  readonly genesisHash: string;
  /** Name and version of what runs the programs. */
  readonly engine: string;
  readonly hasLight: boolean;
  readonly demo: DemoReport | null;
}

export type ChildMessage =
  | { readonly ready: ChildReady }
  | { readonly failed: { readonly code: string; readonly message: string } };
