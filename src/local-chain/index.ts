import type { LocalChainOptions } from './chain.ts';
import { type ChainHooks, type LocalChainHandle, startChainWithInternals } from './in-process.ts';

export type { LocalChainOptions } from './chain.ts';
export { type LocalChainProcess, startLocalChainProcess } from './host.ts';
export type { ChainHooks, LocalChainHandle } from './in-process.ts';

/** Starts a chain in this process, listening on loopback. Throws LOCAL_ENGINE_MISSING without the native engine. */
export async function startLocalChain(options: LocalChainOptions = {}, hooks?: ChainHooks): Promise<LocalChainHandle> {
  return (await startChainWithInternals(options, hooks)).handle;
}
