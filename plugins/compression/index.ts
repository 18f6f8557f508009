import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { compressedAssets } from '../../src/ports/compressed-assets.ts';
import { kernelGaps } from '../../src/ports/following.ts';
import { COMPRESSION_COMMANDS } from './command-list.ts';
import { compressionConfig } from './config.ts';

export default defineHostPlugin({
  id: 'compression',
  apiVersion: API_VERSION,
  summary: 'indexes compressed accounts and proves them against their Merkle trees',
  roles: ['api', 'indexer'],
  config: compressionConfig,
  uses: [kernelGaps],
  offers: [compressedAssets],
  commands: Object.values(COMPRESSION_COMMANDS),
  migrations: async () => (await import('./store/tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
