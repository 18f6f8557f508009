import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { offChainDocuments, tokenFacts, tokenNames } from '../../src/ports/tokens.ts';
import { tokenMetadataConfig } from './config.ts';

export default defineHostPlugin({
  id: 'token-metadata',
  apiVersion: API_VERSION,
  summary: 'serves token metadata, from the chain and from off-chain documents',
  config: tokenMetadataConfig,
  offers: [tokenFacts, tokenNames, offChainDocuments],
  migrations: async () => (await import('./store.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
