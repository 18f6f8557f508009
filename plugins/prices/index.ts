import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { tokenPrices } from '../../src/ports/tokens.ts';
import { pricesConfig } from './config.ts';

export default defineHostPlugin({
  id: 'prices',
  apiVersion: API_VERSION,
  summary: 'prices of tokens in US dollars, for the other plugins',
  roles: ['api'],
  config: pricesConfig,
  offers: [tokenPrices],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
