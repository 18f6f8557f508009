import { API_VERSION, definePlugin } from '../../src/kernel/plugin.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { tokenFacts } from '../../src/ports/token-facts.ts';
import { assembleWallet } from './assemble.ts';
import { walletConfig } from './config.ts';
import { migrations } from './store/migrations.ts';

export default definePlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [tokenFacts, tokenPrices],
  migrations,
  provision: (ctx) => assembleWallet(ctx),
});
