import { API_VERSION, CodedError, definePlugin, type PluginContext } from '../../src/plugin/plugin.ts';
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

export default definePlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [kernelOutbox, tokenFacts, tokenPrices, accessPlans, storedBudgets],
  migrations,
  provision(ctx) {
    const outbox = ctx.use(kernelOutbox);
    if (outbox === undefined) throw new CodedError('WALLET_NO_OUTBOX', WALLET_ERRORS.WALLET_NO_OUTBOX);
    assembleWallet(ctx, outbox);
  },
});

/** Puts the parts of the plugin together. */
function assembleWallet(ctx: PluginContext<WalletConfig>, outbox: Outbox): void {
  const identity = identityRoutes(ctx, ctx.config);
  const tracking = trackingPart(ctx, outbox, identity.labelOf);
  const parts = [identity, balancesRoutes(ctx, ctx.config), tracking];
  for (const part of parts) {
    for (const route of part.routes) ctx.http.route(route);
    for (const { name, run } of part.checks ?? []) ctx.check(name, run);
    ctx.onStart((signal) => part.start?.(signal));
  }
  ctx.http.route(walletsRoute(ctx.store));
  for (const processor of tracking.processors) ctx.blocks.on(processor);
  for (const kind of tracking.jobs) ctx.jobs.define(kind);
  for (const command of tracking.commands) ctx.command(command);
  ctx.onStop(async () => {
    for (const part of parts) await part.stop?.();
  });
}
