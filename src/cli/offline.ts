import { openTellingBus } from '../adapters/bus/open.ts';
import { createLog } from '../adapters/log.ts';
import { createSystemRandom } from '../adapters/random.ts';
import { type Assembly, assemble } from '../kernel/assembly/assemble.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import type { FoundPlugin } from '../kernel/plugins/registry.ts';
import type { Bus } from '../ports/bus.ts';
import { chainSetups } from './chain-setups.ts';
import { composeParts } from './compose.ts';
import { readVersion } from './version.ts';

/** Stands where the address of the throw-away chain is not known because none runs. Nothing connects to it. */
const NO_CHAIN = { url: 'http://127.0.0.1:8899' };

/** An assembly that is not started, and the bus that its plugins tell things on; they arrive when it is closed. */
export interface OfflineAssembly extends Assembly {
  readonly bus: Bus;
}

/** Everything of a daemon up to the point where something would be opened. Logs nothing. */
export async function assembleOffline(config: LoadedConfig<FoundPlugin>): Promise<OfflineAssembly> {
  const local = config.core.upstream.urls.length === 0 ? NO_CHAIN : null;
  const log = createLog({ level: 'silent', format: 'json' });
  const bus = openTellingBus({ storeUrl: config.core.store.url, random: createSystemRandom(), log });
  const parts = { ...composeParts(config.core, log), bus };
  const assembly = await assemble({ config, parts, chains: chainSetups(config.core, local), version: readVersion() });
  return { ...assembly, bus };
}
