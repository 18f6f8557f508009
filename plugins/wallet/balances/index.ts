import type { PluginContext } from '../../../src/kernel/plugin.ts';
import type { WalletConfig } from '../config.ts';
import type { WalletPart } from '../part.ts';

/** What a wallet holds now. */
export function balancesRoutes(_ctx: PluginContext<WalletConfig>, _config: WalletConfig): WalletPart {
  return { routes: [] };
}
