import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accountsConfig } from './config.ts';

/** Lists of accounts, page by page, over nodes that only give all at once. */
export default defineHostPlugin({
  id: 'accounts',
  apiVersion: API_VERSION,
  summary: 'getProgramAccountsV2 and getTokenAccountsByOwnerV2: accounts in pages, over any upstream',
  roles: ['api'],
  config: accountsConfig,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
