import type { Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import type { Outbox } from '../../src/ports/outbox.ts';
import { balancesRoutes } from './balances/index.ts';
import type { WalletConfig } from './config.ts';
import { identityRoutes } from './identity/index.ts';
import { trackingPart } from './tracking/index.ts';
import { walletsRoute } from './tracking/wallets-route.ts';

/** Puts the parts of the plugin together. */
export function assembleWallet(ctx: PluginContext<WalletConfig>, outbox: Outbox): Contribution {
  const identity = identityRoutes(ctx, ctx.config);
  const tracking = trackingPart(ctx, outbox, identity.labelOf);
  const parts = [identity, balancesRoutes(ctx, ctx.config), tracking];
  return {
    routes: [...parts.flatMap(({ routes }) => routes), walletsRoute(ctx.store)],
    checks: parts.flatMap(({ checks }) => checks ?? []),
    ...{ processors: tracking.processors, jobs: tracking.jobs, commands: tracking.commands },
    async start(signal) {
      for (const part of parts) await part.start?.(signal);
    },
    async stop() {
      for (const part of parts) await part.stop?.();
    },
  };
}
