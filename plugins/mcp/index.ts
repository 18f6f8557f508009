import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { mcpConfig } from './config.ts';

/** The interface as tools of the Model Context Protocol, for agents. */
export default defineHostPlugin({
  id: 'mcp',
  apiVersion: API_VERSION,
  summary: 'tools, resources and prompts for agents (Model Context Protocol): POST /mcp',
  roles: ['api'],
  config: mcpConfig,
  uses: [kernelView],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
