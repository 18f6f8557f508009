import { API_VERSION, CodedError, definePlugin } from '../../src/kernel/plugin.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { tokenFacts } from '../../src/ports/token-facts.ts';
import { assembleWallet } from './assemble.ts';
import { walletConfig } from './config.ts';
import { WALLET_ERRORS } from './errors.ts';
import { migrations } from './store/migrations.ts';

export default definePlugin({
  id: 'wallet',
  apiVersion: API_VERSION,
  summary: 'history, transfers, past and present balances, first funding and identity of wallets',
  config: walletConfig,
  uses: [kernelOutbox, tokenFacts, tokenPrices],
  migrations,
  provision(ctx) {
    const outbox = ctx.use(kernelOutbox);
    if (outbox === undefined) throw new CodedError('WALLET_NO_OUTBOX', WALLET_ERRORS.WALLET_NO_OUTBOX);
    return assembleWallet(ctx, outbox);
  },
});
