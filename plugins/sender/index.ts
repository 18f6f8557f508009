import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { sendRoutes } from '../../src/ports/upstream.ts';
import { senderConfig } from './config.ts';

/** Sends transactions to many nodes at once, and repeats them until they are final or expired. */
export default defineHostPlugin({
  id: 'sender',
  apiVersion: API_VERSION,
  summary:
    'GET /ping and POST /fast: transactions to all send upstreams at once, repeated until they are final or expired',
  roles: ['api'],
  config: senderConfig,
  offers: [sendRoutes],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
