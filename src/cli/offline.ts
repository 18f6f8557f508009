import { createLog } from '../adapters/log.ts';
import { type Assembly, assemble } from '../kernel/assembly/assemble.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import type { FoundPlugin } from '../kernel/plugins/registry.ts';
import { chainSetups } from './chain-setups.ts';
import { composeParts } from './compose.ts';
import { readVersion } from './version.ts';

/** Stands where the address of the throw-away chain is not known because none runs. Nothing connects to it. */
const NO_CHAIN = { url: 'http://127.0.0.1:8899' };

/** Everything of a daemon up to the point where something would be opened. Logs nothing. */
export async function assembleOffline(config: LoadedConfig<FoundPlugin>): Promise<Assembly> {
  const local = config.core.upstream.urls.length === 0 ? NO_CHAIN : null;
  return await assemble({
    config,
    parts: composeParts(config.core, createLog({ level: 'silent', format: 'json' })),
    chains: chainSetups(config.core, local),
    version: readVersion(),
  });
}
