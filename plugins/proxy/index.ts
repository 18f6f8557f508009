import { API_VERSION, defineHostPlugin, followedSubscriptions } from '../../src/plugin/host.ts';
import { accessCharges } from '../../src/ports/access.ts';
import { keptAnswers } from '../../src/ports/address-history.ts';
import { sendRoutes } from '../../src/ports/upstream.ts';
import { proxyConfig } from './config.ts';

/** JSON-RPC methods that no other plugin provides, and websocket subscriptions. */
export default defineHostPlugin({
  id: 'proxy',
  apiVersion: API_VERSION,
  summary: 'standard Solana JSON-RPC methods and websocket subscriptions through the configured upstreams',
  roles: ['api'],
  config: proxyConfig,
  uses: [sendRoutes, accessCharges, followedSubscriptions, keptAnswers],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
