import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { feesConfig } from './config.ts';

/** Priority fees, estimated from the blocks that are followed. */
export default defineHostPlugin({
  id: 'fees',
  apiVersion: API_VERSION,
  summary: 'getPriorityFeeEstimate: what transactions paid in the last 150 slots',
  roles: ['api', 'indexer'],
  config: feesConfig,
  migrations: async () => (await import('./window.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
