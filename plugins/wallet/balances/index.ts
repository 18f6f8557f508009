import type { PluginContext } from '../../../src/kernel/plugin.ts';
import { tokenPrices } from '../../../src/ports/prices.ts';
import { tokenFacts } from '../../../src/ports/token-facts.ts';
import type { WalletConfig } from '../config.ts';
import { createChainCall } from '../input/chain-call.ts';
import type { WalletPart } from '../part.ts';
import { createFactsLookUp } from './facts.ts';
import { createNftReader } from './nfts.ts';
import { balancesRoute } from './route.ts';
import { createTables } from './tables.ts';

/** What a wallet holds now. */
export function balancesRoutes(ctx: PluginContext<WalletConfig>, { balances, commitment }: WalletConfig): WalletPart {
  const { clock, log, metrics } = ctx;
  const chain = createChainCall(ctx.chain('main'));
  const lookUp = createFactsLookUp(ctx.use(tokenFacts) ?? null);
  const prices = ctx.use(tokenPrices) ?? null;
  const tables = createTables({ chain, lookUp, prices, clock, log, metrics, commitment, ...balances });
  const nfts = createNftReader({ chain, lookUp, commitment, withCore: balances.core, log, metrics });
  return { routes: [balancesRoute({ tables, lookUp, nfts })] };
}
