import type { PluginContext } from '../../../src/plugin/plugin.ts';
import type { WalletConfig } from '../config.ts';
import type { Label, WalletPart } from '../part.ts';
import { createLabels } from './labels.ts';
import { createNames } from './names.ts';
import { batchIdentityRoute, identityRoute } from './routes.ts';

export interface IdentityPart extends WalletPart {
  /** The label of an address (base58), or null. */
  labelOf(address: string): Label | null;
}

/** Who is behind an address. */
export function identityRoutes(ctx: PluginContext<WalletConfig>, { identity }: WalletConfig): IdentityPart {
  const { clock, log, metrics } = ctx;
  const labels = createLabels({ ...identity, clock, log, metrics });
  const { unknownAs, batchUnknown } = identity;
  const context = { labels, names: createNames(ctx), unknownAs, batchUnknown };
  return {
    routes: [identityRoute(context), batchIdentityRoute(context)],
    labelOf: (address) => labels.find(address),
    // Labels are read where requests are answered.
    start: () => (ctx.roles.has('api') ? labels.start() : undefined),
    stop: () => labels.stop(),
  };
}
