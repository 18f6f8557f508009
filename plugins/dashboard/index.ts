import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accessAdmin, accessRemoval } from '../../src/ports/access.ts';
import { kernelView, operatorBootstrap } from '../../src/ports/daemon-view.ts';
import { kernelGaps } from '../../src/ports/following.ts';
import { kernelApiPeers } from '../../src/ports/processes.ts';
import { offChainDocuments } from '../../src/ports/tokens.ts';
import { OPERATOR_COMMANDS, renewTokenCommand } from './command-list.ts';
import { dashboardConfig } from './config.ts';

export default defineHostPlugin({
  id: 'dashboard',
  apiVersion: API_VERSION,
  summary: 'web pages for operators and owners of projects, on the admin listener',
  config: dashboardConfig,
  uses: [accessAdmin, accessRemoval, kernelApiPeers, kernelGaps, kernelView, offChainDocuments],
  offers: [operatorBootstrap],
  commands: [renewTokenCommand, ...Object.values(OPERATOR_COMMANDS)],
  migrations: async () => (await import('./store.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
