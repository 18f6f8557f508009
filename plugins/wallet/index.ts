import { type Contribution, defineHostPlugin, type HostContext } from '../../src/plugin/host.ts';
import { API_VERSION, CodedError } from '../../src/plugin/plugin.ts';
import { accessPlans, storedBudgets } from '../../src/ports/access.ts';
import { kernelOutbox, type Outbox } from '../../src/ports/outbox.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { tokenFacts } from '../../src/ports/token-facts.ts';
import { balancesRoutes } from './balances/index.ts';
import { type WalletConfig, walletConfig } from './config.ts';
import { WALLET_ERRORS } from './errors.ts';
import { identityRoutes } from './identity/index.ts';
import { migrations } from './store/rows.ts';
import { trackingPart } from './tracking/index.ts';
import { walletsRoute } from './tracking/wallets-route.ts';

export default defineHostPlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [kernelOutbox, tokenFacts, tokenPrices, accessPlans, storedBudgets],
  migrations,
  provision(ctx) {
    const outbox = ctx.use(kernelOutbox);
    if (outbox === undefined) throw new CodedError('WALLET_NO_OUTBOX', WALLET_ERRORS.WALLET_NO_OUTBOX);
    return assembleWallet(ctx, outbox);
  },
});

/** Puts the parts of the plugin together. */
function assembleWallet(ctx: HostContext<WalletConfig>, outbox: Outbox): Contribution {
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
