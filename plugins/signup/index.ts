import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accessAccounts, accessAdmin, accessCharges, accessRemoval } from '../../src/ports/access.ts';
import { signupConfig } from './config.ts';

/** Keys for whoever pays: agents need no operator. Not in the usual list of plugins. */
export default defineHostPlugin({
  id: 'signup',
  apiVersion: API_VERSION,
  summary: 'gives API keys for payments on the chain, and answers calls that are paid one by one',
  config: signupConfig,
  uses: [accessAccounts, accessAdmin, accessCharges, accessRemoval],
  migrations: async () => (await import('./tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
