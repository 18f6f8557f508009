import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { compressedAssets } from '../../src/ports/compressed-assets.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { offChainDocuments, tokenPrices } from '../../src/ports/tokens.ts';
import { dasConfig } from './config.ts';

/**
 * The asset API. Accounts are read from the chain when they are asked for, or come from the index of what is followed; compressed assets come
 * from the index of the trees that the plugin `compression` follows.
 */
export default defineHostPlugin({
  id: 'das',
  apiVersion: API_VERSION,
  summary: 'the asset API (DAS) over the accounts of any upstream and over followed trees of compressed assets',
  config: dasConfig,
  uses: [offChainDocuments, tokenPrices, compressedAssets, kernelOutbox],
  migrations: async () => (await import('./indexing/tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
