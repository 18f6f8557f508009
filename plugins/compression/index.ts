import { defineHostPlugin } from '../../src/plugin/host.ts';
import { API_VERSION } from '../../src/plugin/plugin.ts';
import { kernelGaps } from '../../src/ports/gaps.ts';
import { assembleCompression } from './assemble.ts';
import { compressionConfig } from './config.ts';
import { migrations } from './store/tables.ts';

export default defineHostPlugin({
  id: 'compression',
  apiVersion: API_VERSION,
  summary: 'indexes compressed accounts and proves them against their Merkle trees',
  roles: ['api', 'indexer'],
  config: compressionConfig,
  uses: [kernelGaps],
  migrations,
  provision: (ctx) => assembleCompression(ctx),
});
