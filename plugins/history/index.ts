import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { addressHistories, addressWalks, keptAnswers } from '../../src/ports/address-history.ts';
import { kernelJoinedHistory, kernelPast } from '../../src/ports/ledger.ts';
import { tokenFacts } from '../../src/ports/tokens.ts';
import { historyConfig } from './config.ts';

/** The history of any address behind plain nodes: from the index of the plugin `wallet`, which is made on the first call. */
export default defineHostPlugin({
  id: 'history',
  apiVersion: API_VERSION,
  summary: 'the history of any address, over any upstream, and standard methods about the past from the ledger',
  roles: ['api'],
  config: historyConfig,
  uses: [addressHistories, tokenFacts, kernelJoinedHistory, kernelPast],
  offers: [addressWalks, keptAnswers],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
