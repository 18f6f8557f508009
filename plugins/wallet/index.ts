import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accessPlans, accessRemoval, storedBudgets } from '../../src/ports/access.ts';
import { addressHistories } from '../../src/ports/address-history.ts';
import { compressedAssets } from '../../src/ports/compressed-assets.ts';
import { kernelPast } from '../../src/ports/ledger.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { tokenFacts, tokenPrices } from '../../src/ports/tokens.ts';
import { WALLET_COMMANDS } from './command-list.ts';
import { walletConfig } from './config.ts';

export default defineHostPlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [
    compressedAssets,
    kernelOutbox,
    kernelPast,
    tokenFacts,
    tokenPrices,
    accessPlans,
    accessRemoval,
    storedBudgets,
  ],
  offers: [addressHistories],
  commands: Object.values(WALLET_COMMANDS),
  migrations: async () => (await import('./store/tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
