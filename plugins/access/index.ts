import { defineHostPlugin } from '../../src/plugin/host.ts';
import { API_VERSION } from '../../src/plugin/plugin.ts';
import { accessAccounts, accessAdmin, accessBootstrap, accessCharges, accessPlans } from '../../src/ports/access.ts';
import { assembleAccess } from './assemble.ts';
import { accessConfig } from './config.ts';
import { migrations } from './tables.ts';

export default defineHostPlugin({
  id: 'access',
  apiVersion: API_VERSION,
  summary: 'projects, API keys, plans, credits and rates; the gate of every call that needs a key',
  config: accessConfig,
  offers: [accessAccounts, accessAdmin, accessBootstrap, accessCharges, accessPlans],
  migrations,
  provision: assembleAccess,
});
