import { defineHostPlugin } from '../../src/plugin/host.ts';
import { API_VERSION } from '../../src/plugin/plugin.ts';
import { accessAdmin } from '../../src/ports/access.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { operatorBootstrap } from '../../src/ports/dashboard.ts';
import { assembleDashboard } from './assemble.ts';
import { dashboardConfig } from './config.ts';
import { migrations } from './store.ts';

export default defineHostPlugin({
  id: 'dashboard',
  apiVersion: API_VERSION,
  summary: 'web pages for operators and owners of projects, on the admin listener',
  roles: ['api'],
  config: dashboardConfig,
  uses: [accessAdmin, kernelView],
  offers: [operatorBootstrap],
  migrations,
  provision: (ctx) => assembleDashboard(ctx),
});
