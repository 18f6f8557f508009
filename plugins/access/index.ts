import { API_VERSION, definePlugin } from '../../src/kernel/plugin.ts';
import { accessBootstrap } from '../../src/ports/access.ts';
import { createBootstrap } from './bootstrap.ts';
import { keyCommands } from './commands/keys.ts';
import { projectCommands } from './commands/projects.ts';
import { accessConfig } from './config.ts';
import { createGate } from './gate.ts';
import { migrations } from './migrations.ts';
import { createProjects } from './projects.ts';

export default definePlugin({
  id: 'access',
  apiVersion: API_VERSION,
  summary: 'projects and API keys; the gate of every call that needs one',
  config: accessConfig,
  offers: [accessBootstrap],
  migrations,
  provision({ store, clock, random, config }) {
    const projects = createProjects(clock, random);
    return {
      gate: createGate({ store, clock, config }),
      services: [{ token: accessBootstrap, service: createBootstrap(store, projects) }],
      commands: [...projectCommands(projects), ...keyCommands(projects, clock)],
    };
  },
});
