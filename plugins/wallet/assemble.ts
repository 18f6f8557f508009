import type { Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import { balancesRoutes } from './balances/index.ts';
import type { WalletConfig } from './config.ts';
import { identityRoutes } from './identity/index.ts';

/** Puts the parts of the plugin together. */
export function assembleWallet(ctx: PluginContext<WalletConfig>): Contribution {
  const parts = [identityRoutes(ctx, ctx.config), balancesRoutes(ctx, ctx.config)];
  return {
    routes: parts.flatMap(({ routes }) => routes),
    checks: parts.flatMap(({ checks }) => checks ?? []),
    async start(signal) {
      for (const part of parts) await part.start?.(signal);
    },
    async reload(config) {
      for (const part of parts) await part.reload?.(config);
    },
    async stop() {
      for (const part of parts) await part.stop?.();
    },
  };
}
