import { API_VERSION, definePlugin } from '../../src/plugin/plugin.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { assemblePrices } from './assemble.ts';
import { pricesConfig } from './config.ts';

export default definePlugin({
  id: 'prices',
  apiVersion: API_VERSION,
  summary: 'prices of tokens in US dollars, for the other plugins',
  roles: ['api'],
  config: pricesConfig,
  offers: [tokenPrices],
  provision: (ctx) => assemblePrices(ctx),
});
