import { API_VERSION, definePlugin } from '../../src/plugin/plugin.ts';
import { accessPlans, storedBudgets } from '../../src/ports/access.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { tokenFacts } from '../../src/ports/token-facts.ts';
import { assembleWallet } from './assemble.ts';
import { walletConfig } from './config.ts';
import { migrations } from './store/tables.ts';

export default definePlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [kernelOutbox, tokenFacts, tokenPrices, accessPlans, storedBudgets],
  migrations,
  provision: (ctx) => assembleWallet(ctx),
});
