import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { SHADOW_COMMANDS } from './command-list.ts';
import { shadowConfig } from './config.ts';

/** Compares answers with a hosted service or a node. Not in the default list of plugins; without it nothing is drawn. */
export default defineHostPlugin({
  id: 'shadow',
  apiVersion: API_VERSION,
  summary: 'compares a share of the answers with those of a hosted service or a node',
  roles: ['api'],
  config: shadowConfig,
  uses: [kernelView],
  commands: Object.values(SHADOW_COMMANDS),
  migrations: async () => (await import('./tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
