import type { PluginContext } from '../../../src/kernel/plugin.ts';
import type { WalletConfig } from '../config.ts';
import type { Label, WalletPart } from '../part.ts';

export interface IdentityPart extends WalletPart {
  /** The label of an address (base58), or null. */
  labelOf(address: string): Label | null;
}

/** Who is behind an address. */
export function identityRoutes(_ctx: PluginContext<WalletConfig>, _config: WalletConfig): IdentityPart {
  return { routes: [], labelOf: () => null };
}
