import { API_VERSION, defineHostPlugin, gateService } from '../../src/plugin/host.ts';
import {
  accessAccounts,
  accessAdmin,
  accessBootstrap,
  accessCharges,
  accessPlans,
  accessRemoval,
} from '../../src/ports/access.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { kernelApiPeers } from '../../src/ports/processes.ts';
import { KEY_COMMANDS, PROJECT_COMMANDS } from './command-list.ts';
import { accessConfig } from './config.ts';

export default defineHostPlugin({
  id: 'access',
  apiVersion: API_VERSION,
  summary: 'projects, API keys, plans, credits and rates; the gate of every call that needs a key',
  config: accessConfig,
  uses: [kernelApiPeers, kernelView],
  offers: [accessAccounts, accessAdmin, accessBootstrap, accessCharges, accessPlans, accessRemoval, gateService],
  commands: [...Object.values(PROJECT_COMMANDS), ...Object.values(KEY_COMMANDS)],
  migrations: async () => (await import('./tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
