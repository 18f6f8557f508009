import { API_VERSION, defineHostPlugin, followedSubscriptions, gateService } from '../../src/plugin/host.ts';
import { accessCharges, kernelTenants } from '../../src/ports/access.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { kernelThreadLine } from '../../src/ports/processes.ts';
import { streamsConfig } from './config.ts';

/**
 * Streams of transactions, blocks and slots over gRPC, and subscriptions of websockets. The gRPC listener is in the thread that follows the
 * chain, where each block is decoded once for all; the websockets are in the thread of the API, which gets their notifications over a line.
 */
export default defineHostPlugin({
  id: 'streams',
  apiVersion: API_VERSION,
  summary:
    'streams of transactions, blocks and slots over gRPC and websockets, for Yellowstone and LaserStream clients',
  roles: ['api', 'indexer'],
  config: streamsConfig,
  uses: [accessCharges, gateService, kernelLedger, kernelTenants, kernelThreadLine, parsedTransactions],
  offers: [followedSubscriptions],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
