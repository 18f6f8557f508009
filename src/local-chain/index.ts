import type { LocalChainHandle } from './handle.ts';
import { type ChainHooks, startChainWithInternals } from './in-process.ts';
import type { LocalChainOptions } from './options.ts';

export type { LocalChainHandle } from './handle.ts';
export { type LocalChainProcess, startLocalChainProcess } from './host.ts';
export type { ChainHooks } from './in-process.ts';
export type { LocalChainOptions } from './options.ts';

/** Starts a chain in this process, listening on loopback. Throws LOCAL_ENGINE_MISSING without the native engine. */
export async function startLocalChain(options: LocalChainOptions = {}, hooks?: ChainHooks): Promise<LocalChainHandle> {
  return (await startChainWithInternals(options, hooks)).handle;
}
