import type { PluginContext } from '../../../src/kernel/plugin.ts';
import type { WalletConfig } from '../config.ts';
import type { Label, WalletPart } from '../part.ts';
import { batchIdentityRoute } from './batch-route.ts';
import { identityRoute } from './identity-route.ts';
import { createLabels } from './labels/labels.ts';
import { createNames } from './names/names.ts';

export interface IdentityPart extends WalletPart {
  /** The label of an address (base58), or null. */
  labelOf(address: string): Label | null;
}

/** Who is behind an address. */
export function identityRoutes(ctx: PluginContext<WalletConfig>, { identity }: WalletConfig): IdentityPart {
  const { clock, log, metrics } = ctx;
  const labels = createLabels({ ...identity, clock, log, metrics });
  const context = { labels, names: createNames(ctx), unknownAs: identity.unknownAs };
  return {
    routes: [identityRoute(context), batchIdentityRoute(context)],
    labelOf: (address) => labels.find(address),
    // Labels are read where requests are answered.
    start: () => (ctx.roles.has('api') ? labels.start() : undefined),
    stop: () => labels.stop(),
  };
}
